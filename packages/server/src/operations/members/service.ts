import { parseEmail } from '../../identity/users/email.ts'
import { type Db, violatedConstraint } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import type { AuditOnlyAction } from '../../platform/events/audit-actions.ts'
import { recordAuditOnly } from '../../platform/events/audit-only-entries.ts'
import { actorOf, type EventInput } from '../../platform/events/events.ts'
import { existing, notFoundField, pathId } from '../../platform/http/errors.ts'
import type { Call, Caller, Page } from '../../platform/http/route.ts'
import { type Id, isId, newId } from '../../platform/ids.ts'
import { rankOf } from '../../platform/security/roles/roles.ts'
import { lockAppForShare } from '../../tenancy/apps/service.ts'
import { createLink, INVITATION_DAYS, LINK_MINUTES } from '../dashboard/link.ts'
import { deleteLinksOf, endMember } from '../dashboard/store.ts'
import {
  type Authority,
  authorityOf,
  requireMayGive,
  requireMaySignInAs,
  requireMayTouch,
  requireNotOneself,
  requireUnbound,
} from './authority.ts'
import { fail, MEMBERS_MAX } from './errors.ts'
import { type LinkMail, limitMail, prepareLinkMail, queueLinkMail } from './mail.ts'
import type { CreateMember, CreateMemberLink, ListMembers, Member, MemberWithLink, UpdateMember } from './schema.ts'
import { deleteIdentities } from './sign-in/store.ts'
import * as store from './store.ts'

const DAY_MS = 86_400_000
const MINUTE_MS = 60_000

/** A page of the tenant's members, newest first, removed ones among them. */
export function listMembers(deps: Deps, caller: Caller, query: ListMembers): Promise<Page<Member>> {
  return store.listMembers(deps.db, caller.tenantId, query)
}

/** @throws not_found */
export async function getMember(deps: Deps, caller: Caller, id: string): Promise<Member> {
  return store.toMember(existing(await store.findMember(deps.db, caller.tenantId, pathId('mem', id))))
}

/** On whose authority a change is made, as of now: changes of members wait for each other, so the role holds until the commit. */
export async function currentAuthority(tx: Db, caller: Caller): Promise<Authority> {
  await store.lockMembers(tx, caller.tenantId)
  const { member } = caller
  return authorityOf(caller, member && (await store.findMember(tx, caller.tenantId, member.id)))
}

/** @throws not_found (names the entry of `appIds`) */
async function requireApps(tx: Db, tenantId: Id<'ten'>, appIds: readonly string[] | null): Promise<void> {
  for (const [index, id] of (appIds ?? []).entries())
    if (!isId('app', id) || !(await lockAppForShare(tx, tenantId, id))) throw notFoundField(`appIds.${index}`)
}

const note = (tx: Db, deps: Deps, row: store.MemberRow, action: AuditOnlyAction, cause: EventInput['cause']) =>
  recordAuditOnly(tx, deps, { tenantId: row.tenant_id, appId: null, action, target: row.id, cause })

/** How long a link for a member can be used. */
const lifetimeOf = ({ status }: store.MemberRow) =>
  status === 'invited' ? INVITATION_DAYS * DAY_MS : LINK_MINUTES * MINUTE_MS

/** A member with a link that the response shows. */
type ShownLink = MemberWithLink & { link: NonNullable<MemberWithLink['link']> }

/**
 * Makes the link of a member, in place of those that they have: a week's for somebody who was invited, minutes' for a member.
 * @param madeBy who is shown it, and could open it
 */
async function showLink(tx: Db, deps: Deps, row: store.MemberRow, madeBy: string): Promise<ShownLink> {
  const isInvited = row.status === 'invited'
  const { url, expiresAt } = await createLink({ ...deps, db: tx }, row.tenant_id, {
    lifetimeMs: lifetimeOf(row),
    member: { id: row.id, isInvited, madeBy, provesEmail: null },
  })
  if (isInvited) await store.noteDelivery(tx, row, 'link')
  const link = { url, expiresAt: expiresAt.toISOString() }
  return { ...store.toMember({ ...row, invitation_delivery: 'link' }), link }
}

