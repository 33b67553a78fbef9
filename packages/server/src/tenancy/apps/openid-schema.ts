import { z } from 'zod'

const expected = (text: string) => ({ 'x-expected': text })

const AUDIENCES_MAX = 10
const CLAIMS_MAX = 20

const settings = {
  audiences: z
    .array(
      z
        .string()
        .max(500)
        .regex(/^[\x21-\x7e]+$/)
        .meta(expected('visible ASCII characters without spaces, at most 500')),
    )
    .max(AUDIENCES_MAX)
    .meta({
      description:
        "Who else verifies the app's ID tokens: the values of `aud` that `POST /auth/id-token` may be asked for, besides the app's id.",
      example: ['https://ledger.example.com'],
      uniqueItems: true,
      ...expected(`a list of at most ${AUDIENCES_MAX} different texts`),
    }),
  claims: z
    .array(
      z
        .string()
        .max(150)
        .regex(/^[A-Za-z][A-Za-z0-9_./:-]*$/)
        .meta(expected('a name that begins with a letter and has letters, digits and _ . / : -')),
    )
    .max(CLAIMS_MAX)
    .meta({
      description:
        'Claims of ID tokens that come from the metadata of the user: `plan` has the value of the key `claim:plan`, and is absent if there is none. Users and guests cannot write such keys. Names with a meaning in OpenID Connect or OAuth are refused.',
      example: ['plan'],
      uniqueItems: true,
      ...expected(`a list of at most ${CLAIMS_MAX} different names`),
    }),
}

/** An app as an OpenID issuer, in responses. */
export const OpenId = z.object({
  issuer: z.string().meta({
    description:
      "The issuer (`iss`) of this app's ID tokens. Its metadata is at `/.well-known/openid-configuration` below it, and its keys at `/.well-known/jwks.json`.",
    example: 'https://id.example.com/apps/app_01jb2m7x9kq4t8v6w0r3s5y1zb',
  }),
  ...settings,
})

/** The same in the bodies of POST and PATCH. */
export const OpenIdChange = z.strictObject({
  audiences: settings.audiences.optional(),
  claims: settings.claims.optional(),
})
export type OpenIdChange = z.infer<typeof OpenIdChange>
