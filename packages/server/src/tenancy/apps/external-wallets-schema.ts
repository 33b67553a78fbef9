import { z } from 'zod'

const expected = (text: string) => ({ 'x-expected': text })

/** Keys of external wallets: of an Ethereum account (EIP-4361), or Ed25519. */
export const WALLET_TYPES = ['eip4361', 'ed25519'] as const
export type WalletType = (typeof WALLET_TYPES)[number]

const CHAINS_MAX = 50

/** Sign-in with keys of external wallets. */
export const ExternalWallets = {
  types: z
    .array(z.enum(WALLET_TYPES))
    .max(WALLET_TYPES.length)
    .meta({
      description:
        'Which keys of external wallets sign users in: that of an Ethereum account (`eip4361`), or an Ed25519 key (`ed25519`). Empty: none.',
      example: ['eip4361'],
      uniqueItems: true,
      ...expected('a list of different types: eip4361, ed25519'),
    }),
  signUp: z.boolean().meta({ description: 'Whether a key that no user has creates a user.' }),
  chainIds: z
    .array(z.int().min(1))
    .min(1)
    .max(CHAINS_MAX)
    .meta({
      description:
        'The chains (EIP-155) that a message to sign may name, the default first. An account is the same user on all of them.',
      example: [1],
      uniqueItems: true,
      ...expected(`a list of 1 to ${CHAINS_MAX} different chain ids`),
    }),
}
