import { z } from 'zod'
import { ClientId, ClientSecret, IssuerName, ProviderName } from '../../../tenancy/apps/providers/schema.ts'

const Name = ProviderName.meta({ description: 'What the button says after “Sign in with”.', example: 'Acme' })
const Issuer = IssuerName.meta({
  description:
    'The `iss` of its ID tokens, to the letter. Its metadata is read from `/.well-known/openid-configuration` below it. With another issuer or client id, members connect their accounts again.',
})
const Client = ClientId.meta({ description: 'What the login of your organisation calls this client.' })
const Secret = ClientSecret.meta({
  description:
    'What proves to it that it is your client. It is stored encrypted and never returned. null: PKCE alone. If left out, the stored one stays, unless issuer or client id change.',
})

/** The organisation's login, in responses. */
const Oidc = z
  .object({
    name: Name,
    issuer: Issuer,
    clientId: Client,
    clientSecretSet: z.boolean().meta({ description: 'Whether a client secret is stored.' }),
    callbackUrl: z.string().meta({
      description: 'Register exactly this redirect URL (callback) there.',
      example: 'https://id.example.com/dashboard/oidc/prv_01jb2m7x9kq4t8v6w0r3s5y1zp/callback',
    }),
  })
  .nullable()
  .meta({ description: 'The OpenID Connect login of your organisation. null: off.' })

const SetOidc = z
  .strictObject({ name: Name, issuer: Issuer, clientId: Client, clientSecret: Secret.optional() })
  .nullable()
export type SetOidc = z.infer<typeof SetOidc>

/** How members of a tenant sign in beside their passkeys. */
export const MemberSignIn = z
  .object({
    emailCode: z.boolean().meta({
      description:
        'Whether members sign in by a code that is mailed to their address. It counts only for an address that they have verified (`emailVerified`).',
    }),
    oidc: Oidc,
    signInUrl: z.string().meta({
      description:
        'Where members of this tenant sign in. With one tenant only, the address without `?tenant=` does the same.',
      example: 'https://id.example.com/dashboard?tenant=ten_01jb2m7x9kq4t8v6w0r3s5y1za',
    }),
  })
  .meta({ id: 'MemberSignIn' })
export type MemberSignIn = z.infer<typeof MemberSignIn>

export const UpdateMemberSignIn = z
  .strictObject({ emailCode: z.boolean().optional(), oidc: SetOidc.optional() })
  .meta({ id: 'UpdateMemberSignIn' })
export type UpdateMemberSignIn = z.infer<typeof UpdateMemberSignIn>
