import { z } from 'zod'
import { Paging, Time, Times } from '../../platform/http/route.ts'
import { tokenFields } from '../sessions/schema.ts'
import { Email } from '../users/schema.ts'

const CREDENTIAL_ID_CHARS_MAX = 1_364
const CLIENT_DATA_CHARS_MAX = 16_384
const ATTESTATION_CHARS_MAX = 131_072
const AUTHENTICATOR_DATA_CHARS_MAX = 32_768
const SIGNATURE_CHARS_MAX = 2_048
const USER_HANDLE_CHARS_MAX = 86
const NAME_CHARS_MAX = 100

/** Bytes in the JSON of WebAuthn: base64url without padding (RFC 4648, section 5). */
const bytes = (charsMax: number) =>
  z
    .string()
    .min(2)
    .max(charsMax)
    .regex(/^(?:[A-Za-z0-9_-]{4})*(?:[A-Za-z0-9_-]{2,3})?$/)
    .meta({ 'x-expected': `base64url without padding, of at most ${charsMax} characters` })

const CredentialId = bytes(CREDENTIAL_ID_CHARS_MAX).meta({ example: 'AQIDBAUGBwgJCgsMDQ4PEA' })
const Name = z
  .string()
  .min(1)
  .max(NAME_CHARS_MAX)
  .regex(/\S/)
  .nullable()
  .meta({
    description: 'The name that the user gave it.',
    example: 'Ada’s phone',
    'x-expected': `text of 1 to ${NAME_CHARS_MAX} characters, not only spaces, or null`,
  })
const Transports = z
  .array(z.string().max(32))
  .max(16)
  .meta({ description: 'How a browser reaches the authenticator.', example: ['hybrid', 'internal'] })

/** A passkey in responses. */
export const Passkey = z
  .object({
    id: z.string().meta({ example: 'pky_01jb2m7x9kq4t8v6w0r3s5y1zf' }),
    userId: z.string().meta({ example: 'usr_01jb2m7x9kq4t8v6w0r3s5y1za' }),
    name: Name,
    credentialId: CredentialId,
    rpId: z.string().meta({ description: 'The relying party that it was created for.', example: 'example.com' }),
    deviceType: z.enum(['singleDevice', 'multiDevice']).meta({ description: 'Whether it can be synced.' }),
    backedUp: z.boolean().meta({ description: 'Whether it was synced when it was last used.' }),
    transports: Transports,
    aaguid: z.string().meta({
      description: 'The model of the authenticator, or zeros if the authenticator does not tell it.',
      example: '00000000-0000-0000-0000-000000000000',
    }),
    lastUsedAt: Time.nullable(),
    ...Times,
  })
  .meta({ id: 'Passkey' })
export type Passkey = z.infer<typeof Passkey>

/** The session that has shown a passkey. */
export const PasskeyProof = z
  .object({ accessToken: tokenFields.accessToken, expiresInSeconds: tokenFields.expiresInSeconds })
  .meta({ id: 'PasskeyProof' })

export const ListPasskeys = z.strictObject({ ...Paging })
export type ListPasskeys = z.infer<typeof ListPasskeys>

export const RenamePasskey = z.strictObject({ name: Name.optional() }).meta({ id: 'RenamePasskey' })
export type RenamePasskey = z.infer<typeof RenamePasskey>

export const RegisterOptions = z
  .strictObject({
    email: Email.nullable().optional().meta({
      description: 'The email of the new user. `register-verify` returns `already_exists` if it is taken.',
      example: 'ada@example.com',
    }),
    name: z.string().min(1).max(200).regex(/\S/).nullable().optional().meta({
      description: 'The name of the new user.',
      example: 'Ada',
      'x-expected': 'text of 1 to 200 characters, not only spaces',
    }),
    appId: z.string().optional().meta({ description: "Default: the key's app, or the tenant's default app." }),
  })
  .meta({ id: 'RegisterOptions' })
export type RegisterOptions = z.infer<typeof RegisterOptions>

const UserVerification = z.enum(['required', 'preferred', 'discouraged'])
const Challenge = z.string().meta({ example: 'dGhpcnR5LXR3byByYW5kb20gYnl0ZXMsIGVuY29kZWQ' })
const Descriptor = z.object({ id: CredentialId, type: z.literal('public-key'), transports: Transports })
const TimeoutMs = z.int().meta({ description: 'Milliseconds.', example: 300_000 })
const challengeFields = {
  challengeId: z.string().meta({ example: 'chl_01jb2m7x9kq4t8v6w0r3s5y1zg' }),
  expiresAt: Time.meta({ description: 'The challenge can be answered once, until this time.' }),
}

