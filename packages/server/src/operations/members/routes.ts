import { IdParam, list, one, type Route, route, secretKey } from '../../platform/http/route.ts'
import { CreateMember, CreateMemberLink, ListMembers, Member, MemberWithLink, UpdateMember } from './schema.ts'
import { createMember, createMemberLink, getMember, listMembers, removeMember, updateMember } from './service.ts'
import { MemberSignIn, UpdateMemberSignIn } from './sign-in/schema.ts'
import { checkSignIn, getSignIn, updateSignIn } from './sign-in/settings.ts'

const read = secretKey('members:read', { tenantWide: true })
const write = secretKey('members:write', { tenantWide: true })

/** The endpoints of the people who use a tenant's dashboard. */
export const memberRoutes: Route[] = [
  route(
    'GET /members',
    {
      summary: 'List members',
      description: 'The people who sign in to the dashboard of the tenant, newest first, including removed ones.',
      callers: read,
      query: ListMembers,
      reply: list(Member),
      extension: true,
    },
    (deps, { caller, query }) => listMembers(deps, caller, query),
  ),
  route(
    'POST /members',
    {
      summary: 'Invite a member',
      description:
        'The link signs the member in once, within 7 days. It is in the response or, with `delivery: email`, mailed to the member. A key makes nobody an owner, and gives no role with scopes that it does not have. A member gives no role above their own (403 `insufficient_scope`).',
      callers: write,
      body: CreateMember,
      reply: one(MemberWithLink),
      status: 201,
      errors: ['not_found', 'already_exists', 'member_limit', 'member_email_not_configured'],
      secret: true,
      extension: true,
    },
    (deps, { caller, origin, body }) => createMember(deps, { caller, origin }, body),
  ),
  route(
    'GET /members/:id',
    { summary: 'Get a member', callers: read, params: IdParam, reply: one(Member), extension: true },
    (deps, { caller, params }) => getMember(deps, caller, params.id),
  ),
  route(
    'PATCH /members/:id',
    {
      summary: 'Update a member',
      description:
        'Takes effect with the next call of the member. A member cannot change their own role or apps, nor a member whose role is above their own. The last active owner cannot be lowered.',
      callers: write,
      params: IdParam,
      body: UpdateMember,
      reply: one(Member),
      errors: ['own_rights', 'member_removed', 'last_owner'],
      extension: true,
    },
    (deps, { caller, origin, params, body }) => updateMember(deps, { caller, origin }, params.id, body),
  ),
  route(
    'DELETE /members/:id',
    {
      summary: 'Remove a member',
      description:
        'Ends their sessions and links immediately. The record stays, with the status `removed`. API keys that they made stay, too: `createdBy` says which these are.',
      callers: write,
      params: IdParam,
      reply: one(Member),
      errors: ['last_owner'],
      extension: true,
    },
    (deps, { caller, origin, params }) => removeMember(deps, { caller, origin }, params.id),
  ),
  route(
    'POST /members/:id/link',
    {
      summary: 'Create a link for a member',
      description:
        'For somebody who is invited: a new invitation, for 7 days. For an active member who lost their way in: a link for 30 minutes, which only owners make. Ends their earlier links. The link is in the response or, with `delivery: email`, mailed to the member.',
      callers: write,
      params: IdParam,
      body: CreateMemberLink,
      reply: one(MemberWithLink),
      status: 201,
      errors: ['member_removed', 'member_email_not_configured'],
      secret: true,
      extension: true,
    },
    (deps, { caller, origin, params, body }) => createMemberLink(deps, { caller, origin }, params.id, body),
  ),
  route(
    'GET /member-sign-in',
    {
      summary: 'Get how members sign in',
      description: 'The ways to sign in to the dashboard of the tenant beside passkeys. All are off by default.',
      callers: read,
      reply: one(MemberSignIn),
      extension: true,
    },
    (deps, { caller }) => getSignIn(deps, caller),
  ),
  route(
    'PATCH /member-sign-in',
    {
      summary: 'Change how members sign in',
      description:
        'Only an owner, in the dashboard, changes it: an API key does not (403 `insufficient_scope`). A session that begins like this is weaker than one by a passkey: for sensitive calls the member has to show a passkey.',
      callers: secretKey('*', { tenantWide: true }),
      body: UpdateMemberSignIn,
      before: (deps, { caller, body }) => checkSignIn(deps, caller, body),
      reply: one(MemberSignIn),
      errors: ['member_email_not_configured', 'issuer_url_blocked'],
      extension: true,
    },
    (deps, { caller, origin, body }) => updateSignIn(deps, { caller, origin }, body),
  ),
]
