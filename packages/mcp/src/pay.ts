import { isHalfkeyError } from '../../sdk/src/index.ts'
import type { Agent, Command, Execution, OwnDelegatedSession, OwnTransaction } from './agent.ts'
import { isPayment, type Payment, paymentIn, samePayment, transfersOf } from './payment.ts'
import { isDefinite, refusal, refusalOf } from './refusals.ts'
import type { Approval, Refusal, Remaining, Status } from './schemas.ts'

/** How often a payment is made again from other holdings, when another transaction has used the first ones. */
const ATTEMPTS_MAX = 5
/** Payments whose commands are remembered. */
const REMEMBERED_MAX = 1_000

/** What became of a payment. */
export interface Outcome {
  status: Status
  transactionId: string | null
  /** What the transaction pays: for a purchase, an earlier call may have paid something else than is asked for now. */
  made: Payment | null
  /** It was made before, by an earlier call with the same command id. */
  repeated: boolean
  remaining: Remaining | null
  refusal: Refusal | null
  approval: Approval
}

const refused = (why: Refusal, remaining: Remaining | null = null): Outcome => ({
  status: 'refused',
  transactionId: null,
  made: null,
  repeated: false,
  remaining,
  refusal: why,
  approval: null,
})

const executed = (done: Execution, made: Payment, repeated: boolean): Outcome => ({
  status: done.status,
  transactionId: done.transactionId,
  made,
  repeated,
  remaining: done.remaining,
  refusal: null,
  approval: done.approval,
})

/** An earlier transaction under the command id, which made this payment; or null, and it is another act. */
function earlier(transaction: OwnTransaction, made: Payment | null): Outcome {
  if (made === null)
    return refused(
      refusal({ code: 'duplicate_command', message: 'This commandId was already used for something else.' }),
    )
  const { id: transactionId, status, error, approval } = transaction
  const why = error === null ? null : refusal({ code: error.code, message: error.message })
  return { status, transactionId, made, repeated: true, remaining: null, refusal: why, approval }
}

/** Codes after which the same payment is tried from other holdings. Nothing has happened. */
const TAKEN = ['contract_archived', 'contract_not_found']

/** Commands that were sent under a command id. */
interface Sent {
  payment: Payment
  commands: Command[]
}

/**
 * Makes payments of one session, each at most once for each command id. With `buys`, a command id stands for a purchase: what was
 * paid under it counts as its payment, also if the seller has changed the price or the receiver since.
 */
export function createPayer(agent: Agent, { buys = false } = {}) {
  const sent = new Map<string, Sent>()

  function remember(commandId: string, what: Sent): void {
    const [oldest] = sent.size >= REMEMBERED_MAX ? sent.keys() : []
    if (oldest !== undefined) sent.delete(oldest)
    sent.set(commandId, what)
  }

  function earlierOf(session: OwnDelegatedSession, transaction: OwnTransaction, payment: Payment): Outcome {
    if (buys) return earlier(transaction, paymentIn(transaction, session.wallet.partyId, payment))
    return earlier(transaction, isPayment(transaction, payment) ? payment : null)
  }

  /** One attempt; null if other holdings have to be chosen. */
  async function attempt(
    session: OwnDelegatedSession,
    commandId: string,
    what: Sent,
    repeated: boolean,
  ): Promise<Outcome | null> {
    remember(commandId, what)
    try {
      return executed(await agent.execute({ commandId, commands: what.commands }), what.payment, repeated)
    } catch (error) {
      if (isHalfkeyError(error) && isDefinite(error)) sent.delete(commandId)
      if (isHalfkeyError(error) && TAKEN.includes(error.code)) return null
      if (isHalfkeyError(error, 'duplicate_command')) {
        const transaction = await agent.byCommand(commandId)
        if (transaction !== undefined) return earlierOf(session, transaction, what.payment)
      }
      const { remaining } = await agent.session().catch(() => session)
      const why = refusalOf(error, session.policy, remaining)
      const isOpen = isHalfkeyError(error) && !isDefinite(error)
      return { ...refused(why, remaining), status: isOpen ? 'unknown' : 'refused' }
    }
  }

  return async (session: OwnDelegatedSession, commandId: string, payment: Payment): Promise<Outcome> => {
    const before = sent.get(commandId)
    const isSame = before !== undefined && samePayment(before.payment, payment)
    if (before !== undefined && !isSame && !buys)
      return refused(
        refusal({ code: 'duplicate_command', message: 'This commandId was already used for another payment.' }),
      )
    if (before !== undefined && isSame) {
      // The service has the first answer for the same commands, also when the session has ended by this payment.
      const again = await attempt(session, commandId, before, true)
      if (again !== null) return again
    } else {
      const transaction = await agent.byCommand(commandId)
      if (transaction !== undefined) return earlierOf(session, transaction, payment)
    }
    for (let attempts = 0; attempts < ATTEMPTS_MAX; attempts += 1) {
      const commands = await transfersOf(agent, payment)
      if (!Array.isArray(commands)) return refused(commands)
      const outcome = await attempt(session, commandId, { payment, commands }, false)
      if (outcome !== null) return outcome
    }
    return refused(
      refusal({
        code: 'contract_archived',
        message: 'Other transactions of this wallet used the holdings first, several times.',
      }),
    )
  }
}
