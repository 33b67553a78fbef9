import { setTimeout as delay } from 'node:timers/promises'
import type { EventPage } from '../../../../sdk/src/index.ts'
import { type CliContext, UsageError } from './command.ts'
import { type Remote, retryTransient } from './remote.ts'

/** The feed's query parameter that says where to begin. */
export type FeedStart = { after: string } | { since: string } | { last: number }

const WAIT_SECONDS = 25
/** From the beginning of a call that waits to the answer's last byte. */
const ANSWER_MS = WAIT_SECONDS * 1_000 + 30_000
const PAGE_MAX = 1_000
/** The least time between two empty answers, also where a proxy cuts the waiting short. */
const EMPTY_MS = 250
const UNITS_MS = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const

/**
 * Reads where to begin: `now`, a cursor, a time, or how long ago (`90s`, `15m`, `1h`, `2d`).
 * @throws UsageError
 */
export function readStart(text: string, nowMs: number): FeedStart {
  if (text === 'now') return { last: 0 }
  if (text.startsWith('cur_')) return { after: text }
  const [, count, unit] = /^(\d{1,6})([smhd])$/.exec(text) ?? []
  if (count !== undefined) {
    const ms = Number(count) * UNITS_MS[unit as keyof typeof UNITS_MS]
    return { since: new Date(Math.max(0, nowMs - ms)).toISOString() }
  }
  const atMs = /^\d{4}-\d\d-\d\dT/.test(text) ? Date.parse(text) : Number.NaN
  if (Number.isNaN(atMs))
    throw new UsageError(
      '--since must be now, a cursor (cur_…), a time such as 2026-11-21T08:30:00Z, or 90s, 15m, 1h, 2d.',
    )
  return { since: new Date(atMs).toISOString() }
}

/**
 * The feed's pages, empty ones too, until the signal is aborted. When it begins at a time, the first page has one event, so that a
 * cursor is known early.
 * @throws HalfkeyError of the first call, later those that are not transient, and the signal's reason
 */
export async function* followFeed(
  remote: Remote,
  context: Pick<CliContext, 'err'>,
  { start, type, signal }: { start: FeedStart; type: string | undefined; signal: AbortSignal },
): AsyncGenerator<EventPage> {
  const limit = 'since' in start ? 1 : PAGE_MAX
  const { events } = remote.client
  let page = await events.list({ ...start, type, limit }, { signal })
  for (;;) {
    if (page.missed) context.err('Some events are missing: they are older than the retention period.')
    yield page
    if (page.events.length === 0 && !page.hasMore) await delay(EMPTY_MS, undefined, { signal })
    const query = { after: page.nextCursor, type, limit: PAGE_MAX, wait: WAIT_SECONDS }
    page = await retryTransient(remote, context, signal, () => events.list(query, { signal, timeoutMs: ANSWER_MS }))
  }
}
