import type { Deps } from '../../platform/deps.ts'
import { recordAuditOnly } from '../../platform/events/audit-only-entries.ts'
import { eventOf, publish } from '../../platform/events/events.ts'
import { existing, pathId } from '../../platform/http/errors.ts'
import type { Caller, Page, UserCall } from '../../platform/http/route.ts'
import type { Id } from '../../platform/ids.ts'
import { requireOtherWayIn } from '../identities/service.ts'
import { ownUser, requireStepUp } from '../sessions/service.ts'
import type { ListPasskeys, Passkey, RenamePasskey } from './schema.ts'
import * as store from './store.ts'

export { credentialIdsOf } from './store.ts'

/** How many passkeys a user can have. The options of every email-first login contain their ids. */
export const PASSKEYS_MAX = 50

export const PASSKEY_ERRORS = {
  attestation_invalid: [400, 'This passkey could not be verified. Start again.'],
  assertion_invalid: [401, 'This passkey could not be verified. Start again.'],
  passkey_limit: [409, `A user can have at most ${PASSKEYS_MAX} passkeys. Remove one first.`],
  challenge_expired: [410, 'This challenge was already used or has expired. Request a new one.'],
} as const

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

/** A passkey's name as it is stored. Null: no name. */
export const passkeyName = (name: string | null | undefined): string | null => name?.trim().normalize('NFC') ?? null

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
  const named = { ...row, name: passkeyName(input.name), updated_at: deps.now() }
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
 * identity that signs them in: they could never sign in again. A passkey that is the only wrap of a key share stays too.
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
    await publish(tx, deps, eventOf(row, 'passkey.removed', { passkeyId: row.id, userId: user.id }, call))
    return store.toPasskey(row)
  })
}