/** The same by an email, which alone has the link. Who opens it has shown that the address is theirs. */
async function giveLink(
  tx: Db,
  deps: Deps,
  row: store.MemberRow,
  madeBy: string,
  mail: LinkMail | null,
): Promise<MemberWithLink> {
  if (mail === null) return showLink(tx, deps, row, madeBy)
  const isInvited = row.status === 'invited'
  const { expiresAt } = await createLink({ ...deps, db: tx }, row.tenant_id, {
    lifetimeMs: lifetimeOf(row),
    member: { id: row.id, isInvited, madeBy, provesEmail: row.email },
    token: mail.token,
  })
  if (isInvited) await store.noteDelivery(tx, row, 'email')
  await queueLinkMail(tx, deps, mail, row, expiresAt)
  return { ...store.toMember({ ...row, invitation_delivery: 'email' }), link: null }
}

/** Writes a member who is invited. Their rights were checked. */
async function invite(
  tx: Db,
  deps: Deps,
  tenantId: Id<'ten'>,
  input: CreateMember,
  by: { name: string; cause: EventInput['cause']; mail: LinkMail | null },
): Promise<MemberWithLink> {
  const { shown, key } = parseEmail(input.email)
  const appIds = (input.appIds ?? null) as Id<'app'>[] | null
  requireUnbound(input.role, appIds)
  await requireApps(tx, tenantId, appIds)
  if ((await store.countMembers(tx, tenantId)) >= MEMBERS_MAX) throw fail('member_limit')
  const now = deps.now()
  const row: store.MemberRow = {
    tenant_id: tenantId,
    id: newId('mem'),
    email: shown,
    email_key: key,
    name: (input.name ?? shown).trim().normalize('NFC'),
    role: input.role,
    app_ids: appIds,
    status: 'invited',
    passkeys: [],
    proven_email: null,
    rights_changed_at: null,
    identity_id: null,
    invitation_delivery: null,
    invited_by: by.name,
    last_signed_in_at: null,
    removed_at: null,
    created_at: now,
    updated_at: now,
    version: 0,
    mac: null,
  }
  await store.insertMember(tx, row).catch((error: unknown): never => {
    if (violatedConstraint(error) === 'members_email')
      throw fail('already_exists').about('email', 'There is a member with this email.')
    throw error
  })
  await note(tx, deps, row, 'member.invited', by.cause)
  return giveLink(tx, deps, row, by.name, by.mail)
}

/** The email of an invitation, if it is to be mailed. @throws validation_failed, member_email_not_configured */
const invitationMail = (deps: Deps, tenantId: Id<'ten'>, { email, delivery }: CreateMember): Promise<LinkMail | null> =>
  prepareLinkMail(deps, tenantId, delivery, { email: parseEmail(email).shown, status: 'invited' })

/**
 * Invites somebody. The link is only in the response, or only in an email to them.
 * @throws validation_failed, insufficient_scope, not_found (names `appIds`), already_exists, member_limit,
 * member_email_not_configured, rate_limited
 */
export async function createMember(deps: Deps, call: Call, input: CreateMember): Promise<MemberWithLink> {
  const { caller } = call
  await limitMail(deps, call, input.delivery, input.email)
  const mail = await invitationMail(deps, caller.tenantId, input)
  return deps.db.tx(async (tx) => {
    requireMayGive(await currentAuthority(tx, caller), input.role)
    return invite(tx, deps, caller.tenantId, input, { name: actorOf(caller), cause: call, mail })
  })
}

/**
 * The same for an operator on the command line, who may make owners.
 * @throws validation_failed, not_found, already_exists, member_limit, member_email_not_configured
 */
