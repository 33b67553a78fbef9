/** Within which time an amount may be spent. */
export type Window = 'lifetime' | 'rolling_24h' | 'rolling_30d' | 'day_utc'

/** A rolling window of a policy's own length. */
export interface Rolling {
  seconds: number
}

/** What was spent or reserved within a window, in base units as decimal text, by bucket. */
export type Buckets = { [bucket: string]: string }

/**
 * The same for several limits. Buckets: `all`; a day `2026-11-21`; the beginning of a quarter of an hour, `2026-11-21T08:30Z`, or
 * of six hours, `2026-11-21T06Z`; the beginning of a slice of a window of 3600 seconds, `1763713800/3600`. Those of one window
 * sort by time as text.
 */
export type Spent = { [slot: string]: Buckets }

/** An amount in a bucket of a limit. */
export interface Part {
  slot: string
  bucket: string
  /** Base units, as decimal text. */
  units: string
}

const LIFETIME_BUCKET = 'all'
const MINUTE_MS = 60_000
const HOUR_MS = 60 * MINUTE_MS
const DAY_MS = 24 * HOUR_MS
const DAY_CHARS = '2026-11-21'.length

/** The windows that are kept in slices: how long a slice is, how long each counts after its end, and how it is named. */
const SLICED = {
  rolling_24h: { sliceMs: 15 * MINUTE_MS, windowMs: DAY_MS, chars: '2026-11-21T08:30'.length },
  rolling_30d: { sliceMs: 6 * HOUR_MS, windowMs: 30 * DAY_MS, chars: '2026-11-21T06'.length },
} as const

/** How a window is kept in slices. */
interface Slicing {
  sliceMs: number
  windowMs: number
  /** The name of the slice that begins at a time. */
  nameOf: (beginningMs: number) => string
}

const SLICES_MAX = 60
const SECOND_MS = 1_000

const named = ({ sliceMs, windowMs, chars }: (typeof SLICED)[keyof typeof SLICED]): Slicing => ({
  sliceMs,
  windowMs,
  nameOf: (beginningMs) => `${new Date(beginningMs).toISOString().slice(0, chars)}Z`,
})

/** A window of a policy's own length has slices of whole seconds. */
const rolling = (seconds: number): Slicing => ({
  sliceMs: Math.ceil(seconds / SLICES_MAX) * SECOND_MS,
  windowMs: seconds * SECOND_MS,
  nameOf: (beginningMs) => `${beginningMs / SECOND_MS}/${seconds}`,
})

const dayOf = (timeMs: number) => new Date(timeMs).toISOString().slice(0, DAY_CHARS)
const sliceOf = (timeMs: number, { sliceMs, nameOf }: Slicing) => nameOf(timeMs - (timeMs % sliceMs))

const OF_OWN_LENGTH = /^(\d{10})\/(\d{1,7})$/

/** When a slice begins. */
function beginningOf(bucket: string): number {
  const own = OF_OWN_LENGTH.exec(bucket)
  if (own !== null) return Number(own[1]) * SECOND_MS
  return Date.parse(bucket.includes(':') ? bucket : bucket.replace('Z', ':00Z'))
}

/** How a bucket's window is sliced, which its name says. */
function slicingOf(bucket: string): Slicing | undefined {
  const own = OF_OWN_LENGTH.exec(bucket)
  if (own !== null) return rolling(Number(own[2]))
  const known = Object.values(SLICED).find(({ chars }) => bucket.length === chars + 1)
  return known && named(known)
}

/** The last name of buckets. */
const lastOf = (buckets: readonly string[]) => buckets.reduce((last, bucket) => (bucket > last ? bucket : last), '')

/** The bucket for charges now. Never earlier than the last charged one: a clock set back must not reopen an old window. */
function bucketFor(window: Window | Rolling, charged: readonly string[], now: Date): string {
  if (window === 'lifetime') return LIFETIME_BUCKET
  if (window === 'day_utc') return lastOf([...charged, dayOf(now.getTime())])
  const slicing = typeof window === 'object' ? rolling(window.seconds) : named(SLICED[window])
  return lastOf([...charged, sliceOf(now.getTime(), slicing)])
}

/** The first bucket that still counts while charges go to `bucket`: a slice does until its end is as long ago as the window. */
function firstCounting(bucket: string): string {
  if (bucket === LIFETIME_BUCKET || bucket.length === DAY_CHARS) return bucket
  const slicing = slicingOf(bucket)
  // What cannot be read must not count as nothing.
  if (slicing === undefined) throw new RangeError(`"${bucket}" is no bucket of a window`)
  return sliceOf(beginningOf(bucket) - slicing.windowMs, slicing)
}

/** The bucket for a limit's charges now, what is spent in its window, and when some of that no longer counts (null: never). */
export function standing(
  window: Window | Rolling,
  buckets: Buckets,
  now: Date,
): { bucket: string; sum: bigint; resetsAt: Date | null } {
  const bucket = bucketFor(window, Object.keys(buckets), now)
  const first = firstCounting(bucket)
  const counting = Object.entries(buckets).filter(([name, units]) => name >= first && units !== '0')
  const sum = counting.reduce((all, [, units]) => all + BigInt(units), 0n)
  return { bucket, sum, resetsAt: resetOf(bucket, counting.map(([name]) => name).sort()[0]) }
}

/** When the oldest bucket that counts, if any does, stops counting. */
function resetOf(bucket: string, oldest: string | undefined): Date | null {
  if (oldest === undefined || bucket === LIFETIME_BUCKET) return null
  const slicing = slicingOf(bucket)
  if (slicing === undefined) return new Date(Date.parse(bucket) + DAY_MS)
  return new Date(beginningOf(oldest) + slicing.windowMs + slicing.sliceMs)
}

export const positive = (units: bigint): bigint => (units > 0n ? units : 0n)

/** What is spent once parts are reserved. Buckets of the charged limits that no longer count are left out. */
export function addParts(spent: Spent, parts: readonly Part[]): Spent {
  const after: Spent = { ...spent }
  for (const { slot, bucket, units } of parts) {
    const buckets = after[slot] ?? {}
    const first = firstCounting(lastOf([...Object.keys(buckets), bucket]))
    const kept = Object.entries(buckets).filter(([name]) => name >= first)
    const sum = BigInt(buckets[bucket] ?? 0) + BigInt(units)
    after[slot] = { ...Object.fromEntries(kept), [bucket]: sum.toString() }
  }
  return after
}

/**
 * What is spent after parts are released, because their transaction certainly did not happen. Emptied buckets stay, with 0,
 * because the last one records how far the clock was. Parts of buckets that no longer exist are ignored.
 */
export function removeParts(spent: Spent, parts: readonly Part[]): Spent {
  const after: Spent = { ...spent }
  for (const { slot, bucket, units } of parts) {
    const sum = after[slot]?.[bucket]
    if (sum === undefined) continue
    after[slot] = { ...after[slot], [bucket]: positive(BigInt(sum) - BigInt(units)).toString() }
  }
  return after
}
