import type { Db } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import { limitAccount } from '../../platform/http/rate-limits/limits.ts'
import type { UserCall } from '../../platform/http/route.ts'
import { prepareForeignToken, tokenInvalid, useToken, verifyForeignToken } from '../foreign-tokens/service.ts'
import { requireStepUp } from '../sessions/service.ts'
import { lockUser } from '../users/service.ts'
import { addIdentity, tell } from './add.ts'
import { fail, IDENTITIES_MAX } from './errors.ts'
import { accountOf } from './exchange.ts'
import type { Identity, LinkIdentity } from './schema.ts'
import * as store from './store.ts'

const appOf = ({ caller, user }: Omit<UserCall, 'origin'>) => ({ tenantId: caller.tenantId, appId: user.appId })

/** Fetches the issuer's keys where they are needed: no transaction waits for a network. @throws token_invalid */
export async function prepareLink(deps: Deps, call: Omit<UserCall, 'origin'>, input: LinkIdentity): Promise<void> {
  await prepareForeignToken(deps, appOf(call), input)
}

/**
 * Makes an account an identity of the current user, who has proven who they are by the session, and that the account is theirs
 * by what `prove` checks, in the same transaction and with the user locked.
 * @param field what names the account in the request
 * @throws already_exists (it is somebody's identity), identity_limit, session_revoked, guest_expired, and what `prove` throws
 */
export async function attachAccount(
  deps: Deps,
  call: UserCall,
  { account, username, field }: { account: store.Account; username: string | null; field: string },
  prove: (tx: Db) => Promise<void>,
): Promise<Identity> {
  const { caller, user } = call
  return deps.db.tx(async (tx) => {
    const owner = await lockUser(tx, deps, caller.tenantId, user.id)
    if (owner === undefined) throw fail('session_revoked')
    if (owner.ended) throw fail('guest_expired')
    await store.lockAccount(tx, account)
    if ((await store.findKnown(tx, account)) !== undefined)
      throw fail('already_exists').about(field, 'This identity is already linked to a user.')
    if ((await store.countIdentities(tx, caller.tenantId, user.id)) >= IDENTITIES_MAX) throw fail('identity_limit')
    await prove(tx)
    const row = await addIdentity(tx, deps, account, user.id, username)
    await tell(tx, deps, call, row, 'identity.linked')
    return store.toIdentity(row)
  })
}

/**
 * Makes the account that a token shows an identity of the current user, who has proven who they are by the session and the
 * step-up, and that the account is theirs by the token.
 * @throws token_invalid, issuer_unavailable, already_exists (it is somebody's identity), identity_limit, session_revoked,
 * guest_expired, and the errors of `requireStepUp`
 */
export async function linkIdentity(deps: Deps, call: UserCall, input: LinkIdentity): Promise<Identity> {
  const { caller, user } = call
  await limitAccount(deps, `link ${user.id}`)
  await requireStepUp(deps, caller, user)
  const token = await verifyForeignToken(deps, appOf(call), input)
  const account = accountOf(caller.tenantId, user.appId, token)
  return attachAccount(deps, call, { account, username: null, field: 'subject_token' }, async (tx) => {
    // The account may have got a passkey since the first check.
    await requireStepUp({ ...deps, db: tx }, caller, user)
    if (token.use !== null && !(await useToken(tx, token.use))) throw tokenInvalid('used')
  })
}