export async function createMemberByOperator(
  deps: Deps,
  tenantId: Id<'ten'>,
  input: CreateMember,
): Promise<MemberWithLink> {
  const mail = await invitationMail(deps, tenantId, input)
  return deps.db.tx(async (tx) => {
    await store.lockMembers(tx, tenantId)
    return invite(tx, deps, tenantId, input, { name: 'cli', cause: { actor: 'cli' }, mail })
  })
}

/** The row with the given fields, and whether rights changed. */
function changed(before: store.MemberRow, input: UpdateMember) {
  const row: store.MemberRow = {
    ...before,
    name: input.name?.trim().normalize('NFC') ?? before.name,
    role: input.role ?? before.role,
    app_ids: input.appIds === undefined ? before.app_ids : (input.appIds as Id<'app'>[] | null),
  }
  const appsChanged = JSON.stringify(row.app_ids) !== JSON.stringify(before.app_ids)
  const rightsChanged = row.role !== before.role || appsChanged
  return { row, appsChanged, rightsChanged, isSame: !rightsChanged && row.name === before.name }
}

/**
 * Ends the invitation of a member whose rights are to change: whoever sent it could open it and have the new rights. Before the member
 * is locked: a sign-in locks its link first, too.
 */
async function endInvitation(tx: Db, tenantId: Id<'ten'>, id: Id<'mem'>, input: UpdateMember): Promise<void> {
  const found = await store.findMember(tx, tenantId, id)
  if (found?.status === 'invited' && changed(found, input).rightsChanged) await deleteLinksOf(tx, tenantId, id)
}

/**
 * Changes the given fields. Takes effect with the next call of the member's sessions. The link of somebody who was invited ends if
 * rights change: they need a new one.
 * @throws not_found, insufficient_scope, own_rights, member_removed, last_owner, validation_failed
 */
export async function updateMember(deps: Deps, call: Call, id: string, input: UpdateMember): Promise<Member> {
  const { caller } = call
  return deps.db.tx(async (tx) => {
    const authority = await currentAuthority(tx, caller)
    const memberId = pathId('mem', id)
    await endInvitation(tx, caller.tenantId, memberId, input)
    const before = existing(await store.lockMember(tx, caller.tenantId, memberId))
    requireMayTouch(authority, before)
    if (before.status === 'removed') throw fail('member_removed')
    const { row, appsChanged, rightsChanged, isSame } = changed(before, input)
    if (isSame) return store.toMember(before)
    if (rightsChanged) requireNotOneself(authority, before)
    requireMayGive(authority, row.role)
    requireUnbound(row.role, row.app_ids)
    if (appsChanged) await requireApps(tx, caller.tenantId, row.app_ids)
    if (row.role !== 'owner' && (await store.isLastOwner(tx, before))) throw fail('last_owner')
    const now = deps.now()
    const rights_changed_at = rightsChanged ? now : before.rights_changed_at
    const stored = await store.updateMember(tx, { ...row, rights_changed_at, updated_at: now })
    await note(tx, deps, stored, 'member.updated', call)
    return store.toMember(stored)
  })
}

/**
 * Removes a member: their sessions and links end with the commit, in every process. Removing one again changes nothing.
 * @throws not_found, insufficient_scope, last_owner
 */
export async function removeMember(deps: Deps, call: Call, id: string): Promise<Member> {
  const { caller } = call
  return deps.db.tx(async (tx) => {
    const authority = await currentAuthority(tx, caller)
    const memberId = pathId('mem', id)
    // Before the member is locked: a sign-in locks its link first, too.
    await endMember(tx, caller.tenantId, memberId)
    const before = existing(await store.lockMemberToEnd(tx, caller.tenantId, memberId))
    requireMayTouch(authority, before)
    if (before.status === 'removed') return store.toMember(before)
    if (await store.isLastOwner(tx, before)) throw fail('last_owner')
    const now = deps.now()
    // Another member may connect the account then.
    await deleteIdentities(tx, caller.tenantId, memberId)
    const ended = { status: 'removed', identity_id: null, removed_at: now, updated_at: now } as const
    const stored = await store.updateMember(tx, { ...before, ...ended })
    await note(tx, deps, stored, 'member.removed', call)
    return store.toMember(stored)
  })
}

