import { z } from 'zod'
import { Time } from '../../platform/http/route.ts'
import {
  base64Url,
  EncryptionPublicKey,
  Hex32,
  Hex64,
  Holder,
  KEY_SHARE_FIELDS,
  SealedToService,
} from '../../wallets/custody/schema.ts'

const expected = (text: string) => ({ 'x-expected': text })

const ID_CHARS_MAX = 255
const GENERATION_MAX = 1_000_000
const SALT_BYTES_MAX = 64
const WRAPPED_BYTES_MAX = 256
const WRAPS_MAX = 20

const Generation = z.int().min(1).max(GENERATION_MAX)
const GenerationText = z
  .string()
  .regex(/^[1-9]\d{0,6}$/)
  .meta({
    description: 'Generation of the shares. Default: the current one.',
    ...expected('a whole number from 1'),
  })

/** A data key, wrapped with a passkey or a password. Its fields depend on `alg`. */
const Wrap = z
  .strictObject({
    credentialId: z
      .string()
      .min(1)
      .max(1024)
      .regex(/^[A-Za-z0-9_-]+$/)
      .optional()
      .meta({ description: 'For a passkey: its credential id.', ...expected('1 to 1024 characters of base64url') }),
    rpId: z.string().min(1).max(253).optional().meta({ description: 'For a passkey: the id of its relying party.' }),
    prfSalt: z
      .string()
      .regex(/^[A-Za-z0-9_-]{43}$/)
      .optional()
      .meta({ description: 'For a passkey: the input of its PRF.', ...expected('32 bytes as base64url') }),
    salt: base64Url(SALT_BYTES_MAX).optional().meta({ description: 'For a password: the salt of Argon2id.' }),
    memoryKiB: z.int().min(65_536).max(4_194_304).optional().meta({ description: 'For a password: at least 64 MiB.' }),
    iterations: z.int().min(3).max(100).optional().meta({ description: 'For a password.' }),
    parallelism: z.int().min(1).max(16).optional().meta({ description: 'For a password.' }),
    wrappedDek: base64Url(WRAPPED_BYTES_MAX).meta({ description: 'The data key, sealed.' }),
  })
  .meta({
    id: 'KeyShareWrap',
    description:
      'One way to open the data key. For a passkey: `credentialId`, `rpId`, `prfSalt`. For a password: `salt`, `memoryKiB`, `iterations`, `parallelism`.',
  })
export type Wrap = z.infer<typeof Wrap>

/** A share that its client encrypted with a data key. The data key is wrapped in one or more ways. */
export const ClientCiphertext = z
  .strictObject({
    v: z.literal(1).meta(expected('1')),
    alg: z.enum(['prf-hkdf-sha256-aes256gcm', 'argon2id-aes256gcm']).meta({
      description: 'What opens it: a passkey’s PRF, or a password. A password can be guessed.',
    }),
    iv: z
      .string()
      .regex(/^[A-Za-z0-9_-]{16}$/)
      .meta({ description: 'Base64url.', ...expected('12 bytes as base64url') }),
    ct: base64Url(512).meta({ description: 'The share with its tag, base64url.' }),
    wraps: z.array(Wrap).min(1).max(WRAPS_MAX),
  })
  .meta({ id: 'ClientCiphertext', description: 'A share that the client encrypted (AES-256-GCM).' })
export type ClientCiphertext = z.infer<typeof ClientCiphertext>

export const StoreShare = z
  .strictObject({
    walletId: z.string().max(ID_CHARS_MAX),
    holder: Holder,
    index: z.int().min(1).max(15),
    threshold: z.int().min(2).max(15),
    total: z.int().min(2).max(15),
    generation: Generation.optional().meta({ description: 'Default: the wallet’s current generation, or 1.' }),
    scheme: z.enum(['FROST-ED25519-SHA512-v1']),
    curve: z.enum(['ed25519']),
    commitments: z.array(Hex32).min(1).max(15).meta({ description: 'Feldman commitments, as many as `threshold`.' }),
    sealed: SealedToService.optional(),
    clientCiphertext: ClientCiphertext.optional(),
    proof: Hex64.optional().meta({ description: 'With `clientCiphertext`: proof that the sender knows the share.' }),
  })
  .meta({ id: 'StoreKeyShare', description: 'Send either `sealed`, or `clientCiphertext` and `proof`.' })
export type StoreShare = z.infer<typeof StoreShare>

export const WalletParam = z.object({ walletId: z.string() })

export const ReadShares = z.strictObject({
  generation: GenerationText.optional(),
  recipient_public_key: EncryptionPublicKey.optional().meta({
    description: 'Seal the service’s share of a `self_custody` wallet to this key.',
  }),
})
export type ReadShares = z.infer<typeof ReadShares>

