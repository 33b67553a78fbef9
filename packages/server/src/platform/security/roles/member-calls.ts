import { fail } from '../../http/errors.ts'
import { type CallingMember, type PageQuery, paging, type Route } from '../../http/route.ts'
import { allows } from '../api-key.ts'
import type { UserHeaders } from '../current-user.ts'
import { EXPORTS_FROM, FOR_NO_MEMBER, type Role, rankOf, STEP_UP, STEP_UP_MS, scopesOf } from './roles.ts'

/** Calls that are made by users, delegated sessions or servers alone, or give out what signs one in. */
function isOfOthers({ callers, secret }: Pick<Route, 'callers' | 'secret'>): boolean {
  if (callers.kind === 'secret') return FOR_NO_MEMBER.includes(callers.scope)
  if (callers.kind !== 'both') return false
  if (secret === true || FOR_NO_MEMBER.includes(callers.scope)) return true
  return callers.user === 'required' || callers.user === 'delegate' || callers.user === 'delegate_only'
}

/** Whether members with a role may make a call at all: the one decision, for every route. */
export function mayCall(role: Role, route: Pick<Route, 'callers' | 'secret'>): boolean {
  const { callers } = route
  if (callers.kind === 'any') return true
  if (callers.kind === 'subscriber' || isOfOthers(route)) return false
  return allows(scopesOf(role), callers.scope)
}

/** What a member's call comes with that its role decides on. */
interface MemberCall {
  headers: UserHeaders
  /** A list is asked for as CSV, or deeper than `isDeep` allows. */
  isExport: boolean
  now: Date
}

/** How far members read a list as JSON to look something up. Beyond it they take the list away, page by page, as CSV does at once. */
const RECORDS_TO_LOOK_AT = 1_000

/** Whether a page of a list ends beyond that. */
export function isDeep(query: PageQuery): boolean {
  const { offset, pageSize } = paging(query)
  return offset + pageSize > RECORDS_TO_LOOK_AT
}

const refusal = (role: Role, message: string) =>
  fail('insufficient_scope', [{ code: 'role_not_allowed', message, role }])

/** Whether a member has proved who they are, by a passkey or link, short enough ago. An email code is no such proof. */
export const isFresh = (verifiedAtMs: number | null, now: Date): boolean =>
  verifiedAtMs !== null && now.getTime() - verifiedAtMs <= STEP_UP_MS

/**
 * The role, then the step-up. A member acts for nobody else, so the headers that name a user are refused wherever they are sent.
 * @throws insufficient_scope, reauthentication_required
 */
export function authoriseMember(route: Route, { role, verifiedAtMs }: CallingMember, call: MemberCall): void {
  if (!mayCall(role, route)) throw refusal(role, `The role ${role} does not allow this call.`)
  if (call.headers['x-user-id'] !== undefined || call.headers.authorization !== undefined)
    throw refusal(role, 'A member does not act for a user or a delegated session.')
  if (call.isExport && rankOf(role) < rankOf(EXPORTS_FROM))
    throw refusal(
      role,
      `The role ${role} does not allow exports: lists as CSV, and what lies beyond their first ${RECORDS_TO_LOOK_AT} records.`,
    )
  const needsStepUp = call.isExport || STEP_UP.has(`${route.method} ${route.path}`)
  if (needsStepUp && !isFresh(verifiedAtMs, call.now)) throw fail('reauthentication_required')
}
