import { formatAmount } from '../../platform/ports/amount.ts'
import type { Flow } from '../../platform/ports/ledger.ts'
import type { CompiledPolicy, CompiledSpend, RuleName } from './policy.ts'
import type { Spend } from './policy-schema.ts'
import { addParts, type Part, positive, removeParts, type Spent, standing } from './windows.ts'

type Window = NonNullable<Spend['window']>
type Asset = Spend['asset']

/** What a transaction takes from a cap. An amount counts from its reservation, and is returned only when it fails. */
export interface Charge {
  /** Index of the policy's spend entry, or the name of a condition that counts. */
  entry: number | `conditions[${number}]`
  bucket: string
  /** Base units, or transactions, as decimal text. */
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

const bucketsOf = (spent: Spent, entry: number) => spent[entry] ?? {}
const partOf = ({ entry, bucket, units }: Charge): Part => ({ slot: String(entry), bucket, units })

/**
 * The cost of each asset: the sum of what the party gives away and what the transaction issues. Counted for each command:
 * income of one command does not offset the cost of another. Only an issuer has both parts; for all others, nothing is
 * issued.
 */
export function costs(flows: readonly Flow[], party: string): { asset: Asset; units: bigint }[] {
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
 * What a transaction with these costs must be charged with, or why it may not happen. Changes nothing. To reserve the charges, the caller
 * holds the session's row from reading `spent` to writing it.
 */
export function charge(
  policy: CompiledPolicy,
  spent: Spent,
  moving: readonly { asset: Asset; units: bigint }[],
  now: Date,
): { charges: Charge[] } | { denied: SpendDenial } {
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

/** What is spent once charges are reserved. */
export const addCharges = (spent: Spent, charges: readonly Charge[]): Spent => addParts(spent, charges.map(partOf))

/** What is spent after charges are released. */
export const removeCharges = (spent: Spent, charges: readonly Charge[]): Spent =>
  removeParts(spent, charges.map(partOf))

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
