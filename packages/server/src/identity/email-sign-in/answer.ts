import type { Db } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import { notFoundField } from '../../platform/http/errors.ts'
import { limitAccount, networkOf } from '../../platform/http/rate-limits/limits.ts'
import type { Call } from '../../platform/http/route.ts'
import { type Id, isId } from '../../platform/ids.ts'
import { equalSecrets } from '../../platform/security/crypto.ts'
import type { CodePurpose } from '../emails/schema.ts'
import { codeHmac } from './code.ts'
import { fail } from './errors.ts'
import { ANSWERS, refuseExhausted } from './limits.ts'
import * as store from './store.ts'

const addressOf = (row: store.ChallengeRow): store.Address => ({
  tenantId: row.tenant_id,
  appId: row.app_id,
  key: row.email_key,
  userId: row.user_id,
})

/** A code that was typed. */
export interface Answer {
  challengeId: string
  code: string
  purpose: CodePurpose
  userId: Id<'usr'> | null
  /** What names the two in the request. Default: `challengeId` and `code`. */
  fields?: { challengeId: string; code: string }
}

const FIELDS = { challengeId: 'challengeId', code: 'code' }

async function find(
  db: Db,
  { caller }: Call,
  { challengeId: id, purpose, userId, fields = FIELDS }: Answer,
): Promise<store.ChallengeRow> {
  const row = isId('chl', id) ? await store.findChallenge(db, caller, id, purpose) : undefined
  if (row === undefined || row.user_id !== userId) throw notFoundField(fields.challengeId)
  return row
}

/** An answer with what it is held against: its challenge as it was before the address was locked, and the code's HMAC. */
interface Prepared {
  answer: Answer
  address: store.Address
  hmac: Buffer
}

async function prepare(deps: Deps, call: Call, answer: Answer): Promise<Prepared> {
  const asked = await find(deps.db, call, answer)
  await limitAccount(deps, `email ${asked.app_id} ${asked.email_key} ${networkOf(call.origin.address)}`)
  return { answer, address: addressOf(asked), hmac: await codeHmac(deps, asked.id, answer.code) }
}

/** What is held against an answer, of a challenge whose address is locked. */
export interface CodeState {
  code_hmac: Buffer | null
  wrong_answers: number
  expires_at: Date
  ended_at: Date | null
}

/**
 * Lets a right code through, and counts a wrong one although the call fails.
 * @param field what errors call the code
 * @throws challenge_expired, invalid_code, and the errors of `refuse`
 */
export async function requireRightCode(
  now: Date,
  { code_hmac: expected, wrong_answers: wrong, expires_at: expiresAt, ended_at: endedAt }: CodeState,
  hmac: Buffer,
  field: string,
  by: { refuse: () => Promise<void>; countWrong: (ends: boolean) => Promise<void> },
): Promise<void> {
  if (endedAt !== null || expiresAt <= now) throw fail('challenge_expired')
  await by.refuse()
  if (expected !== null && equalSecrets(expected, hmac)) return
  const attemptsRemaining = ANSWERS - wrong - 1
  await by.countWrong(attemptsRemaining === 0)
  throw fail('invalid_code')
    .about(field, `Attempts remaining: ${attemptsRemaining}.`, { attemptsRemaining })
    .commitOnThrow()
}

/** The challenge of a right answer. Its address is locked. @throws challenge_expired, invalid_code, email_locked */
async function requireRight(tx: Db, now: Date, call: Call, { answer, hmac }: Prepared): Promise<store.ChallengeRow> {
  const row = await find(tx, call, answer)
  await requireRightCode(now, row, hmac, (answer.fields ?? FIELDS).code, {
    refuse: () => refuseExhausted(tx, now, addressOf(row), 'answer'),
    countWrong: (ends) => store.countWrong(tx, row, ends, now),
  })
  return row
}

/**
 * Runs `body` if all answers are right, in one transaction: what `body` throws leaves the codes unused, as a wrong code leaves the
 * others. All answers and new challenges of an address come one after the other, so that a code counts once and no guess
 * escapes the count.
 * @throws not_found (names `challengeId`), challenge_expired, invalid_code, email_locked, rate_limited
 */
export async function withRightAnswers<T>(
  deps: Deps,
  call: Call,
  answers: readonly Answer[],
  body: (tx: Db, challenges: store.ChallengeRow[]) => Promise<T>,
): Promise<T> {
  const prepared: Prepared[] = []
  for (const answer of answers) prepared.push(await prepare(deps, call, answer))
  return deps.db.tx(async (tx) => {
    const now = deps.now()
    await store.lockAddresses(
      tx,
      prepared.map(({ address }) => address),
    )
    const rows: store.ChallengeRow[] = []
    for (const each of prepared) rows.push(await requireRight(tx, now, call, each))
    for (const row of rows) await store.endChallenge(tx, row, now)
    return body(tx, rows)
  })
}

/** The same for one answer. */
export function withRightAnswer<T>(
  deps: Deps,
  call: Call,
  answer: Answer,
  body: (tx: Db, challenge: store.ChallengeRow) => Promise<T>,
): Promise<T> {
  return withRightAnswers(deps, call, [answer], (tx, [challenge]) => body(tx, challenge as store.ChallengeRow))
}
