import { z } from 'zod'
import { Time } from '../../platform/http/route.ts'
import { NonceCommitments } from '../custody/schema.ts'

/** More than one ledger asks for at once. */
const SIGNATURES_MAX = 10

const ToSign = z.object({
  payload: z.string().meta({
    description: 'What the key signs, hex. Compute it from `prepared` instead of trusting it.',
    example: '1220a8c5…',
  }),
  alg: z.enum(['ed25519']),
  by: z.string().meta({ description: 'The fingerprint of the key that signs.' }),
})

const CoSignature = z.object({
  serverCommitments: NonceCommitments,
  serverSignatureShare: z.string().meta({ description: '32 bytes, hex.' }),
})

/** How far a wallet's party is, and what its user has to sign. */
export const WalletOnboarding = z
  .object({
    walletId: z.string().meta({ example: 'wal_01jb2m7x9kq4t8v6w0r3s5y1zc' }),
    partyId: z.string(),
    ledger: z.string().meta({ example: 'embedded' }),
    state: z.enum(['pending', 'signature_required', 'ready', 'failed']).meta({
      description:
        '`pending`: the ledger is preparing or making the party, ask again. `signature_required`: sign each `payload` of `toSign`. `ready`: the party is on the ledger.',
    }),
    prepared: z
      .string()
      .nullable()
      .meta({ description: 'What the ledger prepared, base64, while a signature is required.' }),
    toSign: z.array(ToSign),
    coSignatures: z.array(CoSignature).nullable().meta({
      description:
        "For a `shared` wallet, if you sent commitments: the service's part of each signature, in the order of `toSign`.",
    }),
    expiresAt: Time.nullable().meta({ description: 'When it is prepared again if nobody has signed.' }),
  })
  .meta({ id: 'WalletOnboarding' })
export type WalletOnboarding = z.infer<typeof WalletOnboarding>

export const SignOnboarding = z
  .strictObject({
    commitments: z.array(NonceCommitments).min(1).max(SIGNATURES_MAX).optional().meta({
      description:
        'For a `shared` wallet, first: commitments to fresh nonces of your share for each entry of `toSign` (FROST, RFC 9591, round one).',
    }),
    signatures: z
      .array(
        z
          .string()
          .regex(/^(?:[0-9a-fA-F]{128}|[A-Za-z0-9+/]{86}==)$/)
          .meta({ 'x-expected': 'an Ed25519 signature as 128 hex characters or as base64 of 64 bytes' }),
      )
      .min(1)
      .max(SIGNATURES_MAX)
      .optional()
      .meta({ description: "The key's signatures, one for each entry of `toSign`, in its order." }),
  })
  .meta({ id: 'SignOnboarding', description: 'Either `commitments` or `signatures`.' })
export type SignOnboarding = z.infer<typeof SignOnboarding>
