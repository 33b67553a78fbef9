import { isHalfkeyError, type Page } from '@halfkey/sdk'

/** Turns the 404 of a filter by an unknown id into an empty list. */
export async function unknownIsEmpty<T>(list: PromiseLike<Page<T>>): Promise<Page<T>> {
  try {
    return await list
  } catch (error) {
    if (!isHalfkeyError(error, 'not_found')) throw error
    return { data: [], total: 0, page: 1, pageSize: 20, hasMore: false }
  }
}
