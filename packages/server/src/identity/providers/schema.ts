import { z } from 'zod'
import { IdParam, Time } from '../../platform/http/route.ts'

const CodeChallenge = z
  .string()
  .regex(/^[A-Za-z0-9_-]{43}$/)
  .meta({
    description: 'PKCE (RFC 7636): the base64url of the SHA-256 of a random text that only the starting page knows.',
    example: 'E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM',
    'x-expected': 'the base64url of a SHA-256 (PKCE S256)',
  })

const CodeVerifier = z
  .string()
  .regex(/^[A-Za-z0-9._~-]{43,128}$/)
  .meta({
    description: 'PKCE (RFC 7636): the text whose SHA-256 was the `codeChallenge`.',
    example: 'dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk',
    'x-expected': '43 to 128 letters, digits, dots, hyphens, underscores and tildes',
  })

export const StartProvider = z
  .strictObject({
    redirectUrl: z.string().min(1).max(2048).meta({
      description:
        "Where the browser returns to: exactly one of the app's `allowedRedirectUrls`. It gets `code` and `state`, or `error` and `state`.",
      example: 'https://shop.example.com/signed-in',
    }),
    codeChallenge: CodeChallenge,
    state: z
      .string()
      .min(1)
      .max(2_000)
      .regex(/^\P{Cc}*$/u)
      .optional()
      .meta({
        description:
          'Returned unchanged. Compare it on return with what this tab sent: then nobody signs your user in to another account.',
        example: 'b9Xk2',
      }),
    purpose: z.enum(['sign_in', 'link']).optional().meta({
      description:
        '`sign_in` (the default), or `link`: the account becomes an identity of the current user. Exchange the `code` of a link with `POST /auth/providers/:id/link`.',
    }),
    appId: z.string().optional().meta({ description: "Default: the key's app, or the tenant's default app." }),
  })
  .meta({ id: 'StartProvider' })
export type StartProvider = z.infer<typeof StartProvider>

/** Where to send the browser. */
export const ProviderStart = z
  .object({
    authorizationUrl: z.string().meta({
      description: 'Send the browser there, once. It leads to the provider, and binds the sign-in to this browser.',
      example:
        'https://id.example.com/signin/providers/prv_01jb2m7x9kq4t8v6w0r3s5y1zp/begin?flow=chl_01jb2m7x9kq4t8v6w0r3s5y1zv',
    }),
    expiresAt: Time.meta({ description: 'Until then it can be opened: five minutes.' }),
  })
  .meta({ id: 'ProviderStart' })
export type ProviderStart = z.infer<typeof ProviderStart>

const IdToken = z.string().min(1).max(16_384).meta({
  description: 'The ID token that the provider gave to the native app.',
  example: 'eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhZGEifQ.c2ln',
})

const Nonce = z
  .string()
  .regex(/^[A-Za-z0-9._~-]{32,128}$/)
  .meta({
    description:
      'A random text that the app made for this sign-in. The provider got only its SHA-256, in hex or base64url, as the nonce: the `nonce` claim is that. So an ID token that somebody sees is of no use to them.',
    example: 'n-0S6_WzA2Mj.k3lf8Qx~7c1Vb9Zt4Ym2Rp',
    'x-expected': '32 to 128 letters, digits, dots, hyphens, underscores and tildes',
  })

export const ProviderToken = z
  .strictObject({
    idToken: IdToken,
    nonce: Nonce,
    appId: z.string().optional().meta({ description: "Default: the key's app, or the tenant's default app." }),
  })
  .meta({ id: 'ProviderToken' })
export type ProviderToken = z.infer<typeof ProviderToken>

export const LinkProvider = z
  .strictObject({
    code: z.string().min(1).max(200).optional().meta({
      description: 'The `code` that came back from a start with the purpose `link`.',
      example: 'hk_pl_0Kq1v7',
    }),
    codeVerifier: CodeVerifier.optional(),
    idToken: IdToken.optional(),
    nonce: Nonce.optional(),
  })
  .meta({
    id: 'LinkProvider',
    description: 'Either `code` and `codeVerifier`, or, in a native app, `idToken` and `nonce`.',
  })
export type LinkProvider = z.infer<typeof LinkProvider>

export const ProviderParam = IdParam
