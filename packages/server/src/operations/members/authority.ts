import { OPERATOR } from '../../platform/events/events.ts'
import { type HttpError, invalid } from '../../platform/http/errors.ts'
import type { Caller } from '../../platform/http/route.ts'
import type { Id } from '../../platform/ids.ts'
import { allows } from '../../platform/security/api-key.ts'
import { type Role, rankOf, scopesOf } from '../../platform/security/roles/roles.ts'
import { fail } from './errors.ts'
import type { MemberRow } from './store.ts'

/** On whose authority members change: the operator's, who counts as an owner, a member's as they are now, or a key's. */
export type Authority =
  | { kind: 'operator' }
  | { kind: 'member'; id: Id<'mem'>; role: Role }
  | { kind: 'key'; scopes: readonly string[]; isBounded: boolean }

/** The authority of a call. A member's role is the one in `row`, which the transaction holds, not the one that the call began with. */
export function authorityOf(caller: Caller, row: MemberRow | undefined): Authority {
  if (caller.member !== undefined) {
    if (row?.status !== 'active') throw fail('session_invalid')
    return { kind: 'member', id: row.id, role: row.role }
  }
  if (caller.keyId.startsWith(OPERATOR)) return { kind: 'operator' }
  const isBounded = caller.expiresAtMs !== null || caller.allowedIps.length > 0 || caller.appId !== null
  return { kind: 'key', scopes: caller.scopes, isBounded }
}

/**
 * Whether somebody may give a role, or change a member who has it. A key gives no more than it has, as it does to keys, and it makes
 * no owner: a key that leaks must not outlive itself in the role that no other one can take back. One that ends or counts at some
 * addresses only makes none: no member has these bounds.
 */
function reaches(authority: Authority, role: Role): boolean {
  if (authority.kind === 'operator') return true
  if (authority.kind === 'member') return rankOf(role) <= rankOf(authority.role)
  return !authority.isBounded && role !== 'owner' && scopesOf(role).every((scope) => allows(authority.scopes, scope))
}

const tooHigh = (authority: Authority, message: string): HttpError =>
  fail('insufficient_scope', [
    {
      code: 'wider_than_own',
      message,
      ...(authority.kind === 'member' ? { role: authority.role } : {}),
    },
  ])

/** @throws insufficient_scope */
export function requireMayGive(authority: Authority, role: Role): void {
  if (!reaches(authority, role))
    throw tooHigh(authority, `You cannot make a member ${role}: it is above your own rights.`)
}

/** @throws insufficient_scope */
export function requireMayTouch(authority: Authority, target: Pick<MemberRow, 'role'>): void {
  if (!reaches(authority, target.role)) throw tooHigh(authority, 'This member is above your own rights.')
}

/** Nobody raises themself, nor lowers themself by mistake. @throws own_rights */
export function requireNotOneself(authority: Authority, target: Pick<MemberRow, 'id'>): void {
  if (authority.kind === 'member' && authority.id === target.id) throw fail('own_rights')
}

/**
 * Whoever has a sign-in link of an active member can act as them. So only owners and the operator make one, for members who lost
 * their way in. @throws insufficient_scope
 */
export const requireMaySignInAs = (authority: Authority): void =>
  requireOwner(authority, 'Only an owner makes a sign-in link for an active member.')

/** For what owners and the operator do, and no key. @throws insufficient_scope */
export function requireOwner(authority: Authority, message: string): void {
  const isOwner = authority.kind === 'operator' || (authority.kind === 'member' && authority.role === 'owner')
  if (!isOwner) throw tooHigh(authority, message)
}

/** Owners and admins manage the tenant, which no app bounds. @throws validation_failed */
export function requireUnbound(role: Role, appIds: readonly string[] | null): void {
  if (appIds !== null && rankOf(role) >= rankOf('admin'))
    throw invalid('appIds', `Must be null for the role ${role}: it has all apps.`, 'not_allowed')
}
