import type { Db } from '../../platform/db/db.ts'
import { fail } from './errors.ts'
import { type Address, countUsage, type Usage } from './store.ts'

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
/** Of an address in an app, whoever asks: its owner's mailbox is protected too. */
const STARTS_AN_HOUR = 10
const WRONG_A_DAY = 20
/** Of one code: the last wrong one ends it (`answer.ts`). */
export const ANSWERS = 5

/** When a limit that counts from `oldest` on has room again, as a header. */
const retryAfter = (now: Date, oldest: Date | null, windowMs: number) => ({
  'retry-after': String(Math.max(1, Math.ceil(((oldest ?? now).getTime() + windowMs - now.getTime()) / 1000))),
})

/** Since when codes and wrong answers count. */
export const usageWindows = (now: Date) => ({
  startsSince: new Date(now.getTime() - HOUR_MS),
  wrongSince: new Date(now.getTime() - DAY_MS),
})

/** Refuses an address that was used too much, for another code or an answer. @throws rate_limited, email_locked */
export function refuseUsed(
  now: Date,
  { starts, oldestStart, wrong, oldestWrong }: Usage,
  step: 'start' | 'answer',
): void {
  if (wrong >= WRONG_A_DAY) throw fail('email_locked', [], retryAfter(now, oldestWrong, DAY_MS))
  if (step === 'answer' || starts < STARTS_AN_HOUR) return
  const message = `At most ${STARTS_AN_HOUR} codes an hour are sent to one address.`
  throw fail('rate_limited', [{ code: 'too_many_emails', message }], retryAfter(now, oldestStart, HOUR_MS))
}

/**
 * Refuses an address, or the user who links it, with too many challenges or wrong answers. The address is locked. These limits
 * are in the database: they hold across processes and restarts, and HALFKEY_RATE_LIMITS does not turn them off.
 * @throws rate_limited, email_locked
 */
export async function refuseExhausted(tx: Db, now: Date, address: Address, step: 'start' | 'answer'): Promise<void> {
  const { startsSince, wrongSince } = usageWindows(now)
  refuseUsed(now, await countUsage(tx, address, startsSince, wrongSince), step)
}
