import { z } from 'zod'
import { IdParam, Paging, Times } from '../../../platform/http/route.ts'

const expected = (text: string) => ({ 'x-expected': text })

const URL_CHARS_MAX = 500

/** Providers whose addresses and habits are known here; `oidc` is any other one that follows OpenID Connect. */
const PRESETS = ['google', 'apple', 'microsoft', 'github', 'oidc'] as const
export type Preset = (typeof PRESETS)[number]

const PresetField = z.enum(PRESETS).meta({
  description: 'Which provider it is: `oidc` is any one with OpenID Connect Discovery. It cannot be changed later.',
})

export const ProviderName = z
  .string()
  .min(1)
  .max(60)
  .regex(/^(?=.*\S)[^\p{Cc}\p{Cf}]*$/u)
  .meta({
    description:
      'What the button of the hosted sign-in page says after “Continue with”. Default: the name of the preset.',
    example: 'Google',
    ...expected('1 to 60 characters, none a control character'),
  })

export const IssuerName = z
  .string()
  .max(URL_CHARS_MAX)
  .regex(/^https?:\/\/[^\s?#@\p{Cc}]+$/u)
  .meta({
    description:
      'The `iss` of its ID tokens, to the letter. Required for `oidc` and `microsoft`; the others have a default. Its metadata is read from `/.well-known/openid-configuration` below it. For GitHub, the address of the server. It cannot be changed later, because users are known by it.',
    example: 'https://accounts.google.com',
    ...expected('a URL without query and fragment'),
  })

const ClientName = z
  .string()
  .min(1)
  .max(300)
  .regex(/^[\x21-\x7e]+$/)
export const ClientId = ClientName.meta({
  description: 'What the provider calls your app. Of Apple, the id of the service.',
  example: '812345678901-abc.apps.googleusercontent.com',
})
const NativeClientIds = z
  .array(ClientName)
  .max(20)
  .meta({
    description:
      'Clients of your native apps at the provider, such as bundle ids. `POST /auth/providers/:id/token` takes ID tokens for them, too.',
    example: ['com.example.shop'],
    uniqueItems: true,
  })

const AppleName = z.string().regex(/^[A-Za-z0-9]{10}$/)
const TeamId = AppleName.nullable().meta({
  description: 'Apple only, required there: the id of your team.',
  example: 'A1B2C3D4E5',
  ...expected('ten letters and digits'),
})
const KeyId = AppleName.nullable().meta({
  description: 'Apple only, required there: the id of the private key.',
  example: 'F6G7H8J9K0',
  ...expected('ten letters and digits'),
})

export const ClientSecret = z.string().min(1).max(4_000).nullable().meta({
  description:
    'What proves to the provider that it is your app. It is stored encrypted and never returned. Of Apple, the private key (the `.p8` file); Halfkey signs the client secrets with it. Required except for `oidc`, where a client without one uses PKCE alone.',
  writeOnly: true,
})

const Jit = z.enum(['create', 'match', 'refuse']).meta({
  description:
    'What the first sign-in with an account does: `create` makes a new user; `match` accepts only accounts that users have linked. Neither ever finds a user by email. `refuse`: nobody signs in by this provider at present.',
})

/** A provider in responses. */
export const Provider = z
  .object({
    id: z.string().meta({ example: 'prv_01jb2m7x9kq4t8v6w0r3s5y1zp' }),
    appId: z.string(),
    preset: PresetField,
    name: ProviderName,
    issuer: IssuerName,
    clientId: ClientId,
    clientSecretSet: z.boolean().meta({ description: 'Whether a client secret is stored.' }),
    teamId: TeamId,
    keyId: KeyId,
    nativeClientIds: NativeClientIds,
    jit: Jit,
    callbackUrl: z.string().meta({
      description: 'Register exactly this redirect URL (callback) at the provider.',
      example: 'https://id.example.com/signin/providers/prv_01jb2m7x9kq4t8v6w0r3s5y1zp/callback',
    }),
    ...Times,
  })
  .meta({ id: 'Provider' })
export type Provider = z.infer<typeof Provider>

const settings = {
  name: ProviderName.optional(),
  clientSecret: ClientSecret.optional(),
  teamId: TeamId.optional(),
  keyId: KeyId.optional(),
  nativeClientIds: NativeClientIds.optional(),
  jit: Jit.optional(),
}

export const CreateProvider = z
  .strictObject({ preset: PresetField, issuer: IssuerName.optional(), clientId: ClientId, ...settings })
  .meta({ id: 'CreateProvider' })
export type CreateProvider = z.infer<typeof CreateProvider>

export const UpdateProvider = z
  .strictObject({ clientId: ClientId.optional(), ...settings })
  .meta({ id: 'UpdateProvider' })
export type UpdateProvider = z.infer<typeof UpdateProvider>

export const ListProviders = z.strictObject({ ...Paging })
export type ListProviders = z.infer<typeof ListProviders>

export const ProviderParams = IdParam.extend({ providerId: z.string() })
export type ProviderParams = z.infer<typeof ProviderParams>
