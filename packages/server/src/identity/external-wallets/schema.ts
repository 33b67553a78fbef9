import { z } from 'zod'
import { Time } from '../../platform/http/route.ts'
import { WALLET_TYPES } from '../../tenancy/apps/external-wallets-schema.ts'

/** How addresses are written in requests: `0x` and 40 hexadecimal digits. */
export const ADDRESS_PATTERN = /^0x[0-9a-fA-F]{40}$/

/** How Ed25519 keys are written: 64 hexadecimal digits in lower case. One key has one spelling. */
const PUBLIC_KEY_PATTERN = /^[0-9a-f]{64}$/

const Type = z.enum(WALLET_TYPES).meta({
  description: '`eip4361`: an Ethereum account signs. `ed25519`: an Ed25519 key signs.',
})

export const StartWallet = z
  .strictObject({
    type: Type,
    address: z.string().regex(ADDRESS_PATTERN).optional().meta({
      description:
        'Of an Ethereum account: required for `eip4361`. In lower case, or with the checksum of EIP-55. The account must have a key: signatures of contracts (EIP-1271) are not accepted.',
      example: '0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed',
      'x-expected': '0x and 40 hexadecimal digits',
    }),
    publicKey: z.string().regex(PUBLIC_KEY_PATTERN).optional().meta({
      description: 'Of an Ed25519 key, as RFC 8032 encodes it: required for `ed25519`.',
      example: 'd75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a',
      'x-expected': '64 hexadecimal digits in lower case',
    }),
    chainId: z.int().min(1).optional().meta({
      description: 'One of `externalWallets.chainIds` of the app. Default: the first of them. For `eip4361` only.',
      example: 1,
    }),
    origin: z.string().min(1).max(2048).optional().meta({
      description:
        'The origin of the page where the user signs. Ethereum wallets compare it with the page that asks. Default: the origin of the browser that calls. Required if no browser calls. It must be an allowed origin or a verified domain of the app, or the origin of Halfkey.',
      example: 'https://shop.example.com',
    }),
    purpose: z.enum(['sign_in', 'link']).optional().meta({
      description:
        '`sign_in` (the default), or `link`: the key becomes an identity of the current user. Send its signature to `POST /auth/wallet/link`.',
    }),
    appId: z.string().optional().meta({ description: "Default: the key's app, or the tenant's default app." }),
  })
  .meta({ id: 'StartWallet' })
export type StartWallet = z.infer<typeof StartWallet>

/** What a wallet is asked to sign. */
export const ExternalWalletChallenge = z
  .object({
    challengeId: z.string().meta({ example: 'chl_01jb2m7x9kq4t8v6w0r3s5y1zv' }),
    type: Type,
    nonce: z.string().meta({ description: 'It is in the message.', example: 'f7Qm2ZsV0c9LxT4kBn8RwY' }),
    message: z.string().meta({
      description:
        'The text to sign, to the byte: with `personal_sign` (EIP-191), or its UTF-8 bytes with Ed25519 (RFC 8032).',
      example:
        'shop.example.com wants you to sign in with your Ethereum account:\n0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed\n…',
    }),
    expiresAt: Time.meta({ description: 'Until then it can be answered, once: five minutes.' }),
  })
  .meta({ id: 'ExternalWalletChallenge' })
export type ExternalWalletChallenge = z.infer<typeof ExternalWalletChallenge>

const answer = {
  challengeId: z.string().meta({ description: 'That of `POST /auth/wallet/start`.' }),
  signature: z
    .string()
    .regex(/^(?:0x)?[A-Za-z0-9+/]{80,130}={0,2}$/)
    .meta({
      description:
        'Of an Ethereum account 65 bytes, as `personal_sign` returns them. Of an Ed25519 key 64 bytes. In hexadecimal, with or without `0x`, or in base64.',
      example: `0x${'5a'.repeat(65)}`,
      'x-expected': 'a signature of 64 or 65 bytes, in hexadecimal or base64',
    }),
}

export const VerifyWallet = z.strictObject(answer).meta({ id: 'VerifyWallet' })
export type VerifyWallet = z.infer<typeof VerifyWallet>

export const LinkWallet = z.strictObject(answer).meta({ id: 'LinkWallet' })
export type LinkWallet = z.infer<typeof LinkWallet>
