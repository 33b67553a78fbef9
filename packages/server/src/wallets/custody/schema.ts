import { z } from 'zod'
import { Time, Times } from '../../platform/http/route.ts'

const expected = (text: string) => ({ 'x-expected': text })

/** RFC 8032, section 7.1, test 1. */
const HEX_64_EXAMPLE =
  'e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b'

/** 32 bytes: a public key, a point or a scalar. */
export const Hex32 = z
  .string()
  .regex(/^[0-9a-f]{64}$/)
  .meta({
    ...expected('32 bytes as 64 lower-case hex characters'),
    example: 'd75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a',
  })
/** 64 bytes: a signature or a proof. */
export const Hex64 = z
  .string()
  .regex(/^[0-9a-f]{128}$/)
  .meta({ ...expected('64 bytes as 128 lower-case hex characters'), example: HEX_64_EXAMPLE })
/** An X25519 public key to seal to. */
export const EncryptionPublicKey = z
  .string()
  .regex(/^(?:[0-9a-f]{64}|[A-Za-z0-9_-]{43})$/)
  .meta({
    ...expected('an X25519 public key: 64 lower-case hex characters, or 43 of base64url'),
    description: 'X25519 (RFC 7748): hex, or base64url without padding.',
    example: '8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a',
  })

const BASE64URL = /^[A-Za-z0-9_-]*$/
/** At most `bytesMax` bytes as base64url without padding. */
export const base64Url = (bytesMax: number) =>
  z
    .string()
    .min(1)
    .max(Math.ceil((bytesMax * 4) / 3))
    .regex(BASE64URL)
    .meta({ ...expected(`at most ${bytesMax} bytes as base64url without padding`) })

export const Holder = z.enum(['server', 'device', 'recovery'])

const SEALED_BYTES_MAX = 512
const ENC = z
  .string()
  .regex(/^[A-Za-z0-9_-]{43}$/)
  .meta({
    description: 'The encapsulated key, base64url.',
    ...expected('32 bytes as base64url without padding'),
    example: 'hSDwCYkwp1R0i33ctD73Wg2_Og0mOBr066SpjqqbTmo',
  })

/** Data that a client sealed to one of the service's keys (HPKE). */
export const SealedToService = z
  .strictObject({
    kid: z.string().max(64).meta({ description: 'The `kid` of a key from `GET /mpc/config`.' }),
    enc: ENC,
    ct: base64Url(SEALED_BYTES_MAX).meta({ description: 'The ciphertext with its tag, base64url.' }),
  })
  .meta({ id: 'SealedToService', description: 'HPKE (RFC 9180), sealed to one of the service’s keys.' })
export type SealedToService = z.infer<typeof SealedToService>

/** Data that the service sealed to a key that the caller sent. */
export const SealedToClient = z
  .object({ enc: z.string(), ct: z.string() })
  .meta({ id: 'SealedToClient', description: 'HPKE (RFC 9180), sealed to the key that you sent; base64url.' })
export type SealedToClient = z.infer<typeof SealedToClient>

export const IndexedProof = z
  .strictObject({ index: z.int().min(1).max(15), proof: Hex64 })
  .meta({ id: 'IndexedProof', description: 'A proof of knowing the share with this index: a signature by the share.' })
export type IndexedProof = z.infer<typeof IndexedProof>

/** One signer's FROST commitments to nonces (RFC 9591, section 5.1). */
export const NonceCommitments = z
  .strictObject({
    index: z.int().min(1).max(15).meta({ description: 'Index of the share that signs.', example: 2 }),
    hiding: Hex32,
    binding: Hex32,
  })
  .meta({ id: 'NonceCommitments' })
export type NonceCommitments = z.infer<typeof NonceCommitments>

