import { isHalfkeyError, type WebhookEvent } from '@halfkey/sdk'
import { useEffect, useRef, useState } from 'react'
import { api } from '../../api.ts'

const KEPT_MAX = 1_000
const PORTION = 100
const WAIT_SECONDS = 20
const TIMEOUT_MS = 30_000
/** The pause between two reads, which batches a burst of events. */
const PAUSE_MS = 300
const AGAIN_MS = 3_000

/** The state of the feed view. */
export interface Feed {
  /** The newest first; null until the first answer. */
  events: WebhookEvent[] | null
  /** Why the last read failed. Reads are retried unless the server refused them. */
  error: unknown
  refused: boolean
}

const NOTHING: Feed = { events: null, error: null, refused: false }

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms)
    signal.addEventListener('abort', () => {
      clearTimeout(timer)
      resolve()
    })
  })
}

/** Merges newer events on top, without duplicates. */
function grown(before: WebhookEvent[] | null, after: readonly WebhookEvent[]): WebhookEvent[] {
  const known = new Set(after.map(({ id }) => id))
  return [...after.toReversed(), ...(before ?? []).filter(({ id }) => !known.has(id))].slice(0, KEPT_MAX)
}

function isRefusal(error: unknown): boolean {
  return isHalfkeyError(error) && error.status >= 400 && error.status < 500 && error.status !== 429
}

interface Wanted {
  type: string | undefined
  last: number
}

/** Reads the feed from its position until it is aborted; `once`: only the first batch. */
async function follow(
  { type, last, once }: Wanted & { once: boolean },
  cursor: { current: string | undefined },
  signal: AbortSignal,
  onChange: (change: (before: Feed) => Feed) => void,
): Promise<void> {
  while (!signal.aborted) {
    const place =
      cursor.current === undefined
        ? { last, limit: last }
        : { after: cursor.current, limit: PORTION, wait: WAIT_SECONDS }
    try {
      const page = await api.events.list({ ...place, type }, { signal, timeoutMs: TIMEOUT_MS })
      if (signal.aborted) return
      cursor.current = page.nextCursor
      onChange((before) => ({ events: grown(before.events, page.events), error: null, refused: false }))
      if (once) return
      await pause(page.hasMore ? 0 : PAUSE_MS, signal)
    } catch (error) {
      if (signal.aborted) return
      const refused = isRefusal(error)
      onChange((before) => ({ ...before, error, refused }))
      if (refused) return
      await pause(AGAIN_MS, signal)
    }
  }
}

/** The latest events of a type, and new ones while `paused` is false. After a pause it catches up. */
export function useFeed({ type, last }: Wanted, paused: boolean): Feed & { again: () => void } {
  const [feed, setFeed] = useState(NOTHING)
  const [tries, setTries] = useState(0)
  const cursor = useRef<string | undefined>(undefined)
  // biome-ignore lint/correctness/useExhaustiveDependencies: another question begins anew; the same asked again does too
  useEffect(() => {
    cursor.current = undefined
    setFeed(NOTHING)
  }, [type, last, tries])
  // biome-ignore lint/correctness/useExhaustiveDependencies: as above
  useEffect(() => {
    if (paused && cursor.current !== undefined) return undefined
    const controller = new AbortController()
    void follow({ type, last, once: paused }, cursor, controller.signal, setFeed)
    return () => controller.abort()
  }, [type, last, paused, tries])
  return { ...feed, again: () => setTries((before) => before + 1) }
}
