import { useSyncExternalStore } from 'react'

const TICK_MS = 10_000
/** Times within this distance count as now: clocks of two machines differ. */
const NOW_SECONDS = 5
const UNITS: [Intl.RelativeTimeFormatUnit, number][] = [
  ['year', 31_557_600],
  ['month', 2_629_800],
  ['week', 604_800],
  ['day', 86_400],
  ['hour', 3_600],
  ['minute', 60],
]
const relative = new Intl.RelativeTimeFormat('en', { numeric: 'auto' })
const exact = new Intl.DateTimeFormat('en', { dateStyle: 'medium', timeStyle: 'long' })

let nowMs = Date.now()
const listeners = new Set<() => void>()
let timer: number | undefined

function subscribe(listener: () => void): () => void {
  listeners.add(listener)
  timer ??= window.setInterval(() => {
    nowMs = Date.now()
    for (const each of listeners) each()
  }, TICK_MS)
  return () => {
    listeners.delete(listener)
    if (listeners.size > 0) return
    window.clearInterval(timer)
    timer = undefined
  }
}

function spell(atMs: number, fromMs: number): string {
  const seconds = Math.round((atMs - fromMs) / 1000)
  const [unit, size] = UNITS.find(([, each]) => Math.abs(seconds) >= each) ?? []
  if (unit === undefined || size === undefined) return seconds > NOW_SECONDS ? 'in a moment' : 'just now'
  return relative.format(Math.trunc(seconds / size), unit)
}

/** A relative time, with the exact time as `title` and `datetime`. `none` is shown for null. */
export function RelativeTime({ at, none = '–' }: { at: string | null | undefined; none?: string }) {
  const now = useSyncExternalStore(subscribe, () => nowMs)
  if (at === null || at === undefined) return <>{none}</>
  const date = new Date(at)
  return (
    <time dateTime={at} title={exact.format(date)} className="whitespace-nowrap">
      {spell(date.getTime(), Math.max(now, Date.now()))}
    </time>
  )
}
