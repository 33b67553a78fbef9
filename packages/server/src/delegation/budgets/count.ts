import { formatAmount } from '../../platform/ports/amount.ts'
import type { Flow, Prepared } from '../../platform/ports/ledger.ts'
import { type Charge, costs } from '../policy/spend.ts'
import { addParts, type Part, positive, type Spent, standing } from '../policy/windows.ts'
import type { Budget } from './budget-schema.ts'
import { type Limit, leftOf } from './limits.ts'

/** How many counts a wallet keeps that no budget asks for any more: of budgets that its app had. */
const FORMER_MAX = 100

/** What a transaction takes of a budget, in base units; more than nothing. */
export interface Toll {
  limit: Limit
  units: bigint
}

/** Why a transaction would exceed a budget. Amounts have the form of the API. */
export interface BudgetDenial {
  code: 'budget_exceeded'
  rule: string
  message: string
  asset: Budget['asset']
  window: Budget['window']
  recipient: string | null
  templateId: string | null
  setBy: Budget['setBy']
  limit: string
  spent: string
  asked: string
  remaining: string
  resetsAt: string | null
}

/** A part of the caps or of the budgets that a transaction has reserved, as it is stored with the transaction. */
export type Reserved = Charge | { budget: string; bucket: string; units: string }

/** What one command does to an asset. */
interface Moved {
  given: bigint
  issued: bigint
  /** What each owner has more than before. */
  gained: Map<string, bigint>
  /** What each party may get of what was created for nobody: offers, and contracts that the ledger cannot follow. */
  shown: Map<string, bigint>
}

const isOf = (asset: Flow['asset'], { issuer, symbol }: Limit['asset']) =>
  asset.issuer === issuer && asset.symbol === symbol

function movedBy(flows: readonly Flow[], asset: Limit['asset'], party: string): Map<number, Moved> {
  const moved = new Map<number, Moved>()
  for (const flow of flows) {
    if (!isOf(flow.asset, asset)) continue
    const one = moved.get(flow.command) ?? { given: 0n, issued: 0n, gained: new Map(), shown: new Map() }
    const more = flow.created - flow.consumed
    one.issued += more
    if (flow.owner === party) one.given -= more
    if (flow.owner !== null) one.gained.set(flow.owner, (one.gained.get(flow.owner) ?? 0n) + more)
    else for (const each of flow.seenBy ?? []) one.shown.set(each, (one.shown.get(each) ?? 0n) + more)
    moved.set(flow.command, one)
  }
  return moved
}

const costOf = ({ given, issued }: Moved) => positive(given) + positive(issued)

/** What of a transaction's cost counts for a budget. An offer counts for whom it is made to, when it is made. */
function unitsFor(limit: Limit, { flows, effects }: Pick<Prepared, 'flows' | 'effects'>, party: string): bigint {
  const { asset, recipient, templateId } = limit
  if (recipient === null && templateId === null)
    return costs(flows, party).find((cost) => isOf(cost.asset, asset))?.units ?? 0n
  let sum = 0n
  for (const [command, moved] of movedBy(flows, asset, party)) {
    if (templateId !== null && effects.find((effect) => effect.command === command)?.templateId !== templateId) continue
    const cost = costOf(moved)
    if (recipient === null) {
      sum += cost
      continue
    }
    const received = positive(moved.gained.get(recipient) ?? 0n) + (moved.shown.get(recipient) ?? 0n)
    sum += received < cost ? received : cost
  }
  return sum
}

/** What a prepared transaction takes of each budget, read out of its bytes. */
export function tollsOf(
  limits: readonly Limit[],
  prepared: Pick<Prepared, 'flows' | 'effects'>,
  party: string,
): Toll[] {
  return limits.map((limit) => ({ limit, units: unitsFor(limit, prepared, party) })).filter(({ units }) => units > 0n)
}

function exceeded({ limit, units }: Toll, spent: Spent, now: Date): BudgetDenial {
  const { amount, ...left } = leftOf(limit, spent, now)
  const asked = formatAmount(units)
  const { symbol } = limit.asset
  return {
    code: 'budget_exceeded',
    rule: limit.name,
    message: `This would spend ${asked} ${symbol}; ${left.remaining} are left of the wallet's ${limit.name}.`,
    ...left,
    limit: amount,
    asked,
  }
}

/** What to count for a transaction now, or the budget that it would exceed. Budgets that count the same have one count. */
export function partsOf(tolls: readonly Toll[], spent: Spent, now: Date): { parts: Part[] } | { denied: BudgetDenial } {
  const parts = new Map<string, Part>()
  for (const toll of tolls) {
    const { limit, units } = toll
    const { bucket, sum } = standing(limit.window, spent[limit.key] ?? {}, now)
    if (sum + units > limit.units) return { denied: exceeded(toll, spent, now) }
    parts.set(limit.key, { slot: limit.key, bucket, units: units.toString() })
  }
  return { parts: [...parts.values()] }
}

/** What is spent once parts are counted. */
export function counted(spent: Spent, parts: readonly Part[], limits: readonly Limit[]): Spent {
  const after = addParts(spent, parts)
  const slots = Object.keys(after)
  if (slots.length <= FORMER_MAX) return after
  const asked = new Set(limits.map(({ key }) => key))
  return Object.fromEntries(slots.filter((slot) => asked.has(slot)).map((slot) => [slot, after[slot] ?? {}]))
}

/** What a transaction has reserved, to be stored with it. */
export const reservedOf = (charges: readonly Charge[], parts: readonly Part[]): Reserved[] => [
  ...charges,
  ...parts.map(({ slot, ...part }) => ({ budget: slot, ...part })),
]

/** The parts of the session's caps in what a transaction has reserved. */
export const chargesIn = (reserved: readonly Reserved[]): Charge[] =>
  reserved.flatMap((one) => ('entry' in one ? [one] : []))

/** The parts of the wallet's budgets in it. */
export const partsIn = (reserved: readonly Reserved[]): Part[] =>
  reserved.flatMap((one) => ('budget' in one ? [{ slot: one.budget, bucket: one.bucket, units: one.units }] : []))
