import { operatorSends } from '../../../identity/emails/send.ts'
import { publicUrl } from '../../../platform/config.ts'
import type { Deps } from '../../../platform/deps.ts'
import { recordAuditOnly } from '../../../platform/events/audit-only-entries.ts'
import type { Call, Caller } from '../../../platform/http/route.ts'
import { type Id, isId } from '../../../platform/ids.ts'
import { requireOwner } from '../authority.ts'
import { fail } from '../errors.ts'
import { currentAuthority } from '../service.ts'
import type { MemberSignIn, UpdateMemberSignIn } from './schema.ts'
import * as store from './store.ts'

/** How the members of the caller's tenant sign in. */
export async function getSignIn(deps: Deps, { tenantId }: Pick<Caller, 'tenantId'>): Promise<MemberSignIn> {
  return {
    emailCode: await store.isOn(deps.db, tenantId, 'email_code'),
    signInUrl: `${publicUrl(deps.config)}/dashboard?tenant=${tenantId}`,
  }
}

/**
 * Changes it. Only an owner does, and no key: who decides how owners sign in could become one.
 * @throws insufficient_scope, member_email_not_configured
 */
export async function updateSignIn(deps: Deps, call: Call, { emailCode }: UpdateMemberSignIn): Promise<MemberSignIn> {
  const { caller } = call
  const { tenantId } = caller
  return deps.db.tx(async (tx) => {
    requireOwner(await currentAuthority(tx, caller), 'Only an owner decides how members sign in.')
    if (emailCode === true && operatorSends(deps) === null) throw fail('member_email_not_configured')
    if (emailCode !== undefined && emailCode !== (await store.isOn(tx, tenantId, 'email_code'))) {
      await store.turn(tx, tenantId, 'email_code', emailCode, deps.now())
      const action = 'member_sign_in.updated'
      await recordAuditOnly(tx, deps, { tenantId, appId: null, action, target: tenantId, cause: call })
    }
    return getSignIn({ ...deps, db: tx }, caller)
  })
}

/** The tenant that a sign-in page names or, without a name, the only one. Undefined if there is no such tenant. */
export async function tenantOfPage(deps: Pick<Deps, 'db'>, text: string | undefined): Promise<Id<'ten'> | undefined> {
  if (text !== undefined) return isId('ten', text) ? text : undefined
  const [only, ...more] = await store.firstTenants(deps.db)
  return more.length === 0 ? only?.id : undefined
}

/** What a sign-in page offers to somebody whom nobody knows yet. */
export async function waysOfPage(deps: Deps, text: string | undefined): Promise<{ emailCode: boolean }> {
  const tenantId = await tenantOfPage(deps, text)
  return { emailCode: tenantId !== undefined && (await store.isOn(deps.db, tenantId, 'email_code')) }
}
