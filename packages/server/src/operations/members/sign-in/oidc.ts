import { mailboxOf } from '../../../identity/email-sign-in/address.ts'
import { bindingCookies, endedCookie, secretOf } from '../../../identity/providers/browser-binding.ts'
import { browserHashOf, deriveFrom, newBrowserSecret, RETURN_MS } from '../../../identity/providers/flow.ts'
import type { Db } from '../../../platform/db/db.ts'
import type { Deps } from '../../../platform/deps.ts'
import type { EntranceRequest } from '../../../platform/http/route.ts'
import { type Id, isId, newId } from '../../../platform/ids.ts'
import { equalSecrets } from '../../../platform/security/crypto.ts'
import { fail } from '../../dashboard/errors.ts'
import * as challenges from '../passkeys/store.ts'
import * as members from '../store.ts'
import { type MemberProvider, providerOf } from './settings.ts'
import * as store from './store.ts'

const speaking = () => import('./at-login.ts')

type Headers = EntranceRequest['headers']

/** Who goes to the login, and what for: anybody to sign in, or a member's session to connect an account. */
export interface Flow {
  tenantId: Id<'ten'>
  /** Null for a sign-in. */
  link: { memberId: Id<'mem'>; sessionHash: Buffer } | null
}

const holderText = ({ tenantId, link }: Flow): string =>
  link === null ? tenantId : `${tenantId} ${link.memberId} ${link.sessionHash.toString('hex')}`

function readHolder(text: string | null): Flow | undefined {
  const [tenantId = '', memberId, hash = ''] = (text ?? '').split(' ')
  if (!isId('ten', tenantId)) return undefined
  if (memberId === undefined) return { tenantId, link: null }
  return isId('mem', memberId) ? { tenantId, link: { memberId, sessionHash: Buffer.from(hash, 'hex') } } : undefined
}

const kindOf = ({ link }: Flow) => (link === null ? 'oidc_sign_in' : 'oidc_link')

/**
 * Begins a flow in a browser, which alone can end it.
 * @returns where to send the browser, and the cookies that bind the answer to it
 * @throws member_oidc_disabled, member_oidc_failed
 */
export async function beginFlow(
  deps: Deps,
  headers: Headers,
  flow: Flow | undefined,
): Promise<{ url: string; cookies: string[] }> {
  const provider = flow && (await providerOf(deps.db, flow.tenantId))
  if (flow === undefined || provider === undefined) throw fail('member_oidc_disabled')
  const secret = newBrowserSecret()
  const id = newId('chl')
  const { urlAtLogin, failureOf } = await speaking()
  const url = await urlAtLogin(deps, provider, deriveFrom(secret, id)).catch((error: unknown) => {
    failureOf(deps, provider, error)
    throw fail('member_oidc_failed')
  })
  await challenges.insertChallenge(deps.db, {
    id,
    kind: kindOf(flow),
    challenge: browserHashOf(secret),
    rp_id: provider.id,
    holder: holderText(flow),
    expires_at: new Date(deps.now().getTime() + RETURN_MS),
    mac: null,
  })
  return { url, cookies: bindingCookies(deps, headers, id, secret) }
}

const isSame = (a: string, b: string) => equalSecrets(Buffer.from(a), Buffer.from(b))

/** A flow that came back to the browser that it left from, and whose account it came back with. */
export interface CameBack {
  flow: Flow
  provider: MemberProvider
  /** When the flow began. */
  begunAt: Date
  cookie: string
  /** The account, or why there is none. */
  account: { subject: string; email: string | null } | { failure: string }
}

/**
 * The flow of an answer, used up, and the account that the answer is for. The browser's cookie is looked at first: a stranger with a
 * stolen state uses nothing up.
 * @returns undefined for an answer to no flow of this browser at this login
 */
