import type { Db } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import { recordAuditOnly } from '../../platform/events/audit-only-entries.ts'
import { eventOf, publish } from '../../platform/events/events.ts'
import { existing, pathId } from '../../platform/http/errors.ts'
import type { Caller, Page, UserCall } from '../../platform/http/route.ts'
import type { Id } from '../../platform/ids.ts'
import { listDomainOrigins } from '../../platform/security/domain-origins.ts'
import { isAllowedOrigin } from '../../platform/security/web-origin.ts'
import { signInSettings } from '../../tenancy/apps/service.ts'
import { requireOtherWayIn } from '../identities/service.ts'
import { forgetPasskeys, ownUser, requireStepUp } from '../sessions/service.ts'
import { fail } from './errors.ts'
import type { ListPasskeys, LoginVerify, Passkey, RenamePasskey } from './schema.ts'
import * as store from './store.ts'
import { verifyAssertion } from './webauthn/ceremony.ts'

export { PASSKEY_ERRORS } from './errors.ts'
export { recoveryOptions } from './registration.ts'
export { credentialIdsOf } from './store.ts'

/** A page of the current user's passkeys, newest first. */
export async function listPasskeys(
  deps: Deps,
  tenantId: Id<'ten'>,
  userId: Id<'usr'>,
  query: ListPasskeys,
): Promise<Page<Passkey>> {
  return store.listPasskeys(deps.db, tenantId, userId, query)
}

/** The same for a developer. @throws not_found */
export async function listPasskeysOf(
  deps: Deps,
  caller: Caller,
  userId: string,
  query: ListPasskeys,
): Promise<Page<Passkey>> {
  return listPasskeys(deps, caller.tenantId, await ownUser(deps, caller, userId), query)
}

async function findOwn(
  deps: Deps,
  { caller, user }: UserCall,
  id: string,
  find = store.findPasskey,
): Promise<store.PasskeyRow> {
  return existing(await find(deps.db, caller.tenantId, user.id, pathId('pky', id)))
}

/** Renames one of the current user's passkeys. Null removes the name. @throws not_found */
export async function renamePasskey(deps: Deps, call: UserCall, id: string, input: RenamePasskey): Promise<Passkey> {
  const row = await findOwn(deps, call, id)
  if (input.name === undefined) return store.toPasskey(row)
  const named = { ...row, name: store.passkeyName(input.name), updated_at: deps.now() }
  return deps.db.tx(async (tx) => {
    const renamed = await store.renamePasskey(tx, named)
    if (renamed === undefined) return store.toPasskey(row)
    const { tenant_id: tenantId, user_id: userId, id: target } = renamed
    const about = { tenantId, appId: call.user.appId, userId, target }
    await recordAuditOnly(tx, deps, { ...about, action: 'passkey.renamed', cause: call })
    return store.toPasskey(renamed)
  })
}

/**
 * Removes one of the current user's passkeys and returns its final state. The last passkey stays unless the user has an
 * identity that signs them in: they could never sign in again. A passkey that is the only wrap of a key share stays too. No
 * session of the user counts as having shown a passkey any more, this one included.
 * @throws not_found, last_sign_in_method, share_would_be_lost, and the errors of `requireStepUp`
 */
export async function removePasskey(deps: Deps, call: UserCall, id: string): Promise<Passkey> {
  const { caller, user } = call
  await findOwn(deps, call, id, store.findPasskeyToRemove)
  await requireStepUp(deps, caller, user)
  return deps.db.tx(async (tx) => {
    // Locked: of two concurrent removals of the last two passkeys, the second one sees that only one is left.
    existing(await store.lockOwner(tx, caller.tenantId, user.id))
    const row = await findOwn({ ...deps, db: tx }, call, id, store.findPasskeyToRemove)
    await requireOtherWayIn(tx, caller.tenantId, user.id)
    await deps.hooks.passkeyRemoved(tx, deps, {
      tenantId: caller.tenantId,
      userId: user.id,
      credentialId: row.credential_id,
    })
    await store.deletePasskey(tx, row)
    await forgetPasskeys(tx, caller.tenantId, user.id)
    await publish(tx, deps, eventOf(row, 'passkey.removed', { passkeyId: row.id, userId: user.id }, call))
    return store.toPasskey(row)
  })
}

/** A user who approves something, and the challenge that stands for it. */
export interface Approver {
  tenantId: Id<'ten'>
  appId: Id<'app'>
  userId: Id<'usr'>
}

const mayApprove = ({ approves_at }: store.PasskeyRow, now: Date) => approves_at !== null && approves_at <= now

