import { z } from 'zod'

export const CreateIdToken = z
  .strictObject({
    audience: z.string().min(1).max(500).optional().meta({
      description:
        "Who is to verify the token: one of the app's `openid.audiences`, or the app's id, which is the default.",
      example: 'https://ledger.example.com',
    }),
    nonce: z
      .string()
      .min(1)
      .max(255)
      .regex(/^[\x21-\x7e]+$/)
      .optional()
      .meta({
        description:
          'Comes back as the claim `nonce`. With it, a verifier sees that the token was made for its own request.',
        example: 'n-0S6_WzA2Mj',
        'x-expected': 'visible ASCII characters without spaces, at most 255',
      }),
  })
  .meta({ id: 'CreateIdToken' })
export type CreateIdToken = z.infer<typeof CreateIdToken>

export const IdToken = z
  .object({
    idToken: z.string().meta({
      description:
        'A JWT (RS256) by the issuer `openid.issuer` of the app. It says who the user is to others, and is no access token. A repeat with the same `Idempotency-Key` returns the same token: its `exp` says until when it counts.',
      example: 'eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJ1c3JfMDFqYiJ9.c2ln',
    }),
    expiresInSeconds: z
      .int()
      .meta({ description: 'Seconds until the token expires, from when it was made.', example: 600 }),
  })
  .meta({ id: 'IdToken' })
export type IdToken = z.infer<typeof IdToken>
