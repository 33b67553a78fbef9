import { z } from 'zod'
import { Metadata, Paging, sortedBy, Time, Times } from '../../platform/http/route.ts'
import { SCOPES } from '../../platform/security/api-key.ts'

const expected = (text: string) => ({ 'x-expected': text })

const GRACE_SECONDS_MAX = 7 * 24 * 3600

const KeyTypeField = z.enum(['secret', 'publishable']).meta({
  description: '`secret` for servers, with scopes; `publishable` for browsers, bound to an app.',
})

const Key = z.string().meta({
  description: 'The key itself. It is only in this response, because it is not stored.',
  example: 'hk_sk_<49 letters and digits>',
})

const record = {
  id: z.string().meta({ example: 'key_01jb2m7x9kq4t8v6w0r3s5y1zj' }),
  name: z.string().meta({ example: 'Backend' }),
  type: KeyTypeField,
  scopes: z
    .array(z.string())
    .meta({ description: 'What a secret key may do. Empty for a publishable key.', example: ['users:write'] }),
  appId: z
    .string()
    .nullable()
    .meta({ description: 'The app that the key is bound to. null: the key is for the whole tenant.' }),
  prefix: z.string().meta({ description: "The key's first characters.", example: 'hk_sk_4f7Q' }),
  last4: z.string().meta({ description: "The key's last four characters.", example: 'x3Bd' }),
  allowedIps: z
    .array(z.string())
    .meta({ description: 'Addresses from which the key works. Empty: all addresses.', example: ['203.0.113.0/24'] }),
  expiresAt: Time.nullable(),
  lastUsedAt: Time.nullable().meta({ description: 'Accurate to about ten seconds.' }),
  status: z.enum(['active', 'revoked', 'expired']),
  metadata: z.record(z.string(), z.string()),
  createdBy: z.string().nullable().meta({
    description:
      'Who made the key, as the audit log names them: a member, an API key, `dashboard` (its operator) or `cli`. null: it is older than this field.',
    example: 'mem_01jb2m7x9kq4t8v6w0r3s5y1zu',
  }),
  ...Times,
}

/** An API key in responses. */
export const ApiKey = z.object(record).meta({ id: 'ApiKey' })
export type ApiKey = z.infer<typeof ApiKey>

/** The same with the key itself: the response of a creation and a rotation. */
export const ApiKeyWithKey = z.object({ ...record, key: Key }).meta({ id: 'ApiKeyWithKey' })
export type ApiKeyWithKey = z.infer<typeof ApiKeyWithKey>

export const CreateApiKey = z
  .strictObject({
    name: z
      .string()
      .max(200)
      .regex(/\S/)
      .meta({ example: 'Backend', ...expected('text of 1 to 200 characters, not only spaces') }),
    type: KeyTypeField,
    scopes: z
      .array(z.enum(SCOPES))
      .max(SCOPES.length)
      .meta({
        description:
          'Required for a secret key, not allowed for a publishable key. `write` implies `read`. `*` allows everything.',
        example: ['users:write', 'webhooks:read'],
        uniqueItems: true,
        ...expected('a list of different scopes'),
      })
      .optional(),
    appId: z.string().nullable().optional().meta({
      description:
        'Binds the key to one app. Required for a publishable key. A key that is bound to an app can only create keys for that app.',
      example: 'app_01jb2m7x9kq4t8v6w0r3s5y1zb',
    }),
    allowedIps: z
      .array(z.string().max(64))
      .max(100)
      .meta({
        description: 'The key works only from these addresses or CIDRs.',
        example: ['203.0.113.0/24'],
        ...expected('a list of at most 100 addresses or CIDRs'),
      })
      .optional(),
    expiresAt: z
      .string()
      .regex(/^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(?:\.\d{1,9})?Z$/)
      .meta({
        description: 'When the key expires. null: never.',
        format: 'date-time',
        example: '2027-11-21T08:30:00.000Z',
        ...expected('a time in UTC such as 2027-11-21T08:30:00.000Z'),
      })
      .nullable()
      .optional(),
    metadata: Metadata.optional(),
  })
  .meta({ id: 'CreateApiKey' })
export type CreateApiKey = z.infer<typeof CreateApiKey>

export const RotateApiKey = z
  .strictObject({
    graceSeconds: z
      .int()
      .min(0)
      .max(GRACE_SECONDS_MAX)
      .optional()
      .meta({ description: 'How long the old value still works: 0 to 604800. Default: 0.', example: 3600 }),
  })
  .meta({ id: 'RotateApiKey' })
export type RotateApiKey = z.infer<typeof RotateApiKey>

export const ListApiKeys = z.strictObject({
  ...Paging,
  ...sortedBy('createdAt'),
  type: z.enum(['secret', 'publishable']).optional(),
  status: z.enum(['active', 'expired', 'revoked']).optional(),
  app_id: z.string().optional().meta({ description: 'Only keys that are bound to this app.' }),
})
export type ListApiKeys = z.infer<typeof ListApiKeys>
