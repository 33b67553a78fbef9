import type { Command, Policy } from '../models.ts'
import { formatAmount, parseAmount } from './amount.ts'

/** How many holdings one payment may use: what the service takes in one call. */
const COMMANDS_MAX = 100

/** A holding to pay with. */
export interface Holding {
  contractId: string
  issuer: string
  symbol: string
  amount: string
}

const unitsOf = ({ amount }: Holding): bigint => parseAmount(amount) ?? 0n

/** The sum of holdings, in base units. */
export const sumOf = (holdings: readonly Holding[]): bigint => holdings.reduce((sum, one) => sum + unitsOf(one), 0n)

/** A transfer of a part of a holding. Also a whole one is transferred by its amount: policies may limit amounts. */
const transfer = ({ contractId }: Holding, receiver: string, units: bigint): Command => ({
  exercise: {
    templateId: 'Token:Holding',
    contractId,
    choice: 'Transfer',
    arguments: { receiver, amount: formatAmount(units) },
  },
})

/**
 * Whether a payment may be made of several transfers. A policy that limits the amount of each transfer means the payment:
 * in parts, a larger one would pass.
 */
export function mayBeSplit({ allow, deny = [] }: Pick<Policy, 'allow' | 'deny'>): boolean {
  return ![...allow, ...deny].some(
    ({ templateId, where = [] }) => templateId === 'Token:Holding' && where.some(({ path }) => path === 'amount'),
  )
}

/**
 * Transfers of exactly `units`: from the smallest holding that is enough, or else from the largest ones together, so that
 * as few contracts as possible are used. Null if all that one call can use are not enough, or if several would be needed
 * and `maySplit` is false.
 */
export function chooseTransfers(
  holdings: readonly Holding[],
  receiver: string,
  units: bigint,
  maySplit = true,
): Command[] | null {
  const sorted = [...holdings].sort((a, b) => (unitsOf(a) < unitsOf(b) ? -1 : unitsOf(a) > unitsOf(b) ? 1 : 0))
  const enough = sorted.find((one) => unitsOf(one) >= units)
  if (enough !== undefined) return [transfer(enough, receiver, units)]
  if (!maySplit) return null
  const commands: Command[] = []
  let left = units
  for (const holding of sorted.reverse().slice(0, COMMANDS_MAX)) {
    const part = unitsOf(holding) < left ? unitsOf(holding) : left
    if (part === 0n) break
    commands.push(transfer(holding, receiver, part))
    left -= part
    if (left === 0n) return commands
  }
  return null
}
