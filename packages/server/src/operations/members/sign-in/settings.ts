import { operatorSends } from '../../../identity/emails/send.ts'
import { publicUrl } from '../../../platform/config.ts'
import type { Db } from '../../../platform/db/db.ts'
import type { Deps } from '../../../platform/deps.ts'
import { recordAuditOnly } from '../../../platform/events/audit-only-entries.ts'
import type { Call, Caller } from '../../../platform/http/route.ts'
import { type Id, isId, newId } from '../../../platform/ids.ts'
import { seal } from '../../../platform/security/crypto.ts'
import { checkIssuer, secretContext } from '../../../tenancy/apps/providers/service.ts'
import { requireOwner } from '../authority.ts'
import { fail } from '../errors.ts'
import { currentAuthority } from '../service.ts'
import type { MemberSignIn, SetOidc, UpdateMemberSignIn } from './schema.ts'
import * as store from './store.ts'

/** The login of an organisation, as the client of it that its members sign in by. */
export interface MemberProvider {
  tenant_id: Id<'ten'>
  id: Id<'prv'>
  name: string
  issuer: string
  client_id: string
  client_secret_sealed: Buffer | null
}

const NONE = { name: null, issuer: null, client_id: null, client_secret_sealed: null } as const

/** The login of a tenant's organisation. Undefined if an owner has set none. */
export async function providerOf(db: Db, tenantId: Id<'ten'>): Promise<MemberProvider | undefined> {
  const row = await store.findMethod(db, tenantId, 'oidc')
  if (row === undefined || !row.enabled) return undefined
  const { provider_id: id, name, issuer, client_id, client_secret_sealed } = row
  if (id === null || issuer === null || client_id === null) return undefined
  return { tenant_id: tenantId, id, name: name ?? issuer, issuer, client_id, client_secret_sealed }
}

/** Where a login sends browsers back to. Each has a separate address, so that no other one can send them there (RFC 9700, section 4.4). */
export const memberCallbackUrl = (deps: Pick<Deps, 'config'>, id: Id<'prv'>): string =>
  `${publicUrl(deps.config)}/dashboard/oidc/${id}/callback`

/** How the members of the caller's tenant sign in. */
export async function getSignIn(deps: Deps, { tenantId }: Pick<Caller, 'tenantId'>): Promise<MemberSignIn> {
  const provider = await providerOf(deps.db, tenantId)
  return {
    emailCode: await store.isOn(deps.db, tenantId, 'email_code'),
    oidc:
      provider === undefined
        ? null
        : {
            name: provider.name,
            issuer: provider.issuer,
            clientId: provider.client_id,
            clientSecretSet: provider.client_secret_sealed !== null,
            callbackUrl: memberCallbackUrl(deps, provider.id),
          },
    signInUrl: `${publicUrl(deps.config)}/dashboard?tenant=${tenantId}`,
  }
}

/** Turns codes on or off. @returns whether that changed something @throws member_email_not_configured */
async function setEmailCode(tx: Db, deps: Deps, tenantId: Id<'ten'>, enabled: boolean | undefined): Promise<boolean> {
  if (enabled === true && operatorSends(deps) === null) throw fail('member_email_not_configured')
  if (enabled === undefined || enabled === (await store.isOn(tx, tenantId, 'email_code'))) return false
  const row = { tenant_id: tenantId, method: 'email_code' as const, enabled, provider_id: null, ...NONE }
  await store.setMethod(tx, { ...row, updated_at: deps.now() })
  return true
}

/**
 * The login as it will be, with its secret sealed. It is the same one only for the same issuer and client, so that accounts there stay
 * connected. @returns null to turn it off; undefined if it is not to change
 */
async function prepareOidc(
  deps: Deps,
  tenantId: Id<'ten'>,
  input: SetOidc | undefined,
): Promise<MemberProvider | null | undefined> {
  if (input === undefined || input === null) return input
  const before = await providerOf(deps.db, tenantId)
  const { name, issuer, clientId: client_id, clientSecret } = input
  const isSame = before?.issuer === issuer && before.client_id === client_id
  const id = isSame ? before.id : newId('prv')
  const kept = isSame ? before.client_secret_sealed : null
  const given = clientSecret == null ? null : await seal(deps.keys, clientSecret, secretContext(tenantId, id))
  const client_secret_sealed = clientSecret === undefined ? kept : given
  return { tenant_id: tenantId, id, name: name.trim().normalize('NFC'), issuer, client_id, client_secret_sealed }
}

/** Stores a login. Accounts at another one sign nobody in any more. @returns whether that changed something */
async function setOidc(
  tx: Db,
  deps: Deps,
  tenantId: Id<'ten'>,
  provider: MemberProvider | null | undefined,
): Promise<boolean> {
  if (provider === undefined) return false
  const before = await providerOf(tx, tenantId)
  if (before === undefined && provider === null) return false
  if (provider?.id !== before?.id) await store.deleteIdentities(tx, tenantId, null)
  const { id, ...columns } = provider ?? { id: null, ...NONE }
  await store.setMethod(tx, {
    ...columns,
    tenant_id: tenantId,
    method: 'oidc',
    enabled: provider !== null,
    provider_id: id,
    updated_at: deps.now(),
  })
  return true
}

const OWNERS_ONLY = 'Only an owner decides how members sign in.'

/**
 * The step before the transaction: asks the guard whether Halfkey may fetch from the login. For owners alone, so that nobody else has it
 * look up names. @throws insufficient_scope, validation_failed, issuer_url_blocked
 */
export async function checkSignIn(deps: Deps, caller: Caller, { oidc }: UpdateMemberSignIn): Promise<void> {
  requireOwner(await currentAuthority(deps.db, caller), OWNERS_ONLY)
  if (oidc != null) await checkIssuer(deps, oidc.issuer, 'oidc.issuer')
}

/**
 * Changes it. Only an owner does, and no key: who decides how owners sign in could become one.
 * @throws insufficient_scope, member_email_not_configured
 */
export async function updateSignIn(deps: Deps, call: Call, input: UpdateMemberSignIn): Promise<MemberSignIn> {
  const { caller } = call
  const { tenantId } = caller
  const oidc = await prepareOidc(deps, tenantId, input.oidc)
  return deps.db.tx(async (tx) => {
    requireOwner(await currentAuthority(tx, caller), OWNERS_ONLY)
    const byCode = await setEmailCode(tx, deps, tenantId, input.emailCode)
    const byLogin = await setOidc(tx, deps, tenantId, oidc)
    if (byCode || byLogin) {
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
export async function waysOfPage(deps: Deps, text: string | undefined) {
  const tenantId = await tenantOfPage(deps, text)
  if (tenantId === undefined) return { emailCode: false, oidc: null }
  const provider = await providerOf(deps.db, tenantId)
  return {
    emailCode: await store.isOn(deps.db, tenantId, 'email_code'),
    oidc: provider === undefined ? null : { name: provider.name, host: new URL(provider.issuer).host },
  }
}
