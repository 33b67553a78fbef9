import { z } from 'zod'
import { Paging, sortedBy, Time, Times } from '../../platform/http/route.ts'
import { IndexedProof, SealedToService } from '../custody/schema.ts'

const ID_CHARS_MAX = 255
const LEDGER_CHARS_MAX = 64

const PublicKey = z
  .string()
  .regex(/^[0-9a-f]{64}$/)
  .meta({
    description: 'The raw Ed25519 public key, hex.',
    example: 'd75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a',
    'x-expected': 'an Ed25519 public key as 64 lower-case hex characters',
  })

const Proof = z
  .string()
  .regex(/^(?:[0-9a-fA-F]{128}|[A-Za-z0-9+/]{86}==)$/)
  .meta({
    description: "The key's Ed25519 signature over the UTF-8 bytes of the challenge's `message`: hex or base64.",
    'x-expected': 'an Ed25519 signature as 128 hex characters or as base64 of 64 bytes',
  })

const Custody = z.enum(['embedded', 'shared', 'self_custody']).meta({
  description:
    'Who can sign: the service (`embedded`), service and user together (`shared`), or only the user (`self_custody`).',
})
const Status = z.enum(['pending', 'ready', 'failed', 'frozen']).meta({
  description: '`pending` until its party is on the ledger. A frozen wallet cannot sign.',
})
const Ledger = z.string().min(1).max(LEDGER_CHARS_MAX).meta({ example: 'embedded' })

/** A wallet, as in all responses. */
export const Wallet = z
  .object({
    id: z.string().meta({ example: 'wal_01jb2m7x9kq4t8v6w0r3s5y1zc' }),
    appId: z.string(),
    userId: z.string(),
    ledger: Ledger,
    custody: Custody,
    partyId: z.string().meta({
      description: "Its party on the ledger: the user's party for `embedded`, otherwise a party of the wallet's key.",
    }),
    address: z.string().nullable().meta({ description: 'Only on ledgers that have addresses instead of parties.' }),
    publicKey: PublicKey.nullable().meta({
      description:
        "The public key that verifies its signatures, hex: the ledger node's key for `embedded`, otherwise the wallet's key.",
    }),
    curve: z.enum(['ed25519']),
    threshold: z
      .int()
      .nullable()
      .meta({ description: 'How many shares sign together; null if the key is not shared.' }),
    total: z.int().nullable(),
    generation: z
      .int()
      .nullable()
      .meta({ description: 'The generation number of the shares. Each resharing adds one.' }),
    keyOrigin: z.enum(['dkg', 'client_dealt']).nullable().meta({
      description:
        'How a shared key was created: `dkg`, where nobody ever had the whole key, or `client_dealt`, where the client had it and split it.',
    }),
    exportedAt: Time.nullable().meta({
      description:
        'When enough to make the whole key was first released to the user. Anyone who has the key can sign without the service.',
    }),
    mpcEnabled: z.boolean().meta({ description: 'Whether the key exists only in shares.' }),
    status: Status,
    ...Times,
  })
  .meta({ id: 'Wallet' })
export type Wallet = z.infer<typeof Wallet>

/** A challenge that a user signs to prove that a key is theirs. */
export const WalletChallenge = z
  .object({
    challengeId: z.string().meta({ example: 'chl_01jb2m7x9kq4t8v6w0r3s5y1zn' }),
    message: z.string().meta({ description: 'Sign the UTF-8 bytes of this text with the key.' }),
    expiresAt: Time,
  })
  .meta({ id: 'WalletChallenge' })
export type WalletChallenge = z.infer<typeof WalletChallenge>

export const CreateWalletChallenge = z
  .strictObject({
    custody: z.enum(['shared', 'self_custody']),
    ledger: Ledger.optional().meta({ description: "Default: the service's first ledger." }),
    publicKey: PublicKey,
  })
  .meta({ id: 'CreateWalletChallenge' })
export type CreateWalletChallenge = z.infer<typeof CreateWalletChallenge>

export const CreateWallet = z
  .strictObject({
    custody: Custody.optional().meta({ description: 'Who signs (default `embedded`).' }),
    ledger: Ledger.optional().meta({
      description: "Default: the service's first ledger. With a challenge: the challenge's ledger.",
    }),
    publicKey: PublicKey.optional(),
    challengeId: z.string().max(ID_CHARS_MAX).optional(),
    proof: Proof.optional(),
    commitments: z
      .array(PublicKey)
      .min(1)
      .max(15)
      .optional()
      .meta({ description: 'For `shared`: the two Feldman commitments. The first is the public key.' }),
    sealed: SealedToService.optional().meta({ description: 'For `shared`: share 1, sealed to the service.' }),
    proofs: z.array(IndexedProof).max(2).optional().meta({
      description:
        'For `shared`: proofs of knowing share 2 and share 3. Without the proof for share 2, the wallet stays pending.',
    }),
  })
  .meta({
    id: 'CreateWallet',
    description:
      '`self_custody` and `shared` need `publicKey`, `challengeId` and `proof`. `shared` also needs `commitments` and `sealed`, for a key that the client has split. Prefer `POST /mpc/dkg`: with it, nobody ever has the whole key.',
  })
export type CreateWallet = z.infer<typeof CreateWallet>

export const ListWallets = z.strictObject({
  ...Paging,
  ...sortedBy('createdAt'),
  user_id: z.string().optional().meta({ description: 'Only the wallet of this user or guest.' }),
  custody: Custody.optional(),
  status: Status.optional(),
  ledger: z.string().optional(),
  app_id: z.string().optional().meta({ description: 'Only wallets of users of this app.' }),
})
export type ListWallets = z.infer<typeof ListWallets>