/**
 * Makes a new link for a member, and ends those that they have: an invitation again, or a way in for somebody who lost theirs.
 * @throws not_found, insufficient_scope, member_removed, member_email_not_configured, rate_limited
 */
export async function createMemberLink(
  deps: Deps,
  call: Call,
  id: string,
  { delivery }: CreateMemberLink,
): Promise<MemberWithLink> {
  const { caller } = call
  const memberId = pathId('mem', id)
  const known = existing(await store.findMember(deps.db, caller.tenantId, memberId))
  await limitMail(deps, call, delivery, known.email)
  const mail = await prepareLinkMail(deps, caller.tenantId, delivery, known)
  return deps.db.tx(async (tx) => {
    const authority = await currentAuthority(tx, caller)
    // Without a lock: a sign-in holds its link when it locks the member, and the old links end below.
    const row = existing(await store.findMember(tx, caller.tenantId, memberId))
    requireMayTouch(authority, row)
    if (row.status === 'removed') throw fail('member_removed')
    if (row.status === 'active') requireMaySignInAs(authority)
    await note(tx, deps, row, 'member.link_created', call)
    return giveLink(tx, deps, row, actorOf(caller), mail)
  })
}

/** The same for an operator on the command line, for the member with an email. @throws not_found (names `email`) */
export async function createMemberLinkByOperator(deps: Deps, tenantId: Id<'ten'>, email: string): Promise<ShownLink> {
  return deps.db.tx(async (tx) => {
    await store.lockMembers(tx, tenantId)
    const row = await store.findMemberByEmail(tx, tenantId, parseEmail(email).key)
    if (row === undefined) throw notFoundField('email')
    await note(tx, deps, row, 'member.link_created', { actor: 'cli' })
    return showLink(tx, deps, row, 'cli')
  })
}

/** A member's link, as it was claimed. */
interface ArrivalBy {
  tenantId: Id<'ten'>
  id: Id<'mem'>
  byInvitation: boolean
  madeBy: string | null
  provesEmail: string | null
}

/** Whether who made a link could still make it: a member who was removed or lowered may have kept one. */
async function couldMake(
  tx: Db,
  tenantId: Id<'ten'>,
  madeBy: string | null,
  member: store.MemberRow,
): Promise<boolean> {
  if (madeBy === null || !isId('mem', madeBy)) return true
  const maker = await store.findMember(tx, tenantId, madeBy)
  if (maker?.status !== 'active') return false
  return member.status === 'invited' ? rankOf(maker.role) >= rankOf(member.role) : maker.role === 'owner'
}

/**
 * Notes that a member signed in by a link. Whoever was invited is active from now on. An invitation is shown to whoever sent it, so
 * it opens nothing once the member is active. A link that was mailed proves the address. @returns undefined for a link that does not count
 */
export async function arrive(
  tx: Db,
  deps: Deps,
  { tenantId, id, byInvitation, madeBy, provesEmail }: ArrivalBy,
): Promise<{ member: store.MemberRow; hasJoined: boolean } | undefined> {
  const before = await store.lockMember(tx, tenantId, id)
  if (before === undefined || before.status === 'removed') return undefined
  if (byInvitation !== (before.status === 'invited')) return undefined
  if (!(await couldMake(tx, tenantId, madeBy, before))) return undefined
  const now = deps.now()
  const hasJoined = before.status === 'invited'
  const proven_email = provesEmail === before.email ? provesEmail : before.proven_email
  if (!hasJoined && proven_email === before.proven_email) {
    await store.touchMember(tx, tenantId, id, now)
    return { member: before, hasJoined }
  }
  const row = { ...before, status: 'active' as const, proven_email, last_signed_in_at: now, updated_at: now }
  return { member: await store.updateMember(tx, row), hasJoined }
}
