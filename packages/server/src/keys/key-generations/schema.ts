import { z } from 'zod'
import { Time, Times } from '../../platform/http/route.ts'
import {
  EncryptionPublicKey,
  Hex32,
  Hex64,
  Holder,
  IndexedProof,
  SealedToClient,
  SealedToService,
  Subject,
} from '../../wallets/custody/schema.ts'
import { Wallet } from '../../wallets/wallets/schema.ts'

const LEDGER_CHARS_MAX = 64
const INDEX_MAX = 15

const Index = z.int().min(1).max(INDEX_MAX)
const DkgId = z.string().meta({ example: 'dkg_01jb2m7x9kq4t8v6w0r3s5y1zq' })
const TranscriptHash = Hex32.meta({
  description: 'SHA-256 of all first messages. Both sides must have seen the same messages.',
})

/** A participant other than the service, and the key that its parts are sealed to. */
const Participant = z
  .strictObject({ index: Index, holder: Holder, encryptionKey: EncryptionPublicKey })
  .meta({ id: 'DkgParticipant' })

/** A participant's first message. */
const Round1 = z
  .strictObject({
    index: Index,
    commitments: z
      .array(Hex32)
      .min(2)
      .max(2)
      .meta({ description: 'Commitments to its polynomial, as many as the threshold.' }),
    proofOfKnowledge: Hex64.meta({ description: 'Proof of knowing the polynomial’s constant: a Schnorr signature.' }),
  })
  .meta({ id: 'DkgRound1' })
export type Round1 = z.infer<typeof Round1>

export const BeginKeyGeneration = z
  .strictObject({
    ledger: z
      .string()
      .min(1)
      .max(LEDGER_CHARS_MAX)
      .optional()
      .meta({ description: "The wallet's ledger. Default: the service's first ledger.", example: 'embedded' }),
    participants: z
      .array(Participant)
      .min(2)
      .max(2)
      .meta({
        description: 'Index 2 is the device, index 3 is the recovery share.',
        example: [
          {
            index: 2,
            holder: 'device',
            encryptionKey: 'bc66a9cd0df8a644aa598c817111cc302ffef6a7125859e56bdbbffeef4a6c0e',
          },
          {
            index: 3,
            holder: 'recovery',
            encryptionKey: 'dcfcb1eb88045670754489a2c78a695f4f916c01c53b1287e803a36cbca76058',
          },
        ],
      }),
    round1: z
      .array(Round1)
      .min(2)
      .max(2)
      .meta({
        description: 'The first messages of both participants.',
        example: [
          {
            index: 2,
            commitments: [
              '7cf1ff2fd292304ff789044cbbb6c3b4fb6e8b8292963da5d259a81fa91bf617',
              '322d6f3bb2eeed3f511c09af64c1065970394f366f0d06b69dd84a1c8d38717a',
            ],
            proofOfKnowledge:
              '913b20aa37d8d0fa7eb148ca59a86b2a226e03c974d177cb6f5c1d67ddc22593861e39ec9d3a25cab5d42ac5f2e7bb5954c9b2b0fd2e34077b6cb3e21a917a0a',
          },
          {
            index: 3,
            commitments: [
              '41ec180a25ff9c88150cc2071af41fcd6cfb5ad557ee67c762838ccf59618178',
              '171dc577c5778774a86f8e417c8d2b623bf83ea552692b5fa5c4cd4620d41126',
            ],
            proofOfKnowledge:
              '7fb108949564e2d4805c273df8bac5ba248eca64feacfa3fa819577d8ba8d853e94fa7d8f0340cf7db23f153309afa7a59aff5417dd6af961268a67fb8398c02',
          },
        ],
      }),
  })
  .meta({ id: 'BeginKeyGeneration' })
export type BeginKeyGeneration = z.infer<typeof BeginKeyGeneration>

/** A key generation, as in all responses. */
export const KeyGeneration = z
  .object({
    dkgId: DkgId,
    status: z.enum(['round1', 'round2', 'confirmed', 'canceled', 'expired']).meta({
      description: 'The last completed round, or how it ended. Unless it is `confirmed`, it expires after ten minutes.',
    }),
    ledger: z.string(),
    subject: Subject.meta({ description: 'What every seal and proof of this key generation is bound to.' }),
    round1: Round1.meta({ description: 'The first message of the service, which is participant 1.' }),
    transcriptHash: TranscriptHash,
    publicKey: Hex32.nullable().meta({ description: 'The generated public key; null before the second round.' }),
    walletId: z.string().meta({
      description: 'Id of the wallet that it creates. The wallet exists once the key generation is confirmed.',
    }),
    expiresAt: Time,
    ...Times,
  })
  .meta({ id: 'KeyGeneration' })
export type KeyGeneration = z.infer<typeof KeyGeneration>

const places = { from: Index, to: Index }

export const SealedSubshares = z
  .strictObject({
    sealedSubshares: z
      .array(z.strictObject({ ...places, ...SealedToService.shape }).meta({ id: 'SubshareToService' }))
      .min(2)
      .max(2)
      .meta({ description: 'From 2 and from 3, both to 1.' }),
    transcriptHash: TranscriptHash,
  })
  .meta({ id: 'DkgRound2' })
export type SealedSubshares = z.infer<typeof SealedSubshares>

export const AnsweredSubshares = z
  .object({
    sealedSubshares: z
      .array(z.object({ ...places, ...SealedToClient.shape }).meta({ id: 'SubshareToClient' }))
      .meta({ description: 'From 1 to 2 and to 3, each sealed to that participant’s key.' }),
    transcriptHash: TranscriptHash,
  })
  .meta({ id: 'DkgRound2Answer' })
export type AnsweredSubshares = z.infer<typeof AnsweredSubshares>

export const ConfirmKeyGeneration = z
  .strictObject({
    publicKey: Hex32,
    verifyingShares: z
      .array(z.strictObject({ index: Index, verifyingShare: Hex32 }))
      .min(3)
      .max(3)
      .meta({ description: 'The public keys of all three shares.' }),
    proofs: z
      .array(IndexedProof)
      .min(2)
      .max(2)
      .meta({ description: 'Proofs of knowing share 2 and share 3, bound to this key generation and its transcript.' }),
    transcriptHash: TranscriptHash,
  })
  .meta({ id: 'ConfirmKeyGeneration' })
export type ConfirmKeyGeneration = z.infer<typeof ConfirmKeyGeneration>

export const ConfirmedKeyGeneration = z.object({ wallet: Wallet }).meta({ id: 'ConfirmedKeyGeneration' })
export type ConfirmedKeyGeneration = z.infer<typeof ConfirmedKeyGeneration>
