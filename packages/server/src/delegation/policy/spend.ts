import { formatAmount } from '../../platform/ports/amount.ts'
import type { Flow } from '../../platform/ports/ledger.ts'
import type { CompiledPolicy, CompiledSpend, RuleName } from './policy.ts'
import type { Spend } from './policy-schema.ts'

type Window = NonNullable<Spend['window']>
type Asset = Spend['asset']

/**
 * What a session has spent or reserved, in base units as decimal text: by the index of the policy's spend entry, then by
 * bucket. An amount counts from its reservation and is returned only when the transaction fails (`execute/record.ts`).
 * Buckets: `all`; a day `2026-11-21`; the beginning of a quarter of an hour, `2026-11-21T08:30Z`. Those of one window
 * sort by time as text.
 */
export type Spent = { [entry: string]: { [bucket: string]: string } }

/** What a transaction takes from a cap. */
export interface Charge {
  /** Index of the policy's spend entry. */
  entry: number
  bucket: string
  /** Base units, as decimal text. */
  units: string
}

/** Why a transaction may not be charged. Amounts have the form of the API. */
export type SpendDenial =
  | { code: 'policy_denied'; rule: RuleName; message: string; asset: Asset; asked: string }
  | {
      code: 'spend_limit_exceeded'
      rule: RuleName
      message: string
      asset: Asset
      window: Window
      limit: string
      spent: string
      asked: string
      remaining: string
    }

/** What is left of a spend entry; nulls if it has no limit, because such entries are not counted. */
export interface Remaining {
  asset: Asset
  window: Window | null
  limit: string | null
  spent: string | null
  remaining: string | null
}

const LIFETIME_BUCKET = 'all'
const DAY_MS = 24 * 60 * 60_000
const SLICE_MS = 15 * 60_000
const DAY_CHARS = '2026-11-21'.length
const MINUTE_CHARS = '2026-11-21T08:30'.length

const dayOf = (timeMs: number) => new Date(timeMs).toISOString().slice(0, DAY_CHARS)
const sliceOf = (timeMs: number) => `${new Date(timeMs - (timeMs % SLICE_MS)).toISOString().slice(0, MINUTE_CHARS)}Z`

/** The last name of buckets. */
const lastOf = (buckets: readonly string[]) => buckets.reduce((last, bucket) => (bucket > last ? bucket : last), '')

/**
 * The bucket for charges now. Never earlier than the last charged one: a clock set back must not reopen an old window.
 */
function bucketFor(window: Window, charged: readonly string[], now: Date): string {
  if (window === 'lifetime') return LIFETIME_BUCKET
  return lastOf([...charged, window === 'day_utc' ? dayOf(now.getTime()) : sliceOf(now.getTime())])
}

/** The first bucket that still counts while charges go to `bucket`: a slice does until its end is 24 hours ago. */
function firstCounting(bucket: string): string {
  return bucket.length > DAY_CHARS ? sliceOf(Date.parse(bucket) - DAY_MS) : bucket
}

const bucketsOf = (spent: Spent, entry: number) => spent[entry] ?? {}

/** The bucket for an entry's charges now, and the total of its window. */
function standing(window: Window, buckets: { [bucket: string]: string }, now: Date): { bucket: string; sum: bigint } {
  const bucket = bucketFor(window, Object.keys(buckets), now)
  const first = firstCounting(bucket)
  const counting = Object.entries(buckets).filter(([name]) => name >= first)
  return { bucket, sum: counting.reduce((sum, [, units]) => sum + BigInt(units), 0n) }
}

const positive = (units: bigint) => (units > 0n ? units : 0n)

/**
 * The cost of each asset: the sum of what the party gives away and what the transaction issues. Counted for each command:
 * income of one command does not offset the cost of another. Only an issuer has both parts; for all others, nothing is
 * issued.
 */
function costs(flows: readonly Flow[], party: string): { asset: Asset; units: bigint }[] {
  const byAsset = new Map<string, { asset: Asset; given: Map<number, bigint>; issued: bigint }>()
  for (const { command, asset, owner, consumed, created } of flows) {
    const key = JSON.stringify([asset.issuer, asset.symbol])
    const { issuer, symbol } = asset
    const one = byAsset.get(key) ?? { asset: { issuer, symbol }, given: new Map<number, bigint>(), issued: 0n }
    if (owner === party) one.given.set(command, (one.given.get(command) ?? 0n) + consumed - created)
    one.issued += created - consumed
    byAsset.set(key, one)
  }
  return [...byAsset.values()].map(({ asset, given, issued }) => ({
    asset,
    units: [...given.values()].map(positive).reduce((sum, units) => sum + units, positive(issued)),
  }))
}

