/** One page of a list, as the API returns it (specification, section 2). */
export interface Page<T> {
  /** In the order of `sort`; by default newest first. */
  data: T[]
  /** Records on all pages. */
  total: number
  /** From 1. */
  page: number
  pageSize: number
  hasMore: boolean
}

/**
 * A list: a promise of the requested page, and an iterable over its records and those of all later pages.
 *
 * The iterable requests the next page when it reaches it. A record that newer ones push onto the next page is returned
 * once. Deleted records pull later ones onto a page that was already read, so those are missed: to delete while
 * iterating, collect the records first.
 */
export type List<T> = Promise<Page<T>> & AsyncIterable<T>

/** The last page that the API knows. */
const PAGE_MAX = 9_999_999

/** Identifies a record of a list: its id, or the type of an event type, which has no id. */
function identityOf(record: unknown): unknown {
  const { id, type } = record as { id?: unknown; type?: unknown }
  return id ?? type ?? record
}

/**
 * Creates a list from a function that gets a page. The first page is requested at once.
 * @param getPage returns the page with this number, or for `undefined` the page that the caller requested
 */
export function list<T>(getPage: (page: number | undefined) => Promise<Page<T>>): List<T> {
  const first = getPage(undefined)
  async function* records(): AsyncGenerator<T, void, undefined> {
    let before = new Set<unknown>()
    let page = await first
    for (;;) {
      for (const record of page.data) {
        // New records have moved the end of the last page to the beginning of this one.
        if (!before.has(identityOf(record))) yield record
      }
      if (!page.hasMore || page.data.length === 0 || page.page >= PAGE_MAX) return
      before = new Set(page.data.map(identityOf))
      page = await getPage(page.page + 1)
    }
  }
  return Object.assign(first, { [Symbol.asyncIterator]: records })
}
