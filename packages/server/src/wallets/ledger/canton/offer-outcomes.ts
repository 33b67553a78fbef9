import { z } from 'zod'
import { LedgerError } from '../../../platform/ports/ledger.ts'
import { type OfferOutcome, PlaceLost } from '../../../platform/ports/tokens.ts'
import { readLedgerEnd } from './completions.ts'
import { bothOf, type Rules } from './holdings.ts'
import { Exercised, outcomeOf } from './offers.ts'
import { ParticipantError } from './participant.ts'
import type { Parts } from './parts.ts'
import { askAt, unreadIn } from './refusals.ts'

/** How often an update is asked for before it is passed over. */
export const TRIES = 3

/** Of how many updates it is known that they were refused. */
const REFUSED_KEPT_MAX = 1_000

/** What its choices are. Whatever else a participant answers stops nobody. */
const Effects = z.object({
  update: z.object({ Transaction: z.object({ value: z.object({ events: z.array(z.looseObject({})) }) }) }),
})

/** Whether the participant answers, and does not say it. */
const isRefused = (error: unknown): boolean =>
  error instanceof LedgerError && error.cause instanceof ParticipantError && error.cause.status !== null

/**
 * How transactions ended offers. Those of which the participant does not say it, or not any more, are not among them; nor are any
 * of one that cannot be read, or that it refuses to say time and again while it says everything else.
 */
export function createOutcomes(parts: Parts, rules: Rules) {
  /** How often each was refused: what passes after a while is worth the wait of the steps between. */
  const refused = new Map<string, number>()

  function countRefusal(updateId: string): number {
    const count = (refused.get(updateId) ?? 0) + 1
    refused.set(updateId, count)
    const [oldest] = refused.keys()
    if (refused.size > REFUSED_KEPT_MAX && oldest !== undefined) refused.delete(oldest)
    return count
  }

  async function ask(updateId: string): Promise<Map<string, OfferOutcome>> {
    const includeTransactions = {
      eventFormat: { filtersForAnyParty: bothOf(rules), verbose: false },
      transactionShape: 'TRANSACTION_SHAPE_LEDGER_EFFECTS',
    }
    const body = { updateId, updateFormat: { includeTransactions } }
    const answer = await askAt(() => parts.participant.post('/v2/updates/update-by-id', body, z.unknown()))
    const outcomes = new Map<string, OfferOutcome>()
    for (const event of Effects.safeParse(answer).data?.update.Transaction.value.events ?? []) {
      const exercised = Exercised.safeParse(event.ExercisedEvent).data
      const outcome = exercised === undefined ? null : outcomeOf(rules, exercised)
      if (exercised !== undefined && outcome !== null) outcomes.set(exercised.contractId, outcome)
    }
    return outcomes
  }

  /** @throws LedgerError if the participant may say it later */
  return async function outcomesIn(updateId: string): Promise<Map<string, OfferOutcome>> {
    for (let tries = 1; ; tries += 1)
      try {
        return await ask(updateId)
      } catch (error) {
        const isOver = error instanceof PlaceLost || (error instanceof LedgerError && !error.retryable)
        if (isOver) return new Map()
        const isUnread = unreadIn(error) !== null
        if (isUnread && tries < TRIES) continue
        if (!isUnread && (!isRefused(error) || countRefusal(updateId) < TRIES)) throw error
        await readLedgerEnd(parts)
        return new Map()
      }
  }
}
