import { z } from 'zod'
import { Metadata, Paging, sortedBy, Time, Times } from '../../platform/http/route.ts'
import { tokenFields } from '../sessions/schema.ts'

const EMAIL_CHARS_MAX = 320
const NAME_CHARS_MAX = 200
const EXTERNAL_ID_CHARS_MAX = 255

const TrustLevel = z.enum(['embedded', 'shared', 'self_custody']).meta({
  description:
    "Who can move this user's assets: the service (`embedded`), the user and the service together (`shared`), or only the user (`self_custody`). Depends on the wallet.",
})

/** A user in responses. */
export const User = z
  .object({
    id: z.string().meta({ example: 'usr_01jb2m7x9kq4t8v6w0r3s5y1za' }),
    appId: z.string(),
    email: z.string().nullable(),
    emailVerified: z.boolean(),
    name: z.string().nullable(),
    externalId: z.string().nullable().meta({ description: 'Your own id of this user, unique in the app.' }),
    partyId: z.string().meta({ description: 'The ledger party. It never changes and contains no personal data.' }),
    trustLevel: TrustLevel,
    status: z.enum(['active', 'suspended', 'deleted']),
    mfaEnabled: z.boolean(),
    metadata: z.record(z.string(), z.string()),
    lastSeenAt: Time.nullable(),
    ...Times,
  })
  .meta({ id: 'User' })
export type User = z.infer<typeof User>

/** What `parseEmail` accepts, but for its limits of length: so that a malformed email is reported with all other fields. */
const EMAIL =
  /^\s*[^\s\p{Cc}"(),:;<>[\]\\@.]+(\.[^\s\p{Cc}"(),:;<>[\]\\@.]+)*@[^\s\p{Cc}\p{Cf}@.]+(\.[^\s\p{Cc}\p{Cf}@.]+)*\s*$/u
/** An email in a request. */
export const Email = z.string().min(3).max(EMAIL_CHARS_MAX).regex(EMAIL).meta({
  description: 'Unique in the app, in any case.',
  'x-expected': 'an email address, for example ada@example.com',
  'x-code': 'invalid_email',
  example: 'ada@example.com',
})
const Name = z
  .string()
  .min(1)
  .max(NAME_CHARS_MAX)
  .regex(/\S/)
  .meta({ 'x-expected': `text of 1 to ${NAME_CHARS_MAX} characters, not only spaces` })
const ExternalId = z.string().min(1).max(EXTERNAL_ID_CHARS_MAX)

export const CreateUser = z
  .strictObject({
    email: Email.nullable().optional(),
    name: Name.nullable().optional(),
    externalId: ExternalId.nullable().optional(),
    appId: z
      .string()
      .optional()
      .meta({ description: "The app that the user belongs to. Default: the key's app, or the tenant's default app." }),
    metadata: Metadata.optional(),
  })
  .meta({ id: 'CreateUser' })
export type CreateUser = z.infer<typeof CreateUser>

/** A user in an import file. Not part of the API. */
export const ImportedUser = CreateUser.omit({ appId: true }).extend({
  emailVerified: z.boolean().nullable().optional(),
  createdAt: z.iso
    .datetime({ offset: true })
    .nullable()
    .optional()
    .meta({ 'x-expected': 'an ISO 8601 time with its offset, such as 2026-11-21T08:30:00Z' }),
})
export type ImportedUser = z.infer<typeof ImportedUser>

export const UpdateUser = z
  .strictObject({
    email: Email.nullable().optional(),
    name: Name.nullable().optional(),
    externalId: ExternalId.nullable().optional(),
    status: z.enum(['active', 'suspended']).optional(),
    metadata: z
      .record(z.string().max(200), z.string().nullable())
      .optional()
      .meta({ description: 'Merged by key. null removes a key.' }),
  })
  .meta({ id: 'UpdateUser' })
export type UpdateUser = z.infer<typeof UpdateUser>

export const ListUsers = z.strictObject({
  ...Paging,
  ...sortedBy('createdAt', 'email', 'externalId'),
  trust_level: TrustLevel.optional(),
  search: z
    .string()
    .max(200)
    .regex(/^\P{Cc}*$/u)
    .optional()
    .meta({
      'x-expected': 'text of at most 200 characters, none a control character',
      description: 'A literal part of the email, name, external id, party or id. Case is ignored.',
    }),
  app_id: z.string().optional().meta({ description: 'Only users of this app.' }),
})
export type ListUsers = z.infer<typeof ListUsers>

const BULK_USERS_MAX = 1_000
const BulkAction = z.enum(['suspend', 'activate', 'end_sessions', 'delete'])
export type BulkAction = z.infer<typeof BulkAction>

export const StartBulk = z
  .strictObject({
    action: BulkAction,
    userIds: z
      .array(z.string().min(1).max(100))
      .min(1)
      .max(BULK_USERS_MAX)
      .meta({
        description: 'The users. An id that names no user of yours becomes an entry of `failed`.',
        example: ['usr_01jb2m7x9kq4t8v6w0r3s5y1za'],
      }),
  })
  .meta({ id: 'StartUsersBulk' })
export type StartBulk = z.infer<typeof StartBulk>

/** A job that does the same to many users. */
export const BulkRun = z
  .object({
    id: z.string(),
    action: BulkAction,
    status: z.enum(['pending', 'running', 'succeeded', 'failed']).meta({
      description: '`succeeded`: every user was handled, also if some are in `failed`.',
    }),
    done: z.int().meta({ description: 'How many users are handled, of `total`.' }),
    total: z.int(),
    failed: z
      .array(z.object({ userId: z.string(), code: z.string(), message: z.string() }))
      .meta({ description: 'The users for whom the action was refused, with the error of the call for one user.' }),
    error: z.string().nullable(),
    ...Times,
  })
  .meta({ id: 'UsersBulk' })
export type BulkRun = z.infer<typeof BulkRun>

/** The response of every way of signing in. */
export const SignedIn = z
  .object({
    user: User,
    isNewUser: z.boolean().meta({ description: 'Whether this sign-in created the user.' }),
    ...tokenFields,
  })
  .meta({ id: 'SignedIn' })
export type SignedIn = z.infer<typeof SignedIn>
