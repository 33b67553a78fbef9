/** One page of a list, as the API answers it (specification, section 2). */
export interface Page<T> {
  /** Newest first. */
  data: T[]
  /** Records on all pages. */
  total: number
  /** From 1. */
  page: number
  pageSize: number
  hasMore: boolean
}

/**
 * A list: a promise of the page that was asked for, and an iterable over its records and those of all pages after it.
 *
 * The iterable asks for the next page when it gets there. A record that newer ones push over a page's edge meanwhile
 * comes once all the same; but records deleted meanwhile pull others over the edge, unseen. So to delete while
 * iterating, collect first.
 */
export type List<T> = Promise<Page<T>> & AsyncIterable<T>

/** The last page that the API knows. */
const PAGE_MAX = 9_999_999

/** What tells records of a list apart: their id; event types, which have none, by type. */
function identityOf(record: unknown): unknown {
  const { id, type } = record as { id?: unknown; type?: unknown }
  return id ?? type ?? record
}

/**
 * Makes a list out of a way to get a page. The first one is asked for at once.
 * @param getPage answers the page with this number, or the one that the caller wants first for `undefined`
 */
export function list<T>(getPage: (page: number | undefined) => Promise<Page<T>>): List<T> {
  const first = getPage(undefined)
  async function* records(): AsyncGenerator<T, void, undefined> {
    let before = new Set<unknown>()
    let page = await first
    for (;;) {
      for (const record of page.data) {
        // Records made since the last page was read have moved its end to this one's beginning.
        if (!before.has(identityOf(record))) yield record
      }
      if (!page.hasMore || page.data.length === 0 || page.page >= PAGE_MAX) return
      before = new Set(page.data.map(identityOf))
      page = await getPage(page.page + 1)
    }
  }
  return Object.assign(first, { [Symbol.asyncIterator]: records })
}
