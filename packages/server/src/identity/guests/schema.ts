import { z } from 'zod'
import { Metadata, Paging, sortedBy, Time, Times } from '../../platform/http/route.ts'
import { tokenFields } from '../sessions/schema.ts'
import { CreateUser, User } from '../users/schema.ts'

const TTL_MINUTES_MAX = 43_200
const AGE_MINUTES_MAX = 5_256_000

const Status = z.enum(['active', 'converted', 'expired'])

const guestFields = {
  id: z.string().meta({ example: 'gst_01jb2m7x9kq4t8v6w0r3s5y1zd' }),
  userId: z.string().meta({ description: 'The user of this guest, hidden from lists until the guest is converted.' }),
  partyId: z.string().meta({ description: 'The ledger party. A conversion keeps it.' }),
  appId: z.string(),
  status: Status,
  expiresAt: Time.meta({ description: 'The session ends at this time, unless the guest is converted before.' }),
  metadata: z.record(z.string(), z.string()),
  ...Times,
}

/** A guest session in responses. */
export const Guest = z.object(guestFields).meta({ id: 'Guest' })
export type Guest = z.infer<typeof Guest>

/** A new guest session with its tokens. */
export const GuestWithTokens = z.object({ ...guestFields, ...tokenFields }).meta({ id: 'GuestWithTokens' })
export type GuestWithTokens = z.infer<typeof GuestWithTokens>

export const CreateGuest = z
  .strictObject({
    appId: z.string().optional().meta({ description: "Default: the key's app, or the tenant's default app." }),
    ttlMinutes: z
      .int()
      .min(1)
      .max(TTL_MINUTES_MAX)
      .optional()
      .meta({ description: 'How long the session lasts: 1 minute to 30 days. Default: 1440, a day.', example: 1440 }),
    metadata: Metadata.optional(),
  })
  .meta({ id: 'CreateGuest' })
export type CreateGuest = z.infer<typeof CreateGuest>

export const ListGuests = z.strictObject({
  ...Paging,
  ...sortedBy('createdAt'),
  status: Status.optional(),
  app_id: z.string().optional().meta({ description: 'Only guests of this app.' }),
})
export type ListGuests = z.infer<typeof ListGuests>

/** The fields of the user that the guest becomes. */
export const ConvertGuest = CreateUser.pick({ email: true, name: true, externalId: true, metadata: true }).meta({
  id: 'ConvertGuest',
  description: 'An email or an external id is required.',
})
export type ConvertGuest = z.infer<typeof ConvertGuest>

/** A converted guest: the ended guest session, the user that it became, and a session of the user. */
export const ConvertedGuest = z.object({ guest: Guest, user: User, ...tokenFields }).meta({ id: 'ConvertedGuest' })
export type ConvertedGuest = z.infer<typeof ConvertedGuest>

export const CleanUpGuests = z
  .strictObject({
    olderThanMinutes: z.int().min(0).max(AGE_MINUTES_MAX).optional().meta({
      description:
        'The age in minutes from which guest sessions are ended, whether they have expired or not. 0 ends all. Without it, only expired sessions are ended.',
      example: 60,
    }),
    dryRun: z.boolean().optional().meta({ description: 'Only counts, and changes nothing.' }),
  })
  .meta({ id: 'CleanUpGuests' })
export type CleanUpGuests = z.infer<typeof CleanUpGuests>

export const ExpiredGuests = z
  .object({
    expired: z.int().meta({
      description: 'How many guests this call ended or, in a dry run, how many there are to end.',
      example: 12,
    }),
    hasMore: z.boolean().meta({ description: 'Whether more guests are left to end. If so, call again.' }),
  })
  .meta({ id: 'ExpiredGuests' })
export type ExpiredGuests = z.infer<typeof ExpiredGuests>
