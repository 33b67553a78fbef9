import { z } from 'zod'
import { Time } from '../../platform/http/route.ts'
import {
  EncryptionPublicKey,
  Hex32,
  Hex64,
  Holder,
  IndexedProof,
  KeyShare,
  NonceCommitments,
  SealedToClient,
  SealedToService,
  Subject,
} from '../../wallets/custody/schema.ts'

const ID_CHARS_MAX = 255
const SHARES_MAX = 15

const Index = z.int().min(1).max(SHARES_MAX)
const Mode = z.enum(['release', 'combine', 'reshare']).meta({
  description:
    '`release`: the service releases its share. `combine`: the service combines the key and releases it. `reshare`: creates new shares of the same key. After the confirmation, the service no longer accepts the old ones.',
})
export type Mode = z.infer<typeof Mode>

export const CreateRecoveryChallenge = z
  .strictObject({
    walletId: z.string().meta({ example: 'wal_01jb2m7x9kq4t8v6w0r3s5y1zc' }),
    purpose: Mode,
  })
  .meta({ id: 'CreateRecoveryChallenge' })
export type CreateRecoveryChallenge = z.infer<typeof CreateRecoveryChallenge>

/** The challenge that proofs and seals of a recovery are bound to. */
export const RecoveryChallenge = z
  .object({
    challengeId: z.string().meta({ example: 'chl_01jb2m7x9kq4t8v6w0r3s5y1zn' }),
    subject: Subject,
    expiresAt: Time,
  })
  .meta({ id: 'RecoveryChallenge' })
export type RecoveryChallenge = z.infer<typeof RecoveryChallenge>

const Participant = z
  .strictObject({ index: Index, holder: Holder, encryptionKey: EncryptionPublicKey })
  .meta({ id: 'ReshareParticipant', description: 'Who gets a new share, and the key that its parts are sealed to.' })

const Commitments = z
  .array(Hex32)
  .min(2)
  .max(2)
  .meta({ description: 'Feldman commitments: two, as many as the threshold.' })

const Dealing = z
  .strictObject({
    from: Index.meta({ description: 'Index of the old share that is dealt.' }),
    commitments: Commitments,
    proof: Hex64.meta({ description: 'Proof of knowing the secret of the first commitment: a signature by it.' }),
    sealedSubshare: SealedToService,
  })
  .meta({ id: 'ReshareDealing', description: 'Deals one old share: a part of each new share.' })

const SealedShare = z
  .strictObject({
    index: Index,
    holder: Holder.optional().meta({
      description:
        'The holder that the seal is bound to. Default: the holder in the stored record, or else the holder of the index: `server`, `device`, then `recovery`.',
    }),
    ...SealedToService.shape,
  })
  .meta({ id: 'SealedShare', description: 'A share, sealed to one of the service’s keys (HPKE, RFC 9180).' })

export const Recover = z
  .strictObject({
    walletId: z.string().meta({ example: 'wal_01jb2m7x9kq4t8v6w0r3s5y1zc' }),
    mode: Mode.optional().meta({ description: 'Default: `release`.' }),
    challengeId: z
      .string()
      .max(ID_CHARS_MAX)
      .optional()
      .meta({ description: 'From `POST /mpc/challenge`, for this mode. Needed except to confirm a resharing.' }),
    generation: z.int().min(1).max(1_000_000).optional().meta({
      description:
        'For `release` and `combine` of a `self_custody` wallet: generation of the shares. Default: the challenge’s.',
    }),
    proofs: z.array(IndexedProof).max(SHARES_MAX).optional().meta({
      description:
        'For `release`: proofs of knowing other shares, one fewer than the threshold. To confirm: the proof for new share 3.',
    }),
    recipientPublicKey: EncryptionPublicKey.optional().meta({ description: 'For `release` and `combine`.' }),
    shares: z.array(SealedShare).max(SHARES_MAX).optional().meta({ description: 'For `combine`.' }),
    set: z
      .array(Index)
      .max(SHARES_MAX)
      .optional()
      .meta({ description: 'For `reshare`: indices of the two old shares that are dealt.', example: [1, 2] }),
    participants: z
      .array(Participant)
      .min(2)
      .max(2)
      .optional()
      .meta({ description: 'For `reshare`: the recipients of the new shares 2 (`device`) and 3 (`recovery`).' }),
    dealings: z
      .array(Dealing)
      .max(SHARES_MAX)
      .optional()
      .meta({ description: 'For `reshare`: a dealing of each old share in `set`, except the service’s.' }),
    commitments: NonceCommitments.optional().meta({
      description: 'For `reshare`: commitments to the nonces with which the new share 2 will confirm.',
    }),
    reshareId: z.string().max(ID_CHARS_MAX).optional().meta({ description: 'To confirm: the id of the resharing.' }),
    signature: Hex64.optional().meta({
      description:
        'To confirm: a signature of the transcript’s 32 bytes by the wallet’s key, made with the new shares 1 and 2.',
    }),
  })
  .meta({
    id: 'Recover',
    description:
      '`release` needs `challengeId`, `proofs`, `recipientPublicKey`. `combine` needs `challengeId`, `shares`, `recipientPublicKey`. `reshare` needs `challengeId`, `set`, `participants`, `dealings`, `commitments`, and to confirm `reshareId`, `signature`, `proofs`.',
  })
export type Recover = z.infer<typeof Recover>

const SealedKey = z.object({ format: z.enum(['ed25519-scalar-le']), ...SealedToClient.shape }).meta({
  id: 'SealedKey',
  description: 'The whole key: a secret scalar of 32 bytes, little-endian. It is not an RFC 8032 seed.',
})

const OwnDealing = z
  .object({
    from: z.int(),
    commitments: z.array(z.string()),
    proof: z.string(),
    sealedSubshares: z.array(z.object({ to: z.int(), ...SealedToClient.shape })),
  })
  .meta({
    id: 'ServiceDealing',
    description:
      'A part of each new share: of the service’s old share, or of zero if `set` is without it. A dealing of zero changes all new shares and not the key. Its first commitment is the identity, and its proof is for the second.',
  })

/** The result of a step. Fields of other steps are null. */
export const Recovery = z
  .object({
    mode: Mode,
    walletId: z.string(),
    publicKey: z.string().meta({ description: 'Hex.' }),
    generation: z.int().meta({ description: 'Generation of the shares; for a resharing, the new one.' }),
    threshold: z.int(),
    total: z.int(),
    commitments: z.array(z.string()).meta({ description: 'Feldman commitments, hex. The first is the public key.' }),
    index: z.int().nullable().meta({ description: '`release`: index of the share.' }),
    holder: Holder.nullable(),
    sealedShare: SealedToClient.nullable(),
    sealedKey: SealedKey.nullable().meta({ description: '`combine`.' }),
    reshareId: z.string().nullable().meta({ description: '`reshare`.', example: null }),
    dealings: z.array(OwnDealing).nullable().meta({ description: '`reshare`: the service’s dealing.' }),
    transcriptHash: z
      .string()
      .nullable()
      .meta({ description: '`reshare`: the bytes that the new shares must sign, hex.' }),
    serverCommitments: NonceCommitments.nullable(),
    serverSignatureShare: z.string().nullable(),
    expiresAt: Time.nullable().meta({
      description: '`reshare`: confirm it before this time, otherwise nothing changes.',
    }),
    shares: z
      .array(KeyShare)
      .nullable()
      .meta({ description: 'For a confirmed resharing: the records of the new shares.' }),
  })
  .meta({ id: 'Recovery' })
export type Recovery = z.infer<typeof Recovery>
