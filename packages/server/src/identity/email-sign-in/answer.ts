import type { Db } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import { notFoundField } from '../../platform/http/errors.ts'
import { limitAccount, networkOf } from '../../platform/http/rate-limits/limits.ts'
import type { Call } from '../../platform/http/route.ts'
import { type Id, isId } from '../../platform/ids.ts'
import { equalSecrets } from '../../platform/security/crypto.ts'
import type { EmailPurpose } from '../emails/schema.ts'
import { codeHmac } from './code.ts'
import { fail } from './errors.ts'
import { refuseExhausted } from './limits.ts'
import * as store from './store.ts'

const TRIES = 5

const addressOf = (row: store.ChallengeRow): store.Address => ({
  tenantId: row.tenant_id,
  appId: row.app_id,
  key: row.email_key,
  userId: row.user_id,
})

async function find(db: Db, { caller }: Call, id: string, purpose: EmailPurpose): Promise<store.ChallengeRow> {
  const row = isId('chl', id) ? await store.findChallenge(db, caller, id, purpose) : undefined
  if (row === undefined) throw notFoundField('challengeId')
  return row
}

/**
 * Runs `body` if an answer is right, in one transaction: what `body` throws leaves the code unused. All answers and new
 * challenges of an address come one after the other, so that a code counts once and no guess escapes the count.
 * @throws not_found (names `challengeId`), challenge_expired, invalid_code, email_locked, rate_limited
 */
export async function withRightAnswer<T>(
  deps: Deps,
  call: Call,
  input: { challengeId: string; code: string; purpose: EmailPurpose; userId: Id<'usr'> | null },
  body: (tx: Db, challenge: store.ChallengeRow) => Promise<T>,
): Promise<T> {
  const asked = await find(deps.db, call, input.challengeId, input.purpose)
  if (asked.user_id !== input.userId) throw notFoundField('challengeId')
  await limitAccount(deps, `email ${asked.app_id} ${asked.email_key} ${networkOf(call.origin.address)}`)
  const hmac = await codeHmac(deps, asked.id, input.code)
  return deps.db.tx(async (tx) => {
    const now = deps.now()
    await store.lockAddress(tx, addressOf(asked))
    const row = await find(tx, call, asked.id, input.purpose)
    if (row.ended_at !== null || row.expires_at <= now) throw fail('challenge_expired')
    await refuseExhausted(tx, now, addressOf(row), 'answer')
    if (row.code_hmac === null || !equalSecrets(row.code_hmac, hmac)) {
      const attemptsRemaining = TRIES - row.wrong_answers - 1
      await store.countWrong(tx, row, attemptsRemaining === 0, now)
      throw fail('invalid_code')
        .about('code', `Attempts remaining: ${attemptsRemaining}.`, { attemptsRemaining })
        .commitOnThrow()
    }
    await store.endChallenge(tx, row, now)
    return body(tx, row)
  })
}
