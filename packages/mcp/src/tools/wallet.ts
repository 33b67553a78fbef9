import { z } from 'zod'
import { formatAmount, parseAmount } from '../../../sdk/src/paying/amount.ts'
import type { Agent, Holding } from '../agent.ts'
import { refusalOf } from '../refusals.ts'
import { AssetSymbol, Party, Refusal, Remaining } from '../schemas.ts'
import type { Tool } from '../tool.ts'
import { askedInWords, budgetsInWords, conditionsInWords, rulesInWords, spendInWords } from '../words.ts'

const HOLDINGS_SHOWN_MAX = 50

const StatusInput = z.strictObject({})
const StatusOutput = z.object({
  session: z
    .object({ id: z.string(), name: z.string().nullable(), status: z.string(), expiresAt: z.string() })
    .nullable(),
  wallet: z
    .object({
      partyId: z.string().describe('The party of this wallet: others pay to it.'),
      ledger: z.string(),
      custody: z.string().describe('embedded: payments happen at once. self_custody: the owner signs each one.'),
      status: z.string().describe('Only a wallet that is ready pays.'),
    })
    .nullable(),
  remaining: Remaining.nullable(),
  allowed: z
    .array(z.string())
    .describe(
      'The rules and caps of the policy, the budgets of the wallet, and what the owner has to approve, in words.',
    ),
  denied: z.array(z.string()),
  readable: z.array(z.string()).describe('Templates whose contracts this session may read.'),
  refusal: Refusal.nullable(),
})

/** `wallet_status`: the session and its wallet. */
export function walletStatus(agent: Agent): Tool<typeof StatusInput, typeof StatusOutput> {
  return {
    name: 'wallet_status',
    title: 'Wallet and budget',
    description:
      'What this session may do and how much of it is left: caps, rules in words, when it ends, and the party of the wallet.',
    input: StatusInput,
    output: StatusOutput,
    annotations: { readOnlyHint: true, openWorldHint: false },
    async run() {
      try {
        const { id, name, status, expiresAt, wallet, remaining, policy } = await agent.session()
        const { partyId, ledger, custody } = wallet
        return {
          result: {
            session: { id, name, status, expiresAt },
            wallet: { partyId, ledger, custody, status: wallet.status },
            remaining,
            allowed: [
              ...rulesInWords(policy.allow, 'allow'),
              ...spendInWords(remaining),
              ...budgetsInWords(remaining),
              ...conditionsInWords(policy),
              ...askedInWords(policy),
            ],
            denied: rulesInWords(policy.deny, 'deny'),
            readable: policy.query?.templateIds ?? [],
            refusal: null,
          },
          isError: false,
        }
      } catch (error) {
        const refusal = refusalOf(error, null, null)
        const nothing = { session: null, wallet: null, remaining: null, allowed: [], denied: [], readable: [] }
        return { result: { ...nothing, refusal }, isError: true }
      }
    },
  }
}

const HoldingsInput = z.strictObject({
  symbol: AssetSymbol.optional(),
  issuer: Party.optional().describe('Only assets of this issuer.'),
})
const HoldingsOutput = z.object({
  totals: z
    .array(z.object({ issuer: z.string(), symbol: z.string(), amount: z.string() }))
    .describe('The sum of each asset. Anybody may issue an asset with any symbol: the issuer tells them apart.'),
  holdings: z
    .array(z.object({ contractId: z.string(), issuer: z.string(), symbol: z.string(), amount: z.string() }))
    .describe(`The newest ${HOLDINGS_SHOWN_MAX}.`),
  complete: z.boolean().describe('False if the wallet holds more than was read: the totals are then too small.'),
  refusal: Refusal.nullable(),
})

function totalsOf(holdings: readonly Holding[]): { issuer: string; symbol: string; amount: string }[] {
  const sums = new Map<string, { issuer: string; symbol: string; units: bigint }>()
  for (const { issuer, symbol, amount } of holdings) {
    const key = JSON.stringify([issuer, symbol])
    const { units } = sums.get(key) ?? { units: 0n }
    sums.set(key, { issuer, symbol, units: units + (parseAmount(amount) ?? 0n) })
  }
  return [...sums.values()].map(({ issuer, symbol, units }) => ({ issuer, symbol, amount: formatAmount(units) }))
}

/** `wallet_holdings`: what the wallet holds. */
export function walletHoldings(agent: Agent): Tool<typeof HoldingsInput, typeof HoldingsOutput> {
  return {
    name: 'wallet_holdings',
    title: 'Holdings',
    description: 'What the wallet holds: the sum of each asset, and the holdings with their contract ids.',
    input: HoldingsInput,
    output: HoldingsOutput,
    annotations: { readOnlyHint: true, openWorldHint: false },
    async run(input) {
      try {
        const { holdings, complete } = await agent.holdings(input)
        const shown = holdings.slice(0, HOLDINGS_SHOWN_MAX)
        return { result: { totals: totalsOf(holdings), holdings: shown, complete, refusal: null }, isError: false }
      } catch (error) {
        const refusal = refusalOf(error, null, null)
        return { result: { totals: [], holdings: [], complete: false, refusal }, isError: true }
      }
    },
  }
}
