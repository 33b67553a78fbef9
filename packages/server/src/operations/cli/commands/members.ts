import { ROLES, type Role } from '../../../platform/security/roles/roles.ts'
import { INVITATION_DAYS, LINK_MINUTES } from '../../dashboard/link.ts'
import { createMemberByOperator, createMemberLinkByOperator } from '../../members/service.ts'
import { defineCommand, findTenant, shortText, UsageError, withDeps } from '../command.ts'

const EMAIL_CHARS_MAX = 320

function readRole(text: string): Role {
  const role = ROLES.find((one) => one === text)
  if (role === undefined) throw new UsageError(`--role must be one of ${ROLES.join(', ')}, not "${text}".`)
  return role
}

/** `halfkey members invite` */
export const membersInvite = defineCommand({
  name: 'members invite',
  summary: 'Invite somebody to the dashboard, by default as an owner',
  details: `Prints a link that signs them in once, within ${INVITATION_DAYS} days. This makes the first owner of a tenant. With --mail, the running service mails the link to them instead, through HALFKEY_SMTP_URL.`,
  options: (command) =>
    command
      .requiredOption('--email <address>', 'their email address', shortText('--email', EMAIL_CHARS_MAX))
      .option('--name <name>', 'their name (default: the address)', shortText('--name'))
      .option('--role <role>', `${ROLES.join(', ')} (default: owner)`, readRole)
      .option('--tenant <id>', 'their tenant (default: the only one)')
      .option('--mail', 'mail the link to them, and print none'),
  async run({ email, name, role = 'owner', tenant, mail }, context) {
    const { member, tenantId } = await withDeps(context, async (deps) => {
      const tenantId = await findTenant(deps, tenant)
      const delivery = mail === true ? ('email' as const) : ('link' as const)
      const input = { email, role, delivery, ...(name === undefined ? {} : { name }) }
      return { member: await createMemberByOperator(deps, tenantId, input), tenantId }
    })
    const until = `It signs in ${member.email} once, within ${INVITATION_DAYS} days, as ${role}.`
    const lines = member.link === null ? ['The service mails the link to them.', until] : [member.link.url, until]
    return { data: { ...member, tenantId }, lines }
  },
})

/** `halfkey members link` */
export const membersLink = defineCommand({
  name: 'members link',
  summary: 'Print a new link for a member who lost their way into the dashboard',
  details: `For an active member it is valid for ${LINK_MINUTES} minutes, for an invited one for ${INVITATION_DAYS} days. Their earlier links end.`,
  options: (command) =>
    command
      .requiredOption('--email <address>', "the member's email address", shortText('--email', EMAIL_CHARS_MAX))
      .option('--tenant <id>', 'their tenant (default: the only one)'),
  async run({ email, tenant }, context) {
    const { member, tenantId } = await withDeps(context, async (deps) => {
      const tenantId = await findTenant(deps, tenant)
      return { member: await createMemberLinkByOperator(deps, tenantId, email), tenantId }
    })
    return {
      data: { ...member, tenantId },
      lines: [member.link.url, `It signs in ${member.email} once, until ${member.link.expiresAt}, as ${member.role}.`],
    }
  },
})