/**
 * Of users who approved something earlier, each with a passkey, those whose approval still counts: the user is active, still has
 * that passkey, and it may approve now. They and `who`, who approves now, stay as they are until the transaction ends. Call it
 * before a passkey is locked. @throws user_suspended if `who` is not active
 */
export async function stillApproving(
  tx: Db,
  deps: Pick<Deps, 'now'>,
  tenantId: Id<'ten'>,
  earlier: ReadonlyMap<Id<'usr'>, Id<'pky'>>,
  who: Id<'usr'>,
): Promise<Set<Id<'usr'>>> {
  const now = deps.now()
  const active = await store.lockActive(tx, now, tenantId, [...earlier.keys(), who])
  if (!active.has(who)) throw fail('user_suspended')
  const still = new Set<Id<'usr'>>()
  for (const [userId, passkeyId] of earlier) {
    if (!active.has(userId)) continue
    const passkeys = await store.passkeysOf(tx, tenantId, userId)
    if (passkeys.some((row) => row.id === passkeyId && mayApprove(row, now))) still.add(userId)
  }
  return still
}

/** A passkey of a user as the options of an approval name it. */
export type ApprovingPasskey = ReturnType<typeof store.toDescriptor> & { passkeyId: Id<'pky'>; rpId: string }

/** The passkeys with which a user may approve something now. */
export async function approvingPasskeys(
  db: Db,
  { tenantId, userId }: Pick<Approver, 'tenantId' | 'userId'>,
  now: Date,
): Promise<ApprovingPasskey[]> {
  const rows = await store.passkeysOf(db, tenantId, userId)
  return rows
    .filter((row) => mayApprove(row, now))
    .map((row) => ({ ...store.toDescriptor(row), passkeyId: row.id, rpId: row.rp_id }))
}

/** An assertion that approved something, as it is kept. */
export interface StoredAssertion {
  passkeyId: Id<'pky'>
  credentialId: string
  clientDataJSON: string
  authenticatorData: string
  signature: string
}

/**
 * Verifies the assertion by which a user approves what a challenge stands for, and notes the use of the passkey, in the
 * caller's transaction. User verification is required, whatever the app says. Which challenge it is, and that it approves
 * only once, is the caller's part. @throws assertion_invalid, passkey_cannot_approve (both name `credential`)
 */
export async function verifyApproval(
  tx: Db,
  deps: Deps,
  { tenantId, appId, userId }: Approver,
  challenge: Buffer,
  credential: LoginVerify['credential'],
): Promise<StoredAssertion> {
  const invalid = () => fail('assertion_invalid').about('credential', 'Could not be verified.')
  const passkeys = await store.passkeysOf(tx, tenantId, userId)
  const passkey = passkeys.find(({ credential_id }) => credential_id.toString('base64url') === credential.id)
  const { userHandle = null, clientDataJSON, authenticatorData, signature } = credential.response
  const isOwn = userHandle === null || Buffer.from(userHandle, 'base64url').equals(Buffer.from(userId))
  if (passkey === undefined || !isOwn) throw invalid()
  const { allowedOrigins } = await signInSettings({ ...deps, db: tx }, tenantId, appId)
  const origins = { allowedOrigins, domainOrigins: await listDomainOrigins(tx, tenantId, appId) }
  const assertion = await verifyAssertion(
    credential,
    {
      ceremony: {
        challenge: challenge.toString('base64url'),
        rpId: passkey.rp_id,
        origin: null,
        userVerification: 'required',
      },
      isAllowedOrigin: (one) => isAllowedOrigin(deps.config, origins, one),
      log: deps.log,
    },
    { publicKey: passkey.public_key, signCount: passkey.sign_count, deviceType: passkey.device_type },
  )
  const now = deps.now()
  if (assertion === null || !assertion.userVerified) throw invalid()
  if (passkey.approves_at === null || passkey.approves_at > now)
    throw fail('passkey_cannot_approve').about(
      'credential',
      passkey.approves_at === null
        ? 'A server took part in its creation, or Halfkey does not know how it was created.'
        : `It can approve from ${passkey.approves_at.toISOString()}.`,
    )
  const { signCount, backedUp } = assertion
  if (!(await store.recordUse(tx, passkey, { signCount, backedUp, at: now }))) throw invalid()
  await deps.hooks.recoveryRefuted(tx, deps, { tenantId, userId, by: 'passkey' })
  return { passkeyId: passkey.id, credentialId: credential.id, clientDataJSON, authenticatorData, signature }
}