export const DeleteShares = z.strictObject({ generation: GenerationText.optional() })
export type DeleteShares = z.infer<typeof DeleteShares>

/** A wallet's shares of one generation. */
export const Shares = z
  .object({
    walletId: z.string(),
    generation: z.int().meta({ example: 1 }),
    threshold: z.int().meta({ example: 2 }),
    total: z.int().meta({ example: 3 }),
    shares: z.array(
      z.object({
        ...KEY_SHARE_FIELDS,
        clientCiphertext: z
          .object({
            v: z.int(),
            alg: ClientCiphertext.shape.alg,
            iv: z.string(),
            ct: z.string(),
            wraps: z.array(z.object(Wrap.shape)),
          })
          .nullable()
          .meta({
            description: 'As it was stored; null if the client cannot open the share or it is not stored here.',
          }),
        sealed: z
          .object({ enc: z.string(), ct: z.string() })
          .nullable()
          .meta({ description: 'The service’s share, sealed to `recipient_public_key`; null without that key.' }),
      }),
    ),
  })
  .meta({ id: 'KeyShares' })
export type Shares = z.infer<typeof Shares>

export const ReplaceWraps = z
  .strictObject({
    index: z.int().min(1).max(15),
    generation: Generation.optional(),
    wraps: z.array(Wrap).max(WRAPS_MAX),
  })
  .meta({ id: 'ReplaceKeyShareWraps', description: 'The new wraps of the share’s data key. They replace all others.' })
export type ReplaceWraps = z.infer<typeof ReplaceWraps>

export const DeletedShares = z
  .object({
    walletId: z.string(),
    deleted: z.int().meta({ description: 'How many records were deleted.', example: 3 }),
    remainingKnown: z.int().meta({
      description:
        'How many of these shares their holders are known to have: shares that were proven and never stored here.',
      example: 2,
    }),
    threshold: z.int().meta({ example: 2 }),
  })
  .meta({ id: 'DeletedKeyShares' })
export type DeletedShares = z.infer<typeof DeletedShares>

/** Who can currently sign with a wallet's key or rebuild it, according to the records. */
export const WalletCustody = z
  .object({
    walletId: z.string(),
    custody: z.enum(['embedded', 'shared', 'self_custody']),
    keyOrigin: z.enum(['dkg', 'client_dealt']).nullable(),
    publicKey: Hex32.nullable(),
    status: z.enum(['pending', 'ready', 'failed', 'frozen']),
    generation: z.int().nullable(),
    threshold: z.int().nullable(),
    total: z.int().nullable(),
    exportedAt: Time.nullable(),
    shares: z
      .array(
        z.object({
          index: z.int(),
          holder: Holder,
          protection: z.enum(['service', 'client']),
          status: z.enum(['pending', 'active', 'superseded', 'deleted']),
          stored: z.boolean(),
          openableBy: z.enum(['service', 'user', 'password', 'holder']).meta({
            description:
              'What opens the share: the service’s keys (`service`), the user’s passkeys (`user`), or a password that somebody knows or guesses (`password`). `holder`: it is not stored here, and its holder has it.',
          }),
        }),
      )
      .meta({ description: 'Pending and active shares of the current generation.' }),
    canSign: z
      .array(
        z.object({
          who: z.enum(['service', 'user', 'service_and_user', 'anyone_with_export']),
          how: z.string().meta({ example: 'Share 1 of the service with share 2 or 3 of the user.' }),
        }),
      )
      .meta({ description: 'Who can sign with the key or rebuild it. Empty if there are no records of it.' }),
    canSignIn: z
      .array(
        z.object({
          who: z.enum(['passkey', 'messenger', 'email', 'email_recovery', 'external_wallet', 'issuer']),
          issuer: z.string().nullable().meta({
            description: 'The issuer whose tokens sign the user in.',
            example: 'https://login.example.com/',
          }),
          reachesKey: z.boolean().meta({
            description:
              "Whether a session that begins like this may use the key's shares. False for an issuer, an email address and an external wallet if the account has a passkey or a second factor, which must then be shown too.",
          }),
          how: z
            .string()
            .meta({ example: 'A token of https://login.example.com/ and a passkey or the second factor.' }),
        }),
      )
      .meta({
        description:
          'Who could sign in as the user at present. An issuer could do so without the user, because it makes the tokens. So could whoever reads the mailbox of an email address, or has the key of an external wallet.',
      }),
    serviceAlone: z.boolean().meta({ description: 'Whether the service can open enough shares to sign alone.' }),
    userAlone: z
      .boolean()
      .meta({ description: 'Whether the user is known to have enough shares to sign without the service.' }),
    generationsDestroyed: z
      .int()
      .meta({ description: 'Number of generations whose shares are all superseded or deleted.' }),
  })
  .meta({ id: 'WalletCustody' })
export type WalletCustody = z.infer<typeof WalletCustody>
