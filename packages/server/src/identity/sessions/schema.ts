import { z } from 'zod'
import { Paging, Time } from '../../platform/http/route.ts'

const AccessToken = z.string().meta({
  description: 'A JWT (EdDSA; keys at `/.well-known/jwks.json`). Send it as `Authorization: Bearer`.',
  example: 'eyJhbGciOiJFZERTQSJ9.eyJzdWIiOiJ1c3JfMDFqYiJ9.c2ln',
})
const RefreshToken = z.string().meta({
  description: 'Opaque, for one use: every refresh returns the next one. Keep it where foreign scripts cannot read it.',
  example: 'hk_rt_a2V5.c2VzXzAxamI.MA.bWFj',
})

/** The tokens for a user's calls, in the response of every sign-in. */
export const tokenFields = {
  accessToken: AccessToken,
  refreshToken: RefreshToken,
  tokenType: z.literal('Bearer'),
  expiresInSeconds: z.int().meta({ description: 'Seconds until the access token expires.', example: 900 }),
  sessionId: z.string().meta({ example: 'ses_01jb2m7x9kq4t8v6w0r3s5y1ze' }),
}

export const Tokens = z.object(tokenFields).meta({ id: 'Tokens' })
export type Tokens = z.infer<typeof Tokens>

/** A session in responses. */
export const Session = z
  .object({
    id: z.string().meta({ example: 'ses_01jb2m7x9kq4t8v6w0r3s5y1ze' }),
    userId: z.string(),
    appId: z.string(),
    current: z.boolean().meta({ description: 'Whether this call was made in this session.' }),
    methods: z.array(z.string()).meta({
      description:
        'How the user signed in: names of RFC 8176, `guest`, `messenger`, `email`, and `exchange` for a token of a trusted issuer.',
      example: ['hwk', 'user'],
    }),
    status: z.enum(['active', 'revoked', 'expired']),
    signedInAt: Time,
    mfaVerifiedAt: Time.nullable(),
    userAgent: z.string().nullable(),
    address: z
      .string()
      .meta({ description: 'The network address that the sign-in came from.', example: '203.0.113.7' }),
    expiresAt: Time.meta({ description: 'The session ends at this time, unless it is refreshed before.' }),
    createdAt: Time,
    updatedAt: Time,
  })
  .meta({ id: 'Session' })
export type Session = z.infer<typeof Session>

export const Refresh = z.strictObject({ refreshToken: z.string().min(1).max(1024) }).meta({ id: 'Refresh' })
export type Refresh = z.infer<typeof Refresh>

export const ListSessions = z.strictObject({
  ...Paging,
  status: z.enum(['active', 'ended']).optional().meta({
    description: '`active` (the default), or `ended`: revoked or expired in the last 30 days.',
  }),
})
export type ListSessions = z.infer<typeof ListSessions>

export const LogOut = z
  .strictObject({
    everywhere: z.boolean().optional().meta({ description: 'Ends all sessions of the user, not only this one.' }),
  })
  .meta({ id: 'LogOut' })

export const LoggedOut = z
  .object({ revoked: z.int().meta({ description: 'How many sessions this ended.', example: 1 }) })
  .meta({ id: 'LoggedOut' })
