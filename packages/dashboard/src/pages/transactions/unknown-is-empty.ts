import { isHalfkeyError, type Page } from '@halfkey/sdk'

/** A list by a filter whose id names nothing here: nothing matches it, which is no failure of the page. */
export async function unknownIsEmpty<T>(list: PromiseLike<Page<T>>): Promise<Page<T>> {
  try {
    return await list
  } catch (error) {
    if (!isHalfkeyError(error, 'not_found')) throw error
    return { data: [], total: 0, page: 1, pageSize: 20, hasMore: false }
  }
}
