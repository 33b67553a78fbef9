import type { Deps } from '../../platform/deps.ts'
import { fail, notFoundField } from '../../platform/http/errors.ts'
import { isId } from '../../platform/ids.ts'
import type { OfferAnswer } from '../../platform/ports/tokens.ts'
import { findOfferToAnswer, refuseLate } from '../../wallets/tokens/service.ts'
import { findByCommand } from '../../wallets/transactions/service.ts'
import { type ExecuteCall, findLive } from '../access.ts'
import { beginExecution, finishExecution, type StartedExecution } from '../execute/begin.ts'
import type { Execute, Execution } from '../schema.ts'
import * as store from '../store.ts'
import type { AnswerOffer } from './offer-schema.ts'

/** Which offer is answered how. */
export interface Answered {
  walletId: string
  offerId: string
  answer: OfferAnswer
}

/** What the first half of a call passes to the second. */
interface StartedAnswer {
  sessionId: string
  input: Execute
  begun: StartedExecution
}

/**
 * The command that answers an offer, for a session of the offer's wallet: by the contract that the caller decided about. An offer that
 * is over, or has another contract by now, is not answered, except to somebody who repeats the call that did it.
 * @throws not_found, offers_unavailable, offer_not_yours, offer_settled, offer_changed; what `findLive` throws
 */
async function commandOf(deps: Deps, call: ExecuteCall, { walletId, offerId, answer }: Answered, body: AnswerOffer) {
  const { delegatedSessionId, commandId, contractId } = body
  if (!isId('dse', delegatedSessionId)) throw notFoundField('delegatedSessionId')
  const session = await findLive(store.findLive, deps.db, deps, call, delegatedSessionId)
  if (session.wallet_id !== walletId) throw fail('not_found')
  const { command, late } = await findOfferToAnswer(deps, session, { offerId, contractId, answer })
  const isRepeat =
    late !== null &&
    commandId !== undefined &&
    (await findByCommand(deps.db, session.tenant_id, session.id, commandId)) !== undefined
  if (late !== null && !isRepeat) throw refuseLate(late)
  return { sessionId: session.id, command }
}

/** Executes the answer to an offer by a delegated session, as any other command of it: as much as one transaction can hold. */
export async function beginAnswer(
  deps: Deps,
  call: ExecuteCall,
  answered: Answered,
  body: AnswerOffer,
): Promise<StartedAnswer> {
  const { sessionId, command } = await commandOf(deps, call, answered, body)
  const { delegatedSessionId: _, contractId: __, ...rest } = body
  const input = { ...rest, commands: [command] } as Execute
  return { sessionId, input, begun: await beginExecution(deps, call, sessionId, input) }
}

/** The rest, outside any transaction. `replayed`: another request has begun it, and may still be at work. */
export function finishAnswer(
  deps: Deps,
  call: ExecuteCall,
  { sessionId, input, begun }: StartedAnswer,
  replayed: boolean,
): Promise<Execution> {
  return finishExecution(deps, call, sessionId, input, { begun, replayed })
}