/** `PublicKeyCredentialCreationOptionsJSON` (WebAuthn L3, section 5.4): the members that we set. */
const CreationOptions = z
  .object({
    rp: z.object({ id: z.string(), name: z.string() }),
    user: z.object({ id: z.string(), name: z.string(), displayName: z.string() }),
    challenge: Challenge,
    pubKeyCredParams: z.array(z.object({ type: z.literal('public-key'), alg: z.int() })),
    timeout: TimeoutMs,
    excludeCredentials: z.array(Descriptor),
    authenticatorSelection: z.object({
      residentKey: z.literal('required'),
      requireResidentKey: z.boolean(),
      userVerification: UserVerification,
    }),
    attestation: z.literal('none'),
    extensions: z.object({ credProps: z.boolean() }),
  })
  .meta({ description: 'For `PublicKeyCredential.parseCreationOptionsFromJSON` (WebAuthn L3).' })

export const RegistrationChallenge = z
  .object({ ...challengeFields, publicKey: CreationOptions })
  .meta({ id: 'RegistrationChallenge' })
export type RegistrationChallenge = z.infer<typeof RegistrationChallenge>

/** `PublicKeyCredentialRequestOptionsJSON` (WebAuthn L3, section 5.5): the members that we set. */
const RequestOptions = z
  .object({
    challenge: Challenge,
    timeout: TimeoutMs,
    rpId: z.string(),
    allowCredentials: z.array(Descriptor).meta({ description: 'Empty: any passkey that the authenticator has.' }),
    userVerification: UserVerification,
  })
  .meta({ description: 'For `PublicKeyCredential.parseRequestOptionsFromJSON` (WebAuthn L3).' })

export const LoginChallenge = z.object({ ...challengeFields, publicKey: RequestOptions }).meta({ id: 'LoginChallenge' })
export type LoginChallenge = z.infer<typeof LoginChallenge>

export const LoginOptions = z.strictObject({
  email: Email.optional().meta({
    description:
      'The email of the user whose passkeys are accepted. Without it, the authenticator offers all of its passkeys.',
    example: 'ada@example.com',
  }),
  app_id: z.string().optional().meta({ description: "Default: the key's app, or the tenant's default app." }),
})
export type LoginOptions = z.infer<typeof LoginOptions>

/** The fields of the credentials of both ceremonies. Extension outputs are ignored. */
const credentialFields = {
  id: CredentialId,
  rawId: CredentialId,
  type: z.literal('public-key'),
  authenticatorAttachment: z.string().max(32).nullable().optional(),
  clientExtensionResults: z.record(z.string(), z.unknown()).optional(),
}
const ClientData = bytes(CLIENT_DATA_CHARS_MAX)
const AuthenticatorData = bytes(AUTHENTICATOR_DATA_CHARS_MAX)

export const RegisterVerify = z
  .strictObject({
    challengeId: z.string().meta({ example: 'chl_01jb2m7x9kq4t8v6w0r3s5y1zg' }),
    credential: z
      .strictObject({
        ...credentialFields,
        response: z.strictObject({
          clientDataJSON: ClientData,
          attestationObject: bytes(ATTESTATION_CHARS_MAX),
          transports: Transports.optional(),
          authenticatorData: AuthenticatorData.optional(),
          publicKey: bytes(ATTESTATION_CHARS_MAX).nullable().optional(),
          publicKeyAlgorithm: z.int().optional(),
        }),
      })
      .meta({ description: '`RegistrationResponseJSON` (WebAuthn L3): `credential.toJSON()`.' }),
    deviceName: Name.optional(),
  })
  .meta({ id: 'RegisterVerify' })
export type RegisterVerify = z.infer<typeof RegisterVerify>

export const LoginVerify = z
  .strictObject({
    challengeId: z.string().meta({ example: 'chl_01jb2m7x9kq4t8v6w0r3s5y1zg' }),
    credential: z
      .strictObject({
        ...credentialFields,
        response: z.strictObject({
          clientDataJSON: ClientData,
          authenticatorData: AuthenticatorData,
          signature: bytes(SIGNATURE_CHARS_MAX),
          userHandle: bytes(USER_HANDLE_CHARS_MAX).nullable().optional(),
        }),
      })
      .meta({ description: '`AuthenticationResponseJSON` (WebAuthn L3): `credential.toJSON()`.' }),
  })
  .meta({ id: 'LoginVerify' })
export type LoginVerify = z.infer<typeof LoginVerify>