export async function comeBack(
  deps: Deps,
  headers: Headers,
  providerId: string,
  queryText: string,
): Promise<CameBack | undefined> {
  const state = new URLSearchParams(queryText).get('state') ?? ''
  const id = state.slice(0, state.indexOf('.'))
  const secret = isId('chl', id) ? secretOf(deps, headers, id) : undefined
  if (!isId('chl', id) || secret === undefined) return undefined
  const derived = deriveFrom(secret, id)
  const found = await challenges.findChallenge(deps.db, id)
  const flow = found && readHolder(found.holder)
  if (found === undefined || flow === undefined || found.kind !== kindOf(flow) || found.rp_id !== providerId)
    return undefined
  if (!isSame(browserHashOf(secret), found.challenge) || !isSame(state, derived.state)) return undefined
  const taken = await challenges.takeChallenge(deps.db, id, found.kind)
  const provider = await providerOf(deps.db, flow.tenantId)
  if (taken === undefined || taken.expires_at <= deps.now() || provider?.id !== providerId) return undefined
  const { accountAtLogin, failureOf } = await speaking()
  const account = await accountAtLogin(deps, provider, queryText, derived).catch((error: unknown) => ({
    failure: failureOf(deps, provider, error),
  }))
  const begunAt = new Date(taken.expires_at.getTime() - RETURN_MS)
  return { flow, provider, begunAt, cookie: endedCookie(deps, id), account }
}

const accountOf = ({ tenant_id, id: provider_id, issuer }: MemberProvider, subject: string) => ({
  tenant_id,
  provider_id,
  issuer,
  subject,
})

/** A member whom a flow of `begunAt` may be about: active, with the rights of that time. Locked. */
async function lockUnchanged(
  tx: Db,
  tenantId: Id<'ten'>,
  id: Id<'mem'>,
  begunAt: Date,
): Promise<members.MemberRow | undefined> {
  const member = await members.lockMember(tx, tenantId, id)
  if (member?.status !== 'active') return undefined
  return member.rights_changed_at === null || member.rights_changed_at < begunAt ? member : undefined
}

/** The member whom an account signs in. An equal email makes nobody its owner. Undefined if there is none. */
export async function memberOfAccount(
  tx: Db,
  { provider, begunAt }: CameBack,
  subject: string,
): Promise<members.MemberRow | undefined> {
  const identity = await store.findIdentity(tx, accountOf(provider, subject))
  if (identity === undefined || (await providerOf(tx, provider.tenant_id))?.id !== provider.id) return undefined
  const member = await lockUnchanged(tx, provider.tenant_id, identity.member_id, begunAt)
  // That the member's row names it: an account that was disconnected may have been put back.
  return member?.identity_id === identity.id ? member : undefined
}

/**
 * Connects an account with the member whose fresh session asked for it. The login must have verified the very address that the member
 * has proven to Halfkey.
 * @returns why it was refused; undefined if it was not
 */
export async function connectAccount(
  tx: Db,
  deps: Deps,
  { provider, begunAt }: Pick<CameBack, 'provider' | 'begunAt'>,
  memberId: Id<'mem'>,
  { subject, email }: { subject: string; email: string | null },
): Promise<'session_invalid' | 'email_mismatch' | 'account_taken' | undefined> {
  const { tenant_id } = provider
  const member = await lockUnchanged(tx, tenant_id, memberId, begunAt)
  if (member === undefined || (await providerOf(tx, tenant_id))?.id !== provider.id) return 'session_invalid'
  const isTheirs = members.hasProvenEmail(member) && email !== null && mailboxOf(email) === mailboxOf(member.email)
  if (!isTheirs) return 'email_mismatch'
  const now = deps.now()
  const id = newId('idn')
  await store.deleteIdentities(tx, tenant_id, memberId)
  const row = { ...accountOf(provider, subject), id, member_id: memberId, created_at: now, mac: null }
  if (!(await store.insertIdentity(tx, row))) return 'account_taken'
  await members.updateMember(tx, { ...member, identity_id: id, updated_at: now })
  return undefined
}

/** Disconnects the account of a member. @returns whether there was one */
export async function disconnectAccount(
  tx: Db,
  deps: Deps,
  tenantId: Id<'ten'>,
  memberId: Id<'mem'>,
): Promise<boolean> {
  const member = await members.lockMember(tx, tenantId, memberId)
  if (member === undefined || member.identity_id === null) return false
  await store.deleteIdentities(tx, tenantId, memberId)
  await members.updateMember(tx, { ...member, identity_id: null, updated_at: deps.now() })
  return true
}

/** The login of a member's organisation, and whether an account there signs the member in. Null if there is none. */
export async function ownLogin(
  deps: Deps,
  tenantId: Id<'ten'>,
  memberId: Id<'mem'>,
): Promise<{ name: string; connected: boolean } | null> {
  const provider = await providerOf(deps.db, tenantId)
  if (provider === undefined) return null
  const identity = await store.findIdentityOf(deps.db, tenantId, provider.id, memberId)
  const member = await members.findMember(deps.db, tenantId, memberId)
  return { name: provider.name, connected: identity !== undefined && member?.identity_id === identity.id }
}
