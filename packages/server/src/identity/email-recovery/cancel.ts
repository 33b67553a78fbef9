import type { Db } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import { type EventInput, eventOf, publish } from '../../platform/events/events.ts'
import { existing, notFoundField } from '../../platform/http/errors.ts'
import type { MaybeUserCall } from '../../platform/http/route.ts'
import { type Id, isId } from '../../platform/ids.ts'
import { equalSecrets, hmacSha256Bytes } from '../../platform/security/crypto.ts'
import { fail } from './errors.ts'
import type { CancelRecovery, EmailRecovery, EndedBy } from './schema.ts'
import * as store from './store.ts'

/**
 * What the link in a notice carries: the recovery, and the proof that its reader got the notice. It only cancels. It follows
 * from a key that the database holds only sealed, so nothing of it is stored. Not from a key of tokens: the link must still cancel
 * when all of those were revoked, as after a theft.
 */
export async function cancelToken({ db }: Pick<Deps, 'db'>, tenantId: Id<'ten'>, id: Id<'rcv'>): Promise<string> {
  return `${id}.${(await db.records.proof(tenantId, 'recovery-cancel', id)).toString('base64url')}`
}

/** What notices of releases before carried, which may still lie in a mailbox: it followed from the oldest key of tokens. */
async function earlierToken({ signingKeys }: Pick<Deps, 'signingKeys'>, id: Id<'rcv'>): Promise<string> {
  const { refreshKey } = await signingKeys.oldest()
  return `${id}.${hmacSha256Bytes(refreshKey, `halfkey/v1/recovery-cancel ${id}`).toString('base64url')}`
}

/** The recovery that a token cancels. @throws not_found (names `token`) */
async function readToken(deps: Deps, tenantId: Id<'ten'>, token: string): Promise<Id<'rcv'>> {
  const id = token.split('.')[0] ?? ''
  if (!isId('rcv', id)) throw notFoundField('token')
  const genuine = await Promise.all([cancelToken(deps, tenantId, id), earlierToken(deps, id)])
  if (!genuine.some((one) => equalSecrets(Buffer.from(one), Buffer.from(token)))) throw notFoundField('token')
  return id
}

/** Whose recovery ends, and who ends it. */
interface OfUser {
  tenantId: Id<'ten'>
  userId: Id<'usr'>
  cause?: EventInput['cause']
  /** Only this recovery. */
  id?: Id<'rcv'> | null
}

/**
 * Ends the pending recovery of a user without a passkey, if there is one. @returns it as it is then
 * @param by null: nobody came for it in time
 */
export async function cancelPending(
  tx: Db,
  deps: Deps,
  { tenantId, userId, cause, id = null }: OfUser,
  by: EndedBy | null,
): Promise<store.RecoveryRow | undefined> {
  const row = await store.lockPendingToEnd(tx, tenantId, userId, id)
  if (row === undefined) return undefined
  const now = deps.now()
  const status = by === null ? 'expired' : 'canceled'
  const ended = { ...row, status, due_at: null, ended_at: now, ended_by: by, updated_at: now } as const
  const data = { userId: row.user_id, recoveryId: row.id, by: by ?? 'expired' }
  await publish(tx, deps, eventOf(row, 'user.recovery_canceled', data, cause))
  return store.storeRecovery(tx, ended)
}

/**
 * Cancels a recovery: for the current user, in whatever way they signed in, or by the link of a notice. A link of one that has
 * ended already returns it as it is.
 * @throws not_found (names `token`, or the user has none that is pending), session_missing
 */
export async function cancelRecovery(
  deps: Deps,
  call: MaybeUserCall,
  { token }: CancelRecovery,
): Promise<EmailRecovery> {
  const { caller, user } = call
  const { tenantId } = caller
  const now = deps.now()
  if (token === undefined) {
    if (user === null) throw fail('session_missing')
    const of = { tenantId, userId: user.id, cause: call }
    const row = await deps.db.tx((tx) => cancelPending(tx, deps, of, 'session'))
    return store.toRecovery(existing(row), now)
  }
  const id = await readToken(deps, tenantId, token)
  const found = await store.findRecovery(deps.db, caller, id)
  if (found === undefined) throw notFoundField('token')
  if (found.status !== 'pending') return store.toRecovery(found, now)
  // A later recovery of the same user is not the one that this link is about.
  const of = { tenantId, userId: found.user_id, cause: call, id }
  const ended = await deps.db.tx((tx) => cancelPending(tx, deps, of, 'link'))
  return store.toRecovery(ended ?? existing(await store.findRecovery(deps.db, caller, id)), now)
}
