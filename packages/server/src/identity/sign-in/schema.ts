import { z } from 'zod'

const RedirectUri = z.string().min(1).max(2048).meta({
  description: "Must be exactly one of the app's `allowedRedirectUrls`.",
  example: 'https://shop.example.com/signed-in',
})

/** The hosted page's request for a code. */
export const CreateCode = z
  .strictObject({
    redirectUri: RedirectUri,
    codeChallenge: z
      .string()
      .regex(/^[A-Za-z0-9_-]{43}$/)
      .meta({ 'x-expected': 'the base64url of a SHA-256 (PKCE S256)' }),
  })
  .meta({ id: 'CreateCode' })
export type CreateCode = z.infer<typeof CreateCode>

export const SignInCode = z.object({ code: z.string(), expiresAt: z.string() }).meta({ id: 'SignInCode' })
export type SignInCode = z.infer<typeof SignInCode>

export const Exchange = z
  .strictObject({
    code: z
      .string()
      .min(1)
      .max(200)
      .meta({ description: 'The `code` that the hosted page added to the redirect.', example: 'hk_sc_0Kq1v7' }),
    codeVerifier: z
      .string()
      .regex(/^[A-Za-z0-9._~-]{43,128}$/)
      .meta({
        description: 'PKCE (RFC 7636): the text whose SHA-256 was the `code_challenge`.',
        example: 'dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk',
        'x-expected': '43 to 128 letters, digits, dots, hyphens, underscores and tildes',
      }),
    redirectUri: RedirectUri,
  })
  .meta({ id: 'Exchange' })
export type Exchange = z.infer<typeof Exchange>
