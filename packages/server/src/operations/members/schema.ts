import { z } from 'zod'
import { Paging, Time, Times } from '../../platform/http/route.ts'
import { ROLES } from '../../platform/security/roles/roles.ts'

const expected = (text: string) => ({ 'x-expected': text })

const NAME_CHARS_MAX = 200
const EMAIL_CHARS_MAX = 320
const APPS_MAX = 100

const RoleField = z.enum(ROLES).meta({
  description:
    'What the member may do. Each role may do what those before it may: `viewer`, `support`, `developer`, `admin`, `owner`.',
  example: 'developer',
})

const Name = z
  .string()
  .max(NAME_CHARS_MAX)
  .regex(/\S/)
  .meta({ example: 'Ada Lovelace', ...expected('text of 1 to 200 characters, not only spaces') })

const AppIds = z
  .array(z.string())
  .min(1)
  .max(APPS_MAX)
  .nullable()
  .meta({
    description: 'The apps that the member may see. null: all apps of the tenant. An owner or admin always has all.',
    example: ['app_01jb2m7x9kq4t8v6w0r3s5y1zb'],
    uniqueItems: true,
    ...expected('null or a list of 1 to 100 different apps'),
  })

const DeliveryField = z.enum(['link', 'email'])
export type Delivery = z.infer<typeof DeliveryField>

const DeliveryChoice = DeliveryField.optional().meta({
  description:
    '`link` (the default): the link is in the response, and whoever gets it gives it to the member. `email`: Halfkey mails it to the member through the mail server of the installation (`HALFKEY_SMTP_URL`), and nobody else sees it, so opening it shows that the address is theirs.',
  example: 'email',
})

const record = {
  id: z.string().meta({ example: 'mem_01jb2m7x9kq4t8v6w0r3s5y1zu' }),
  email: z.string().meta({ example: 'ada@example.com' }),
  name: z.string().meta({ example: 'Ada Lovelace' }),
  role: RoleField,
  appIds: z
    .array(z.string())
    .nullable()
    .meta({ description: 'The apps that the member may see. null: all apps of the tenant.' }),
  status: z.enum(['invited', 'active', 'removed']).meta({
    description: '`invited`: has not signed in yet. `removed`: cannot sign in any more.',
  }),
  emailVerified: z.boolean().meta({
    description: 'Whether the member has opened a link that was mailed to this address.',
  }),
  invitationDelivery: DeliveryField.nullable().meta({
    description:
      'Of somebody who is invited: whether the last invitation was mailed (`email`) or shown to who made it (`link`). null where it is not known, and for all others.',
  }),
  invitedBy: z
    .string()
    .nullable()
    .meta({ description: 'Who invited the member, as the audit log names them.', example: 'cli' }),
  lastSignedInAt: Time.nullable(),
  ...Times,
}

/** A member in responses. */
export const Member = z.object(record).meta({ id: 'Member' })
export type Member = z.infer<typeof Member>

/** A link that signs a member in to the dashboard. */
const MemberLink = z.object({
  url: z.string().meta({
    description: 'Signs the member in once. It is only in this response: give it to nobody else.',
    example: 'https://id.example.com/dashboard#link=hk_dl_…',
  }),
  expiresAt: Time,
})

/** A member with a link for them: the response where one is made. */
export const MemberWithLink = z
  .object({ ...record, link: MemberLink.nullable().meta({ description: 'null if it was mailed.' }) })
  .meta({ id: 'MemberWithLink' })
export type MemberWithLink = z.infer<typeof MemberWithLink>

export const CreateMember = z
  .strictObject({
    email: z.string().max(EMAIL_CHARS_MAX).meta({ example: 'ada@example.com' }),
    name: Name.optional(),
    role: RoleField,
    appIds: AppIds.optional(),
    delivery: DeliveryChoice,
  })
  .meta({ id: 'CreateMember' })
export type CreateMember = z.infer<typeof CreateMember>

export const CreateMemberLink = z.strictObject({ delivery: DeliveryChoice }).meta({ id: 'CreateMemberLink' })
export type CreateMemberLink = z.infer<typeof CreateMemberLink>

export const UpdateMember = z
  .strictObject({ name: Name.optional(), role: RoleField.optional(), appIds: AppIds.optional() })
  .meta({ id: 'UpdateMember' })
export type UpdateMember = z.infer<typeof UpdateMember>

export const ListMembers = z.strictObject({
  ...Paging,
  status: z.enum(['invited', 'active', 'removed']).optional(),
  role: z.enum(ROLES).optional(),
})
export type ListMembers = z.infer<typeof ListMembers>
