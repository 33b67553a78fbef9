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
    '`release`: the service gives its share out. `combine`: it puts the key together and gives that out. `reshare`: new shares of the same key; the old ones count no more.',
})
export type Mode = z.infer<typeof Mode>

export const CreateRecoveryChallenge = z
  .strictObject({
    walletId: z.string().meta({ example: 'wal_01jb2m7x9kq4t8v6w0r3s5y1zc' }),
    purpose: Mode,
  })
  .meta({ id: 'CreateRecoveryChallenge' })
export type CreateRecoveryChallenge = z.infer<typeof CreateRecoveryChallenge>

/** What proofs and seals of a recovery are bound to. */
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
  .meta({ description: 'Feldman’s, two of them: as many as the threshold.' })

const Dealing = z
  .strictObject({
    from: Index.meta({ description: 'Which old share is dealt out.' }),
    commitments: Commitments,
    proof: Hex64.meta({ description: 'Of knowing what the first commitment is of: a signature by it.' }),
    sealedSubshare: SealedToService,
  })
  .meta({ id: 'ReshareDealing', description: 'A part of every new share, of one old one.' })

const SealedShare = z
  .strictObject({
    index: Index,
    holder: Holder.optional().meta({
      description:
        'As the seal is bound to; by default the stored record’s, else that of the index: `server`, `device`, then `recovery`.',
    }),
    ...SealedToService.shape,
  })
  .meta({ id: 'SealedShare', description: 'A share, sealed to one of the service’s keys (HPKE, RFC 9180).' })

export const Recover = z
  .strictObject({
    walletId: z.string().meta({ example: 'wal_01jb2m7x9kq4t8v6w0r3s5y1zc' }),
    mode: Mode.optional().meta({ description: 'By default `release`.' }),
    challengeId: z
      .string()
      .max(ID_CHARS_MAX)
      .optional()
      .meta({ description: 'Of `POST /mpc/challenge`, for this mode; for all but the confirmation of a resharing.' }),
    generation: z
      .int()
      .min(1)
      .max(1_000_000)
      .optional()
      .meta({ description: 'For `release` and `combine` in self-custody: of which shares, if not the challenge’s.' }),
    proofs: z.array(IndexedProof).max(SHARES_MAX).optional().meta({
      description: 'For `release`: of other shares, one fewer than the threshold. To confirm: of new share 3.',
    }),
    recipientPublicKey: EncryptionPublicKey.optional().meta({ description: 'For `release` and `combine`.' }),
    shares: z.array(SealedShare).max(SHARES_MAX).optional().meta({ description: 'For `combine`.' }),
    set: z
      .array(Index)
      .max(SHARES_MAX)
      .optional()
      .meta({ description: 'For `reshare`: which old shares deal, two of them.', example: [1, 2] }),
    participants: z
      .array(Participant)
      .min(2)
      .max(2)
      .optional()
      .meta({ description: 'For `reshare`: who gets the new shares 2 (`device`) and 3 (`recovery`).' }),
    dealings: z
      .array(Dealing)
      .max(SHARES_MAX)
      .optional()
      .meta({ description: 'For `reshare`: of each old share in the set but the service’s.' }),
    commitments: NonceCommitments.optional().meta({
      description: 'For `reshare`: to the nonces by which the new share 2 is going to confirm.',
    }),
    reshareId: z.string().max(ID_CHARS_MAX).optional().meta({ description: 'To confirm a resharing.' }),
    signature: Hex64.optional().meta({
      description: 'To confirm: the wallet key’s, by the new shares 1 and 2, over the transcript’s 32 bytes.',
    }),
  })
  .meta({
    id: 'Recover',
    description:
      '`release` needs `challengeId`, `proofs`, `recipientPublicKey`; `combine` `challengeId`, `shares`, `recipientPublicKey`; `reshare` `challengeId`, `set`, `participants`, `dealings`, `commitments`, and to confirm `reshareId`, `signature`, `proofs`.',
  })
export type Recover = z.infer<typeof Recover>

const SealedKey = z
  .object({ format: z.enum(['ed25519-scalar-le']), ...SealedToClient.shape })
  .meta({ id: 'SealedKey', description: 'The whole key: a secret scalar, 32 bytes, little-endian; no RFC 8032 seed.' })

const OwnDealing = z
  .object({
    from: z.int(),
    commitments: z.array(z.string()),
    proof: z.string(),
    sealedSubshares: z.array(z.object({ to: z.int(), ...SealedToClient.shape })),
  })
  .meta({ id: 'ServiceDealing', description: 'A part of every new share, of the service’s old one.' })

/** What came of a step; what is not of it is null. */
export const Recovery = z
  .object({
    mode: Mode,
    walletId: z.string(),
    publicKey: z.string().meta({ description: 'Hex.' }),
    generation: z.int().meta({ description: 'Of the shares; of a resharing, the new one.' }),
    threshold: z.int(),
    total: z.int(),
    commitments: z.array(z.string()).meta({ description: 'Feldman’s, hex; the first is the public key.' }),
    index: z.int().nullable().meta({ description: '`release`: of the share.' }),
    holder: Holder.nullable(),
    sealedShare: SealedToClient.nullable(),
    sealedKey: SealedKey.nullable().meta({ description: '`combine`.' }),
    reshareId: z.string().nullable().meta({ description: '`reshare`.', example: null }),
    dealings: z
      .array(OwnDealing)
      .nullable()
      .meta({ description: '`reshare`: the service’s own, where its old share is in the set.' }),
    transcriptHash: z.string().nullable().meta({ description: '`reshare`: what the new shares are to sign, hex.' }),
    serverCommitments: NonceCommitments.nullable(),
    serverSignatureShare: z.string().nullable(),
    expiresAt: Time.nullable().meta({ description: '`reshare`: confirm it until then, or nothing has changed.' }),
    shares: z.array(KeyShare).nullable().meta({ description: 'A confirmed resharing: the records of the new shares.' }),
  })
  .meta({ id: 'Recovery' })
export type Recovery = z.infer<typeof Recovery>
