import { z } from 'zod'
import type { Agent } from '../agent.ts'
import { createPayer, type Outcome } from '../pay.ts'
import { derivedCommandId, type Payment, resolvePayment, transfersOf } from '../payment.ts'
import { refusal, refusalOf, refusalOfDecision } from '../refusals.ts'
import { Approval, AssetSymbol, NewCommandId, PaidAmount, Party, Refusal, Remaining, Status } from '../schemas.ts'
import type { Tool } from '../tool.ts'
import { createTurns } from '../turns.ts'
import { traceInWords } from '../words.ts'

const payment = {
  to: Party.describe('The party that is paid. Take it from the person you work for or from a source they trust.'),
  amount: PaidAmount,
  symbol: AssetSymbol,
  issuer: Party.optional().describe(
    'The issuer of the asset. Needed only if the policy lists several with this symbol.',
  ),
}

const PaymentShown = z.object({
  to: z.string(),
  amount: z.string(),
  asset: z.object({ issuer: z.string(), symbol: z.string() }),
})

const CheckInput = z.strictObject(payment)
const CheckOutput = z.object({
  allowed: z.boolean(),
  payment: PaymentShown.nullable(),
  trace: z.array(z.string()).describe('Which rules were checked, and why they matched or not.'),
  after: Remaining.nullable().describe('What would remain after this payment.'),
  refusal: Refusal.nullable(),
})

/** `payment_check`: a dry run. */
export function paymentCheck(agent: Agent): Tool<typeof CheckInput, typeof CheckOutput> {
  const refused = (why: Refusal, shown: Payment | null, trace: string[] = []) => ({
    result: { allowed: false, payment: shown, trace, after: null, refusal: why },
    isError: false,
  })
  return {
    name: 'payment_check',
    title: 'Check a payment',
    description:
      'Says whether a payment would be allowed now, which rule of the policy decides and why, and what would remain. Pays nothing and changes nothing.',
    input: CheckInput,
    output: CheckOutput,
    annotations: { readOnlyHint: true, openWorldHint: false },
    async run(input) {
      let shown: Payment | null = null
      let policy = null
      try {
        const session = await agent.session()
        policy = session.policy
        const meant = resolvePayment(input, session)
        if ('code' in meant) return refused(meant, null)
        shown = meant
        const commands = await transfersOf(agent, meant)
        if (!Array.isArray(commands)) return refused(commands, shown)
        const { decision, remaining } = await agent.dryRun(commands)
        if (decision === null) throw new Error('a dry run without a decision')
        const trace = traceInWords(decision)
        const why = refusalOfDecision(decision, session.policy, remaining)
        if (why !== null) return refused({ ...why, asked: meant.amount }, shown, trace)
        return { result: { allowed: true, payment: shown, trace, after: remaining, refusal: null }, isError: false }
      } catch (error) {
        return { ...refused(refusalOf(error, policy, null), shown), isError: true }
      }
    },
  }
}

const SendInput = z.strictObject({
  ...payment,
  reference: z
    .string()
    .max(200)
    .optional()
    .describe(
      'What the payment is for, such as an invoice number. Without commandId, a payment with the same receiver, amount, asset and reference is made once.',
    ),
  commandId: NewCommandId.optional().describe(
    'Your id of this payment. The same id never pays twice. Default: derived from receiver, amount, asset and reference.',
  ),
})
const SendOutput = z.object({
  paid: z.boolean().describe('True only if the payment has happened.'),
  status: Status,
  repeated: z.boolean().describe('This payment was made by an earlier call; it was not made again.'),
  commandId: z.string().nullable(),
  transactionId: z.string().nullable(),
  payment: PaymentShown.nullable(),
  remaining: Remaining.nullable().describe('What remains after it; null if it was made earlier.'),
  refusal: Refusal.nullable(),
  approval: Approval,
})

/** `payment_send`: pays, once for each command id. */
export function paymentSend(agent: Agent): Tool<typeof SendInput, typeof SendOutput> {
  const pay = createPayer(agent)
  const inTurn = createTurns()
  const answer = (outcome: Outcome, commandId: string | null, shown: Payment | null) => ({
    result: { paid: outcome.status === 'completed', commandId, payment: shown, ...outcome },
    isError: ['refused', 'failed', 'unknown'].includes(outcome.status),
  })
  const refused = (why: Refusal, commandId: string | null = null, shown: Payment | null = null) =>
    answer(
      {
        status: 'refused',
        transactionId: null,
        made: null,
        repeated: false,
        remaining: null,
        refusal: why,
        approval: null,
      },
      commandId,
      shown,
    )
  return {
    name: 'payment_send',
    title: 'Pay',
    description:
      'Pays an amount of an asset from the wallet to a party, within the policy. A repeat with the same commandId (or, without one, the same receiver, amount, asset and reference) pays once. If the status is approval_required, give the owner the link and repeat the call unchanged later. If the status is unknown, repeat the call unchanged.',
    input: SendInput,
    output: SendOutput,
    annotations: { readOnlyHint: false, destructiveHint: true, idempotentHint: true, openWorldHint: true },
    async run(input) {
      let commandId: string | null = input.commandId ?? null
      let shown: Payment | null = null
      try {
        const session = await agent.known()
        const meant = resolvePayment(input, session)
        if ('code' in meant) return refused(meant, commandId)
        shown = meant
        const id = input.commandId ?? derivedCommandId(meant, input.reference)
        commandId = id
        const outcome = await inTurn(() => pay(session, id, meant))
        if (outcome !== null) return answer(outcome, id, meant)
        return refused(refusal({ code: 'rate_limited', message: 'Too many payments wait already.' }), id, meant)
      } catch (error) {
        return refused(refusalOf(error, null, null), commandId, shown)
      }
    },
  }
}
