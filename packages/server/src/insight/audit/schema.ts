import { z } from 'zod'
import { AUDIT_ACTIONS, AUDIT_FAMILIES } from '../../platform/events/audit-actions.ts'
import { Paging, sortedBy, Time } from '../../platform/http/route.ts'

const Hash = z.string().meta({ example: '5f1d'.repeat(16) })

/** Who did what to what, from where. */
export const AuditEntry = z
  .object({
    id: z.string().meta({ example: 'aud_01jb2m7x9kq4t8v6w0r3s5y1zr' }),
    seq: z.int().meta({ description: "Its position in the tenant's log, from 1, without gaps.", example: 42 }),
    at: Time,
    actor: z.string().meta({
      description:
        'Who did it: a user, a member, an API key that acted for itself, a delegated session, or `dashboard` (its operator), `system`, `cli`, `first start`.',
      example: 'key_01jb2m7x9kq4t8v6w0r3s5y1zj',
    }),
    action: z
      .string()
      .meta({ description: 'An event type, or an action that is not an event.', example: 'api_key.created' }),
    target: z
      .string()
      .meta({ description: 'The record that the action concerns.', example: 'key_01jb2m7x9kq4t8v6w0r3s5y1zj' }),
    userId: z.string().nullable().meta({ description: 'The user who did it or whom it concerns.' }),
    keyId: z.string().nullable().meta({ description: 'The API key of the call.' }),
    appId: z.string().nullable(),
    address: z
      .string()
      .nullable()
      .meta({ description: 'The network address of the caller. Erased with the user.', example: '203.0.113.7' }),
    requestId: z.string().nullable(),
    eventId: z
      .string()
      .nullable()
      .meta({ description: 'The event of the action. Null for an action that is not an event.' }),
    hash: Hash.meta({ description: 'SHA-256 over the entry, including `previousHash`.' }),
    previousHash: Hash.nullable().meta({ description: 'The hash of the previous entry. Null for the first.' }),
  })
  .meta({ id: 'AuditEntry' })
export type AuditEntry = z.infer<typeof AuditEntry>

const ID_CHARS_MAX = 100

export const ListAuditLog = z.strictObject({
  ...Paging,
  ...sortedBy('seq'),
  actor: z
    .string()
    .min(1)
    .max(ID_CHARS_MAX)
    .meta({ description: 'Who did it: an id, or a word such as `system` or `cli`.', example: 'cli' })
    .optional(),
  action: z
    .enum([...AUDIT_ACTIONS, ...AUDIT_FAMILIES])
    .meta({
      description: 'What was done: an action, or a family such as `user.*`.',
      'x-expected': 'an action such as user.created, or a family such as user.*',
      example: 'api_key.*',
    })
    .optional(),
  target: z
    .string()
    .min(1)
    .max(ID_CHARS_MAX)
    .meta({ description: 'The id of the record that the action concerns.', example: 'key_01jb2m7x9kq4t8v6w0r3s5y1zj' })
    .optional(),
  user_id: z
    .string()
    .min(1)
    .max(ID_CHARS_MAX)
    .meta({ description: 'The user who did it or whom it concerns.', example: 'usr_01jb2m7x9kq4t8v6w0r3s5y1zb' })
    .optional(),
  since: z.iso
    .datetime({ offset: true })
    .meta({ 'x-expected': 'an ISO 8601 time such as 2026-11-21T08:30:00.000Z', example: '2026-11-21T08:30:00.000Z' })
    .optional(),
})
export type ListAuditLog = z.infer<typeof ListAuditLog>
