import type { LoginVerify, RegisterVerify } from '../../identity/passkeys/schema.ts'
import type { Db } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import { fail as refuse } from '../../platform/http/errors.ts'
import type { EntranceRequest, Origin } from '../../platform/http/route.ts'
import type { Id } from '../../platform/ids.ts'
import { isFresh } from '../../platform/security/roles/member-calls.ts'
import * as passkeys from '../members/passkeys/service.ts'
import { arrive } from '../members/service.ts'
import { withMemberOfCode } from '../members/sign-in/codes.ts'
import { touchMember } from '../members/store.ts'
import { codeBindingOf } from './code-cookie.ts'
import { fail } from './errors.ts'
import { begin, describe, enter, type Known, NOBODY, noteAct } from './known.ts'
import type { Session } from './schema.ts'
import * as store from './store.ts'

/** Begins a member's session by a link, which the transaction has claimed. @throws dashboard_link_invalid */
export async function beginAsMember(
  tx: Db,
  deps: Deps,
  link: store.LinkRow,
  request: EntranceRequest,
  origin: Origin,
): Promise<Known> {
  const { tenant_id: tenantId, member_id: id } = link
  const arrived =
    tenantId !== null &&
    id !== null &&
    (await arrive(tx, deps, {
      tenantId,
      id,
      byInvitation: link.invites,
      madeBy: link.made_by,
      provesEmail: link.proves_email,
    }))
  if (!arrived) throw fail('dashboard_link_invalid')
  const grant = { ...NOBODY, tenant_id: tenantId, member_id: id, verified_at: deps.now() }
  const known = await begin(tx, deps, grant, request, origin)
  if (arrived.hasJoined) await noteAct(tx, deps, known, origin, 'member.joined')
  return known
}

/**
 * Begins a member's session by one of their passkeys. The answer to an unknown one is that to a wrong one.
 * @throws passkey_invalid, passkey_challenge_over
 */
export async function beginByPasskey(
  deps: Deps,
  request: EntranceRequest,
  origin: Origin,
  answer: LoginVerify,
): Promise<Known> {
  const proof = await passkeys.verifyProof(deps, answer)
  if (typeof proof === 'string') throw fail(proof)
  return deps.db.tx(async (tx) => {
    const member = await passkeys.useProof(tx, deps, proof)
    if (member === undefined) throw fail('passkey_invalid')
    const now = deps.now()
    await touchMember(tx, member.tenant_id, member.id, now)
    const grant = { ...NOBODY, tenant_id: member.tenant_id, member_id: member.id, verified_at: now }
    return begin(tx, deps, grant, request, origin)
  })
}

/**
 * Begins a member's session by a code that was mailed to them. It is weaker: sensitive calls, and a first passkey, need more.
 * @throws challenge_expired, invalid_code, email_locked, rate_limited
 */
export function beginByCode(
  deps: Deps,
  request: EntranceRequest,
  origin: Origin,
  typed: { challengeId: string; code: string },
): Promise<Known> {
  const binding = codeBindingOf(request.headers)
  return withMemberOfCode(deps, { ...typed, binding }, request.address, async (tx, { tenant_id, id }) => {
    await touchMember(tx, tenant_id, id, deps.now())
    return begin(tx, deps, { ...NOBODY, tenant_id, member_id: id }, request, origin)
  })
}

/** The member of a session, as the passkeys know them. @throws insufficient_scope for sessions of keys and operators */
export function holderOf({ row, holder: { tenantId, member } }: Known) {
  if (member === undefined)
    throw refuse('insufficient_scope', [
      { code: 'member_required', message: 'Only a member has passkeys for the dashboard.' },
    ])
  const names = { email: row.member_email ?? '', name: row.member_name ?? '' }
  return { tenantId, memberId: member.id, names, verifiedAtMs: member.verifiedAtMs }
}

/** The same, who has proved who they are minutes ago: a thief of a cookie must not add a way in that stays. @throws reauthentication_required */
export function freshHolder(deps: Deps, known: Known) {
  const holder = holderOf(known)
  if (!isFresh(holder.verifiedAtMs, deps.now())) throw refuse('reauthentication_required')
  return holder
}

/**
 * Shows a passkey of the session's member, who may then make sensitive calls for some minutes.
 * @throws as `enter`, passkey_invalid (also for another member's), passkey_challenge_over
 */
export async function stepUp(deps: Deps, request: EntranceRequest, answer: LoginVerify): Promise<Session> {
  const known = await enter(deps, request)
  const { memberId, tenantId } = holderOf(known)
  const proof = await passkeys.verifyProof(deps, answer)
  if (typeof proof === 'string') throw fail(proof)
  await deps.db.tx(async (tx) => {
    const member = await passkeys.useProof(tx, deps, proof)
    if (member === undefined || member.id !== memberId || member.tenant_id !== tenantId) throw fail('passkey_invalid')
    if (!(await store.renewProof(tx, known.row.hash, deps.now()))) throw fail('session_invalid')
  })
  return describe(deps, await enter(deps, request))
}

/** The passkeys of the session's member. @throws as `enter`, insufficient_scope */
export async function listPasskeys(deps: Deps, request: EntranceRequest) {
  return passkeys.listPasskeys(deps, holderOf(await enter(deps, request)))
}

/** Options for a new passkey of the session's member. @throws as `enter`, insufficient_scope, reauthentication_required */
export async function passkeyOptions(deps: Deps, request: EntranceRequest) {
  const holder = freshHolder(deps, await enter(deps, request))
  return passkeys.registrationOptions(deps, holder, holder.names)
}

/**
 * Adds a passkey to the session's member.
 * @throws as `passkeyOptions`, passkey_invalid, passkey_challenge_over, passkey_limit
 */
export async function addPasskey(
  deps: Deps,
  request: EntranceRequest,
  origin: Origin,
  input: RegisterVerify,
): Promise<{ id: Id<'pky'> }> {
  const known = await enter(deps, request)
  const holder = freshHolder(deps, known)
  const verified = await passkeys.verifyNew(deps, holder, input)
  if (typeof verified === 'string') throw fail(verified)
  return deps.db.tx(async (tx) => {
    const added = await passkeys.addPasskey(tx, deps, holder, verified, input.deviceName ?? undefined)
    if (typeof added === 'string') throw fail(added)
    await noteAct(tx, deps, known, origin, 'member.passkey_added')
    return added
  })
}

/** Removes a passkey of the session's member. @throws as `passkeyOptions`, not_found */
export async function removePasskey(deps: Deps, request: EntranceRequest, origin: Origin, id: string): Promise<void> {
  const known = await enter(deps, request)
  const holder = freshHolder(deps, known)
  await deps.db.tx(async (tx) => {
    if (!(await passkeys.removePasskey(tx, deps, holder, id))) throw fail('not_found')
    await noteAct(tx, deps, known, origin, 'member.passkey_removed')
  })
}
