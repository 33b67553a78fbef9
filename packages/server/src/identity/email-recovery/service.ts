import type { Db } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import { eventOf, publish } from '../../platform/events/events.ts'
import type { Call, Caller, Page } from '../../platform/http/route.ts'
import { type Id, newId } from '../../platform/ids.ts'
import { signInSettings } from '../../tenancy/apps/service.ts'
import { confirmedOwner, requireRecoverable, withRightAnswer } from '../email-sign-in/service.ts'
import type { EmailLanguage } from '../emails/schema.ts'
import { findWaysIn } from '../identities/service.ts'
import { recoveryOptions } from '../passkeys/service.ts'
import { ownUser } from '../sessions/service.ts'
import { lockAccount, type UserRow } from '../users/service.ts'
import { cancelPending } from './cancel.ts'
import { fail } from './errors.ts'
import type { EmailRecovery, ListRecoveries, RecoverByEmail, RecoveryStep } from './schema.ts'
import * as store from './store.ts'

export { cancelRecovery } from './cancel.ts'
export { EMAIL_RECOVERY_ERRORS } from './errors.ts'
export { deleteOldRecoveries } from './store.ts'

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
/** How long a recovery whose wait is over can be completed. */
const READY_MS = 7 * DAY_MS
/** Each request tells every other way in: more of them would only tire the owner out. */
const REQUESTS_MAX = 3
const REQUESTS_MS = 30 * DAY_MS

/** @throws rate_limited */
async function refuseTooMany(tx: Db, { tenant_id: tenantId, id }: UserRow, now: Date): Promise<void> {
  const { n, first } = await store.countSince(tx, tenantId, id, new Date(now.getTime() - REQUESTS_MS))
  if (n < REQUESTS_MAX) return
  const message = `At most ${REQUESTS_MAX} recoveries of an account can be requested in 30 days.`
  const seconds = Math.max(1, Math.ceil(((first ?? now).getTime() + REQUESTS_MS - now.getTime()) / 1000))
  throw fail('rate_limited', [{ code: 'too_many_recoveries', message }], { 'retry-after': String(seconds) })
}

/** @throws rate_limited */
async function begin(
  tx: Db,
  deps: Deps,
  call: Call,
  user: UserRow,
  { waitHours, language, emailKey }: { waitHours: number; language: EmailLanguage; emailKey: string },
): Promise<store.RecoveryRow> {
  const now = deps.now()
  await refuseTooMany(tx, user, now)
  const available = new Date(now.getTime() + waitHours * HOUR_MS)
  const row: store.RecoveryRow = {
    tenant_id: user.tenant_id,
    id: newId('rcv'),
    app_id: user.app_id,
    user_id: user.id,
    email_key: emailKey,
    language,
    status: 'pending',
    available_at: available,
    expires_at: new Date(available.getTime() + READY_MS),
    told_at: null,
    reminded_at: null,
    due_at: now,
    ended_at: null,
    ended_by: null,
    passkey_id: null,
    created_at: now,
    updated_at: now,
    version: 0,
    mac: null,
  }
  await store.insertRecovery(tx, row)
  const data = { userId: user.id, recoveryId: row.id, availableAt: available.toISOString() }
  await publish(tx, deps, eventOf(row, 'user.recovery_requested', data, call))
  tx.afterCommit(deps.wake.tasks)
  return row
}

/**
 * An account without a passkey and without a second factor is open to its mailbox anyway. One with a second factor never is: who
 * lost their passkeys shows that factor or a recovery code, and whoever has only the mailbox does not get past it by waiting.
 * @throws recovery_not_needed
 */
async function requireNeeded(tx: Db, { tenant_id: tenantId, id, mfa_enabled }: UserRow): Promise<void> {
  const refused = (code: string, message: string) => fail('recovery_not_needed', [{ code, message }])
  if (mfa_enabled) throw refused('second_factor', 'Sign in by email, show the second factor, and add a passkey.')
  const ways = await findWaysIn(tx, tenantId, id)
  if (ways === undefined || ways.passkeys === 0) throw refused('no_passkey', 'Sign in by email, and add a passkey.')
}

/**
 * Who shows by a code that they read the mailbox of an account asks for its recovery, or learns how it is going. Once the wait is
 * over, they get the challenge of a new passkey.
 * @throws not_found (names `challengeId`), challenge_expired, invalid_code, email_locked, email_sign_in_disabled,
 * email_recovery_disabled, user_suspended, recovery_not_needed, rate_limited, passkey_limit
 */
export async function recoverByEmail(deps: Deps, call: Call, input: RecoverByEmail): Promise<RecoveryStep> {
  const answer = { ...input, purpose: 'recovery', userId: null } as const
  return withRightAnswer(deps, call, answer, async (tx, challenge) => {
    const inTx = { ...deps, db: tx }
    const { tenant_id: tenantId, app_id: appId, email_key: emailKey } = challenge
    const app = await signInSettings(inTx, tenantId, appId)
    requireRecoverable(app)
    const userId = await confirmedOwner(tx, challenge)
    const user = userId && (await lockAccount(tx, tenantId, userId))
    if (user === undefined || user.guest) throw fail('challenge_expired')
    if (user.status !== 'active') throw fail('user_suspended')
    await requireNeeded(tx, user)
    const now = deps.now()
    const pending = await continued(tx, deps, call, user, emailKey)
    const { waitHours } = app.emailRecovery
    const row = pending ?? (await begin(tx, deps, call, user, { waitHours, language: app.email.language, emailKey }))
    const of = { id: user.id, appId, recoveryId: row.id }
    const registration = store.isReady(row, now) ? await recoveryOptions(inTx, call, of) : null
    return { recovery: store.toRecovery(row, now), registration }
  })
}

/** The pending recovery that the same address asked for, if its time is not over. Another one ends. @throws record_tampered */
async function continued(
  tx: Db,
  deps: Deps,
  cause: Call,
  user: UserRow,
  emailKey: string,
): Promise<store.RecoveryRow | undefined> {
  const row = await store.lockPending(tx, user)
  if (row === undefined) return undefined
  const isOver = row.expires_at <= deps.now()
  if (!isOver && row.email_key === emailKey) return row
  const of = { tenantId: user.tenant_id, userId: user.id, cause }
  await cancelPending(tx, deps, of, isOver ? null : 'email_changed')
  return undefined
}

/** A page of the current user's recoveries, newest first. */
export async function listRecoveries(
  deps: Deps,
  tenantId: Id<'ten'>,
  userId: Id<'usr'>,
  query: ListRecoveries,
): Promise<Page<EmailRecovery>> {
  return store.listRecoveries(deps.db, tenantId, userId, deps.now(), query)
}

/** The same for a developer. @throws not_found */
export async function listRecoveriesOf(
  deps: Deps,
  caller: Caller,
  userId: string,
  query: ListRecoveries,
): Promise<Page<EmailRecovery>> {
  return listRecoveries(deps, caller.tenantId, await ownUser(deps, caller, userId), query)
}