/** The key that seals and proofs are bound to. */
export const Subject = z
  .object({
    tenantId: z.string(),
    appId: z.string(),
    userId: z.string(),
    walletId: z.string().nullable(),
    generation: z.int(),
    challengeId: z.string().nullable(),
  })
  .meta({ id: 'KeySubject', description: 'What seals and proofs of this exchange are bound to.' })

/** The key that identifies the installation, and its signature over the rest of the answer. */
const ServiceIdentity = z
  .object({
    publicKey: Hex32.meta({ description: 'Ed25519. Accept it only if its fingerprint is the pin that you know.' }),
    pin: z.string().meta({
      description:
        'The fingerprint of `publicKey`: `hk_pin_` and the SHA-256 of `halfkey/v1/identity-pin`, a NUL byte and the raw key, base64url. For display: compute it yourself to check it.',
      example: 'hk_pin_Z3uYd3bZ0rkXyX6Jt1oR2mVb5nQm8w4cT7sHfLk9aPg',
    }),
    notAfter: Time.meta({ description: 'The signature is not valid after this time.' }),
    signature: Hex64.meta({
      description:
        'Ed25519 over the RFC 8785 form of `{keys, notAfter, purpose, suite, tenantId}`, where `purpose` is `halfkey/v1/mpc-config` and `notAfter` that of `identity`.',
    }),
    previous: z
      .object({
        publicKey: Hex32,
        signature: Hex64.meta({
          description:
            'Ed25519, by the previous key, over the RFC 8785 form of `{from, purpose, to}`: both public keys (hex), and `halfkey/v1/identity-rotation`.',
        }),
      })
      .nullable()
      .meta({
        description:
          'The key that this one replaced, and its signature over this one. Null if this is the first key, or replaced a compromised one.',
      }),
  })
  .meta({ id: 'ServiceIdentity' })

export const MpcConfig = z
  .object({
    suite: z.string().meta({ example: 'DHKEM-X25519-HKDF-SHA256/HKDF-SHA256/AES-256-GCM' }),
    tenantId: z.string(),
    keys: z
      .array(z.object({ kid: z.string(), publicKey: Hex32, notAfter: Time }))
      .meta({ description: 'Newest first. Seal to the first key.' }),
    identity: ServiceIdentity,
    signature: z.string().meta({
      description:
        'A detached JWS (RFC 7515, appendix F; EdDSA) over the RFC 8785 form of the other fields, signed by a key of `/.well-known/jwks.json`. Whoever ends TLS can replace those keys: check `identity` against a pin.',
    }),
  })
  .meta({ id: 'MpcConfig' })
export type MpcConfig = z.infer<typeof MpcConfig>

const shareFields = {
  id: z.string().meta({ example: 'shr_01jb2m7x9kq4t8v6w0r3s5y1zr' }),
  walletId: z.string(),
  holder: Holder,
  index: z.int().meta({ example: 2 }),
  threshold: z.int().meta({ example: 2 }),
  total: z.int().meta({ example: 3 }),
  generation: z.int().meta({ example: 1 }),
  scheme: z.string().meta({ example: 'FROST-ED25519-SHA512-v1' }),
  curve: z.enum(['ed25519']),
  commitments: z.array(Hex32).meta({ description: 'Feldman commitments. The first is the wallet’s public key.' }),
  verifyingShare: Hex32.meta({ description: 'The share’s public key.' }),
  protection: z
    .enum(['service', 'client'])
    .meta({ description: 'Who can open the share: the service, or only the client that encrypted it.' }),
  status: z.enum(['pending', 'active', 'superseded', 'deleted']),
  stored: z
    .boolean()
    .meta({ description: 'Whether the share is stored here, encrypted. If not, only its holder has it.' }),
  lastUsedAt: Time.nullable(),
  ...Times,
}

/** The record of a share, without the share. */
export const KeyShare = z.object(shareFields).meta({ id: 'KeyShare' })
export type KeyShare = z.infer<typeof KeyShare>

export const KEY_SHARE_FIELDS = shareFields
