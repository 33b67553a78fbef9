import { z } from 'zod'
import { IdParam, Paging, Times } from '../../../platform/http/route.ts'

const expected = (text: string) => ({ 'x-expected': text })

const URL_CHARS_MAX = 500

const IssuerName = z
  .string()
  .max(URL_CHARS_MAX)
  .regex(/^https?:\/\/[^\s?#@\p{Cc}]+$/u)
  .meta({
    description:
      'The `iss` of its tokens, to the letter: with or without a slash at the end, as the tokens have it. It cannot be changed later, because users are known by it.',
    example: 'https://login.example.com/',
    ...expected('a URL without query and fragment'),
  })

const JwksUri = z.string().max(URL_CHARS_MAX).meta({
  description:
    'Where its public keys are, as a JWK Set (RFC 7517). Send either this or `discovery`. Redirects are not followed, and at most 64 KiB are read.',
  example: 'https://login.example.com/.well-known/jwks.json',
})
const Discovery = z.string().max(URL_CHARS_MAX).meta({
  description:
    'Where its metadata is (OpenID Connect Discovery, RFC 8414). The `issuer` in it must be this issuer; its `jwks_uri` says where the keys are.',
  example: 'https://login.example.com/.well-known/openid-configuration',
})

const Audiences = z
  .array(z.string().min(1).max(URL_CHARS_MAX))
  .min(1)
  .max(20)
  .meta({
    description: 'The `aud` of a token must be or contain one of these. They say that a token is meant for your app.',
    example: ['shop-web'],
    uniqueItems: true,
    ...expected('a list of 1 to 20 different texts'),
  })

/** Signatures with public keys only: a shared secret could sign for anybody who verifies. */
const ALGORITHMS = [
  'RS256',
  'RS384',
  'RS512',
  'PS256',
  'PS384',
  'PS512',
  'ES256',
  'ES384',
  'ES512',
  'EdDSA',
  'Ed25519',
] as const
export type Algorithm = (typeof ALGORITHMS)[number]

const Algorithms = z
  .array(z.enum(ALGORITHMS))
  .min(1)
  .max(ALGORITHMS.length)
  .meta({
    description: 'The signature algorithms of its tokens (RFC 7518, RFC 8037). A token with another one is refused.',
    example: ['RS256'],
    uniqueItems: true,
  })

const CLAIM_RULE =
  'The name of a claim or, beginning with a slash, its place inside of others as a JSON Pointer (RFC 6901).'
const Claim = z
  .string()
  .min(1)
  .max(200)
  .regex(/^\P{Cc}*$/u)
const SubClaim = Claim.meta({
  description: `What identifies the user at this issuer, for ever. ${CLAIM_RULE}`,
  example: 'sub',
})
const EmailClaim = Claim.nullable().meta({
  description: `The email of a new user. It is stored only if the issuer says that it is verified, and no other user of the app has it. ${CLAIM_RULE} null: none.`,
  example: 'email',
})
const EmailVerifiedClaim = Claim.nullable().meta({
  description: `Whether the email is verified: the claim must be \`true\`. Name no claim that users can change. ${CLAIM_RULE} null: no email counts as verified.`,
  example: 'email_verified',
})
const NameClaim = Claim.nullable().meta({
  description: `The name of a new user. ${CLAIM_RULE} null: none.`,
  example: 'name',
})

const Jit = z.enum(['create', 'match', 'refuse']).meta({
  description:
    'What the first token of an identity does: `create` makes a new user; `match` accepts only identities that users have linked. Neither ever finds a user by email. `refuse`: no token of this issuer is accepted at present.',
})

const MaxTokenAgeSeconds = z.int().min(60).max(86_400).meta({
  description: 'How long after its `iat` a token is accepted: 60 to 86400. Its `exp` may end it sooner.',
  example: 3600,
})

const MfaClaim = z
  .strictObject({
    claim: Claim.meta({ description: CLAIM_RULE, example: 'amr' }),
    values: z
      .array(z.string().min(1).max(200))
      .min(1)
      .max(20)
      .meta({ description: 'The claim must be, or contain, one of these.', example: ['mfa'], uniqueItems: true }),
  })
  .meta({
    id: 'IssuerMfaClaim',
    description:
      'What says that the issuer has verified a second factor. It then counts for operations that need one, for five minutes, but never for key shares.',
  })
export type MfaClaim = z.infer<typeof MfaClaim>

/** A trusted issuer in responses. */
export const Issuer = z
  .object({
    id: z.string().meta({ example: 'iss_01jb2m7x9kq4t8v6w0r3s5y1zr' }),
    appId: z.string(),
    issuer: IssuerName,
    jwksUri: JwksUri.nullable(),
    discovery: Discovery.nullable(),
    audiences: Audiences,
    algorithms: Algorithms,
    claims: z.object({ sub: SubClaim, email: EmailClaim, emailVerified: EmailVerifiedClaim, name: NameClaim }),
    jit: Jit,
    maxTokenAgeSeconds: MaxTokenAgeSeconds,
    mfaClaim: z.object(MfaClaim.shape).nullable(),
    ...Times,
  })
  .meta({ id: 'Issuer' })
export type Issuer = z.infer<typeof Issuer>

const settings = {
  jwksUri: JwksUri.nullable().optional(),
  discovery: Discovery.nullable().optional(),
  algorithms: Algorithms.optional(),
  claims: z
    .strictObject({
      sub: SubClaim.optional(),
      email: EmailClaim.optional(),
      emailVerified: EmailVerifiedClaim.optional(),
      name: NameClaim.optional(),
    })
    .optional(),
  jit: Jit.optional(),
  maxTokenAgeSeconds: MaxTokenAgeSeconds.optional(),
  mfaClaim: MfaClaim.nullable().optional(),
}

export const CreateIssuer = z
  .strictObject({ issuer: IssuerName, audiences: Audiences, ...settings })
  .meta({ id: 'CreateIssuer' })
export type CreateIssuer = z.infer<typeof CreateIssuer>

export const UpdateIssuer = z
  .strictObject({ audiences: Audiences.optional(), ...settings })
  .meta({ id: 'UpdateIssuer' })
export type UpdateIssuer = z.infer<typeof UpdateIssuer>

export const ListIssuers = z.strictObject({ ...Paging })
export type ListIssuers = z.infer<typeof ListIssuers>

export const IssuerParams = IdParam.extend({ issuerId: z.string() })
export type IssuerParams = z.infer<typeof IssuerParams>
