import { z } from 'zod'
import { Time } from '../../platform/http/route.ts'

const SECONDS_MIN = 60
const SECONDS_MAX = 86_400
const ORIGINS_MAX = 5

export const CreatePortalLink = z
  .strictObject({
    expiresInSeconds: z.int().min(SECONDS_MIN).max(SECONDS_MAX).optional().meta({
      description: 'How long the link works: 60 to 86400 seconds (default 3600).',
      example: 3600,
    }),
    origins: z
      .array(z.string().max(2_048))
      .max(ORIGINS_MAX)
      .optional()
      .meta({
        description:
          'Origins of your pages that may show the portal in a frame: `https://host[:port]`, in development also `http:` on loopback. Without them, no page may.',
        example: ['https://app.example.com'],
        uniqueItems: true,
      }),
  })
  .meta({ id: 'CreatePortalLink' })
export type CreatePortalLink = z.infer<typeof CreatePortalLink>

export const PortalLink = z
  .object({
    url: z.string().meta({
      description: 'Send your customer here, or embed it. Anyone who has it can manage the webhooks of the subscriber.',
      example: 'https://halfkey.example.com/portal#token=prt_…',
    }),
    expiresAt: Time,
  })
  .meta({ id: 'PortalLink' })
export type PortalLink = z.infer<typeof PortalLink>

export const RevokedPortalLinks = z
  .object({ revoked: z.int().meta({ description: 'How many links stopped working.' }) })
  .meta({ id: 'RevokedPortalLinks' })

/** What a portal shows first: whose it is, how it looks, and what can be subscribed to. */
export const Portal = z.object({
  subscriber: z.object({ name: z.string().nullable() }),
  branding: z.object({ name: z.string(), accentColor: z.string().nullable(), logoUrl: z.string().nullable() }),
  eventTypes: z.array(z.object({ name: z.string(), description: z.string().nullable(), deprecated: z.boolean() })),
  expiresAt: Time,
})
export type Portal = z.infer<typeof Portal>
