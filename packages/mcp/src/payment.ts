import { createHash } from 'node:crypto'
import { formatAmount, parseAmount } from '../../sdk/src/paying/amount.ts'
import { chooseTransfers, mayBeSplit, sumOf } from '../../sdk/src/paying/choose.ts'
import type { Agent, Command, OwnDelegatedSession, Transaction } from './agent.ts'
import { refusal } from './refusals.ts'
import type { Refusal } from './schemas.ts'

/** What an agent asks to pay. */
export interface PaymentInput {
  to: string
  amount: string
  symbol: string
  issuer?: string | undefined
  reference?: string | undefined
}

/** A payment with its asset found. */
export interface Payment {
  to: string
  /** In its shortest form. */
  amount: string
  asset: { issuer: string; symbol: string }
}

/**
 * The payment that is meant. The issuer comes from the policy and never from what the wallet holds: anybody may issue
 * an asset with the same symbol and send some of it to the wallet.
 */
export function resolvePayment(input: PaymentInput, { policy, wallet }: OwnDelegatedSession): Payment | Refusal {
  const { to, symbol } = input
  const amount = formatAmount(parseAmount(input.amount) ?? 0n)
  const listed = new Set(
    (policy.spend ?? []).filter(({ asset }) => asset.symbol === symbol).map(({ asset }) => asset.issuer),
  )
  const [issuer = input.issuer] = input.issuer === undefined ? listed : [input.issuer]
  if (to === wallet.partyId)
    return refusal({ code: 'invalid_payment', message: '`to` is this wallet. A payment goes to another party.' })
  if (wallet.custody === 'shared')
    return refusal({
      code: 'custody_unsupported',
      message: "This wallet's key is shared: a payment needs a share of the key, which this server does not have.",
    })
  if (issuer === undefined)
    return refusal({
      code: 'policy_denied',
      rule: 'spend',
      message: 'The policy lists no asset with this symbol under spend, so none of it can be spent.',
      asked: amount,
      allowed: [...new Set((policy.spend ?? []).map(({ asset }) => JSON.stringify(asset.symbol)))],
    })
  if (input.issuer === undefined && listed.size > 1)
    return refusal({
      code: 'asset_ambiguous',
      message: 'The policy lists several assets with this symbol. Give `issuer`, too.',
      allowed: [...listed],
    })
  return { to, amount, asset: { issuer, symbol } }
}

/**
 * The command id of a payment without one: the same for the same receiver, amount, asset and reference, so that a repeat
 * pays once.
 */
export function derivedCommandId({ to, amount, asset }: Payment, reference = ''): string {
  const text = JSON.stringify(['payment', to, amount, asset.issuer, asset.symbol, reference])
  return `pay-${createHash('sha256').update(text).digest('hex').slice(0, 40)}`
}

export const samePayment = (a: Payment, b: Payment): boolean =>
  a.to === b.to && a.amount === b.amount && a.asset.issuer === b.asset.issuer && a.asset.symbol === b.asset.symbol

/** The transfers that make a payment now, or why there are none. @throws HalfkeyError */
export async function transfersOf(agent: Agent, payment: Payment): Promise<Command[] | Refusal> {
  const { holdings, complete } = await agent.holdings(payment.asset)
  const units = parseAmount(payment.amount) ?? 0n
  const inParts = mayBeSplit((await agent.known()).policy)
  const commands = chooseTransfers(holdings, payment.to, units, inParts)
  if (commands !== null) return commands
  const held = sumOf(holdings)
  const short = held < units && complete
  return refusal({
    code: short ? 'insufficient_holdings' : 'holdings_scattered',
    message: short
      ? 'The wallet holds less of this asset than the payment needs.'
      : inParts
        ? 'The wallet holds enough, but in so many parts that one transaction cannot use them. Pay less at once.'
        : 'No single holding is enough, and the policy limits the amount of a transfer, so a payment is not split. Merge holdings first, if the policy allows it.',
    asset: payment.asset,
    asked: payment.amount,
    remaining: formatAmount(held),
  })
}

/** What a transaction paid to a party, read out of its effects; null if it paid nothing, or several assets. */
function paidBy({ effects }: Transaction, to: string): Payment | null {
  const got = effects.filter(({ type, arguments: fields }) => type === 'created' && fields.owner === to)
  const [first] = got
  if (first === undefined) return null
  const { issuer, symbol } = first.arguments
  const isSame = got.every(({ arguments: fields }) => fields.issuer === issuer && fields.symbol === symbol)
  if (!isSame || typeof issuer !== 'string' || typeof symbol !== 'string') return null
  const units = got.reduce((sum, { arguments: fields }) => sum + (parseAmount(String(fields.amount)) ?? 0n), 0n)
  return { to, amount: formatAmount(units), asset: { issuer, symbol } }
}

const isTransfer = ({ operations }: Transaction) =>
  operations.every(({ templateId, choice }) => templateId === 'Token:Holding' && choice === 'Transfer')

/** Whether a transaction is this payment. One that was never prepared has no effects: then its command id decides. */
export function isPayment(transaction: Transaction, payment: Payment): boolean {
  if (!isTransfer(transaction)) return false
  if (transaction.effects.length === 0) return true
  const paid = paidBy(transaction, payment.to)
  return paid !== null && samePayment(paid, payment)
}

/**
 * What a transaction pays to another party than `own`, whatever that is; null if it is no payment. One that was never prepared has
 * no effects: then it is what is asked for.
 */
export function paymentIn(transaction: Transaction, own: string, asked: Payment): Payment | null {
  if (!isTransfer(transaction)) return null
  const { effects } = transaction
  if (effects.length === 0) return asked
  const receivers = new Set(
    effects.flatMap(({ type, arguments: { owner } }) => (type === 'created' && owner !== own ? [owner] : [])),
  )
  const [to] = receivers
  return receivers.size === 1 && typeof to === 'string' ? paidBy(transaction, to) : null
}
