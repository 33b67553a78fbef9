import type { Id } from '../../platform/ids.ts'
import { isLoopback } from '../../platform/security/web-origin.ts'
import type { WalletType } from '../../tenancy/apps/external-wallets-schema.ts'

/** What a message to sign says. */
export interface MessageParts {
  type: WalletType
  /** The address with its checksum, or the public key. */
  subject: string
  /** Of an Ethereum account; null for an Ed25519 key, which belongs to no chain. */
  chainId: number | null
  /** Where the user signs in, as browsers write it. */
  origin: string
  /** Whose account the key is linked to; null for a sign-in. */
  linkTo: Id<'usr'> | null
  nonce: string
  issuedAt: Date
  expiresAt: Date
}

const ACCOUNTS = { eip4361: 'Ethereum account', ed25519: 'Ed25519 key' } as const

/** Different words, so that nobody takes one for the other. Only characters of RFC 3986 and spaces, as EIP-4361 demands. */
const statementOf = (linkTo: Id<'usr'> | null): string =>
  linkTo === null
    ? 'Sign in. This costs nothing and moves nothing.'
    : `Link this key to the account ${linkTo}. From then on, whoever has the key can sign in to it.`

/** The authority of EIP-4361: wallets compare it with the page that asks. Wallets assume https, so only http is named. */
function domainOf(origin: string): string {
  const url = new URL(origin)
  return url.protocol === 'http:' && isLoopback(url) ? `http://${url.host}` : url.host
}

/**
 * The text that a user signs: for an Ethereum account that of EIP-4361. For an Ed25519 key it has the same lines without a chain;
 * wallets after CIP-0103 sign such a text by `signMessage`.
 */
export function messageOf(parts: MessageParts): string {
  const { type, subject, chainId, origin, linkTo, nonce, issuedAt, expiresAt } = parts
  return [
    `${domainOf(origin)} wants you to sign in with your ${ACCOUNTS[type]}:`,
    subject,
    '',
    statementOf(linkTo),
    '',
    `URI: ${origin}`,
    'Version: 1',
    ...(chainId === null ? [] : [`Chain ID: ${chainId}`]),
    `Nonce: ${nonce}`,
    `Issued At: ${issuedAt.toISOString()}`,
    `Expiration Time: ${expiresAt.toISOString()}`,
  ].join('\n')
}
