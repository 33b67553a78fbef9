import { call, eventually } from '../../harness/harness.ts'

const PAUSE_AFTER_FAILURE_MS = 20

/** Follows the event feed by its cursors, through one API process and then the next, whatever fails in between. */
export function startPuller(urls: readonly string[], key: string) {
  const pulled: string[] = []
  const refused: string[] = []
  let cursor: string | undefined
  let over = false
  let turn = 0
  let isAtEnd = false

  async function pull(after: string | undefined): Promise<{ ids: string[]; cursor: string; hasMore: boolean } | null> {
    const query = new URLSearchParams({ limit: '1000', wait: '1', ...(after === undefined ? {} : { after }) })
    const url = urls[turn++ % urls.length] as string
    const answer = await call(url, 'GET', `/v1/events?${query}`, { key }).catch(() => null)
    if (answer?.status === 200) {
      const { events, nextCursor, hasMore, missed } = answer.body.data
      if (missed) refused.push(`missed after ${after}`)
      return { ids: events.map(({ id }: { id: string }) => id), cursor: nextCursor, hasMore }
    }
    // What an outage answers; anything else says that a place was told which is not there any more.
    if (answer !== null && answer.body?.code !== 'internal_error') refused.push(`${answer.status} ${answer.text}`)
    return null
  }

  async function follow(): Promise<void> {
    while (!over) {
      const page = await pull(cursor)
      if (page === null) {
        await new Promise((resolve) => setTimeout(resolve, PAUSE_AFTER_FAILURE_MS))
        continue
      }
      pulled.push(...page.ids)
      cursor = page.cursor
      isAtEnd = page.ids.length === 0 && !page.hasMore
    }
  }

  const following = follow()
  return {
    /** Ends at the end of the feed. @returns the ids that were pulled, and those of the feed read anew from its start */
    async stop(): Promise<{ pulled: string[]; whole: string[]; refused: string[] }> {
      await eventually('the end of the feed', async () => isAtEnd)
      over = true
      await following
      const whole: string[] = []
      for (let after: string | undefined; ; ) {
        const page = await eventually('the feed', () => pull(after))
        whole.push(...page.ids)
        after = page.cursor
        if (!page.hasMore) return { pulled, whole, refused }
      }
    },
  }
}