const named = ({ issuer, symbol }: CompiledSpend, asset: Asset) => issuer === asset.issuer && symbol === asset.symbol

function exceeded(entry: number, asset: Asset, cap: NonNullable<CompiledSpend['cap']>, sum: bigint, units: bigint) {
  const remaining = formatAmount(positive(cap.limit - sum))
  const asked = formatAmount(units)
  return {
    code: 'spend_limit_exceeded',
    rule: `spend[${entry}]`,
    message: `This would spend ${asked} ${asset.symbol}; ${remaining} are left of the policy's spend[${entry}].`,
    asset,
    window: cap.window,
    limit: formatAmount(cap.limit),
    spent: formatAmount(sum),
    asked,
    remaining,
  } as const
}

/**
 * What a transaction must be charged with, or why it may not happen. Changes nothing. To reserve the charges, the caller
 * holds the session's row from reading `spent` to writing it.
 */
export function charge(
  policy: CompiledPolicy,
  spent: Spent,
  flows: readonly Flow[],
  party: string,
  now: Date,
): { charges: Charge[] } | { denied: SpendDenial } {
  const moving = costs(flows, party).filter(({ units }) => units > 0n)
  const unnamed = moving.find(({ asset }) => !policy.spend.some((entry) => named(entry, asset)))
  if (unnamed !== undefined) {
    const { asset, units } = unnamed
    const message = `The policy does not list ${asset.symbol} under spend, so none of it can be spent.`
    return { denied: { code: 'policy_denied', rule: 'spend', message, asset, asked: formatAmount(units) } }
  }
  const charges: Charge[] = []
  for (const { asset, units } of moving)
    for (const [index, entry] of policy.spend.entries()) {
      if (entry.cap === null || !named(entry, asset)) continue
      const { bucket, sum } = standing(entry.cap.window, bucketsOf(spent, index), now)
      if (sum + units > entry.cap.limit) return { denied: exceeded(index, asset, entry.cap, sum, units) }
      charges.push({ entry: index, bucket, units: units.toString() })
    }
  return { charges }
}

/** What is spent once charges are reserved. Buckets of the charged entries that no longer count are left out. */
export function addCharges(spent: Spent, charges: readonly Charge[]): Spent {
  const after: Spent = { ...spent }
  for (const { entry, bucket, units } of charges) {
    const buckets = bucketsOf(after, entry)
    const first = firstCounting(lastOf([...Object.keys(buckets), bucket]))
    const kept = Object.entries(buckets).filter(([name]) => name >= first)
    const sum = BigInt(buckets[bucket] ?? 0) + BigInt(units)
    after[entry] = { ...Object.fromEntries(kept), [bucket]: sum.toString() }
  }
  return after
}

/**
 * What is spent after charges are released, because their transaction certainly did not happen. Emptied buckets stay,
 * with 0, because the last one records how far the clock was. Charges of buckets that no longer exist are ignored.
 */
export function removeCharges(spent: Spent, charges: readonly Charge[]): Spent {
  const after: Spent = { ...spent }
  for (const { entry, bucket, units } of charges) {
    const sum = bucketsOf(after, entry)[bucket]
    if (sum === undefined) continue
    after[entry] = { ...after[entry], [bucket]: positive(BigInt(sum) - BigInt(units)).toString() }
  }
  return after
}

/** What is left of each spend entry, in the policy's order. */
export function remainingOf(policy: Pick<CompiledPolicy, 'spend'>, spent: Spent, now: Date): Remaining[] {
  return policy.spend.map(({ issuer, symbol, cap }, index) => {
    const asset = { issuer, symbol }
    if (cap === null) return { asset, window: null, limit: null, spent: null, remaining: null }
    const { sum } = standing(cap.window, bucketsOf(spent, index), now)
    return {
      asset,
      window: cap.window,
      limit: formatAmount(cap.limit),
      spent: formatAmount(sum),
      remaining: formatAmount(positive(cap.limit - sum)),
    }
  })
}
