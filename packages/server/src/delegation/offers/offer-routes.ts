import { eitherKey, one, type Route, route } from '../../platform/http/route.ts'
import type { OfferAnswer } from '../../platform/ports/tokens.ts'
import { OfferParams } from '../../wallets/tokens/offer-schema.ts'
import { EXECUTE_REFUSALS } from '../errors.ts'
import { Execution } from '../schema.ts'
import { beginAnswer, finishAnswer } from './answer.ts'
import { AnswerOffer } from './offer-schema.ts'

type Started = Awaited<ReturnType<typeof beginAnswer>>

const RULES =
  " By a delegated session of the wallet, with its token or, if it has `serverExecute`, without. Policy, signature and response are those of `POST /delegated-sessions/:id/execute` with the choice of the token standard; the context is the registry's. If the response is `signature_required`, send the signature there."

function answerRoute(answer: OfferAnswer, { summary, description }: { summary: string; description: string }): Route {
  return route(
    `POST /wallets/:id/transfer-offers/:offerId/${answer}`,
    {
      summary,
      description: description + RULES,
      callers: eitherKey('delegated_sessions:execute', 'delegate'),
      params: OfferParams,
      body: AnswerOffer,
      reply: one(Execution),
      // Keyed by token and key, so that callers without them cannot make callers with them wait.
      turn: ({ caller, delegate, body }) =>
        `${caller.tenantId} ${body.delegatedSessionId} ${caller.keyId} ${delegate?.tokenHash.toString('base64') ?? ''} ${delegate?.jkt ?? ''}`,
      errors: [...EXECUTE_REFUSALS, 'offer_settled', 'offer_changed', 'offer_not_yours', 'offers_unavailable'],
      extension: true,
    },
    {
      effect: async (deps, { caller, origin, delegate, params, body }) => ({
        ...(await beginAnswer(
          deps,
          { caller, origin, delegate },
          { walletId: params.id, offerId: params.offerId, answer },
          body,
        )),
      }),
      finish: (deps, { caller, origin, delegate }, started, replayed) =>
        finishAnswer(deps, { caller, origin, delegate }, started as unknown as Started, replayed),
      // A transaction in progress has another response later.
      isFinal: ({ status }) => !['received', 'reserved', 'submitted'].includes(status),
    },
  )
}

/** Answers to transfers of tokens in two steps. */
export const offerRoutes: Route[] = [
  answerRoute('accept', {
    summary: 'Accept a transfer offer',
    description: 'The wallet takes the tokens, which is no payment.',
  }),
  answerRoute('reject', {
    summary: 'Reject a transfer offer',
    description: 'The tokens go back to their sender.',
  }),
  answerRoute('withdraw', {
    summary: 'Withdraw a transfer offer',
    description: 'The tokens come back to the wallet. What was spent of caps and budgets by the offer stays spent.',
  }),
]
