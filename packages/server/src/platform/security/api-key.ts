import { randomBytes } from 'node:crypto'
import { crc32 } from 'node:zlib'
import { equalSecrets, sha256 } from './crypto.ts'

/** All scopes. */
export const SCOPES = [
  '*',
  'apps:read',
  'apps:write',
  'users:read',
  'users:write',
  'users:act_as',
  'api_keys:read',
  'api_keys:write',
  'webhooks:read',
  'webhooks:write',
  'destinations:write',
  'events:publish',
  'event_types:read',
  'event_types:write',
  'subscribers:read',
  'subscribers:write',
  'auth:write',
  'guests:read',
  'guests:write',
  'delegated_sessions:read',
  'delegated_sessions:write',
  'delegated_sessions:execute',
  'payments:settle',
  'custom_domains:read',
  'custom_domains:write',
  'tenant:read',
  'tenant:write',
  'analytics:read',
  'billing:read',
  'billing:write',
  'wallets:read',
  'wallets:write',
  'audit:read',
  'emails:read',
  'members:read',
  'members:write',
] as const
export type Scope = (typeof SCOPES)[number]

/** Whether a set of scopes allows one: the scope itself, `*`, or `write` if `read` is needed. */
export function allows(scopes: readonly string[], wanted: string): boolean {
  if (scopes.includes('*') || scopes.includes(wanted)) return true
  return wanted.endsWith(':read') && scopes.includes(`${wanted.slice(0, -':read'.length)}:write`)
}

const BASE62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
const BODY_CHARS = 43
const CHECKSUM_CHARS = 6
const TOKEN = new RegExp(`^[0-9A-Za-z]{${BODY_CHARS + CHECKSUM_CHARS}}$`)

function base62(value: bigint, length: number): string {
  let rest = value
  let text = ''
  for (let i = 0; i < length; i += 1) {
    text = (BASE62[Number(rest % 62n)] as string) + text
    rest /= 62n
  }
  return text
}

function checksum(text: string): string {
  return base62(BigInt(crc32(text)), CHECKSUM_CHARS)
}

const TOKEN_BYTES = 32

/** A new token: the prefix, 32 random bytes in base 62, and a checksum, so that a typo fails without a look-up. */
function newToken(prefix: string, bytes: Buffer = randomBytes(TOKEN_BYTES)): string {
  const body = prefix + base62(BigInt(`0x${bytes.toString('hex')}`), BODY_CHARS)
  return body + checksum(body)
}

function isToken(prefix: string, text: string): boolean {
  if (!text.startsWith(prefix) || !TOKEN.test(text.slice(prefix.length))) return false
  const cut = text.length - CHECKSUM_CHARS
  return equalSecrets(Buffer.from(checksum(text.slice(0, cut))), Buffer.from(text.slice(cut)))
}

export type KeyType = 'secret' | 'publishable'
const PREFIXES: Record<KeyType, string> = { secret: 'hk_sk_', publishable: 'hk_pk_' }

/** A new API key: `hk_sk_…` or `hk_pk_…`. */
export function newApiKey(type: KeyType): string {
  return newToken(PREFIXES[type])
}

/** The key's type, or null for a text that cannot be a key. */
export function apiKeyType(key: string): KeyType | null {
  if (isToken(PREFIXES.secret, key)) return 'secret'
  return isToken(PREFIXES.publishable, key) ? 'publishable' : null
}

/** The stored hash of a key. Plain SHA-256 is enough: 256 random bits need no slow hash. */
export function apiKeyHash(key: string): Buffer {
  return sha256(key)
}

/** The parts of a key that may be shown later. */
export function apiKeyHint(key: string): { prefix: string; last4: string } {
  return { prefix: key.slice(0, 10), last4: key.slice(-4) }
}

const DELEGATE_PREFIX = 'dst_'

/** A new token of a delegated session, `dst_…`, and its stored hash. */
export function newDelegateToken(): { token: string; hash: Buffer } {
  const token = newToken(DELEGATE_PREFIX)
  return { token, hash: sha256(token) }
}

/** The stored hash of a delegated session's token; null for a text that cannot be one. */
export function delegateTokenHash(token: string): Buffer | null {
  return isToken(DELEGATE_PREFIX, token) ? sha256(token) : null
}

/** What an agent's client gets by OAuth. */
const AGENT_PREFIXES = { code: 'agc_', access: 'aga_', refresh: 'agr_' } as const
export type AgentTokenKind = keyof typeof AGENT_PREFIXES

/** A new code or token of an agent's connection. `bytes`: 32 secret ones that it is made of, random by default. */
export const newAgentToken = (kind: AgentTokenKind, bytes?: Buffer): string => newToken(AGENT_PREFIXES[kind], bytes)

/** Whether a text can be such a code or token at all. */
export const isAgentToken = (kind: AgentTokenKind, text: string): boolean => isToken(AGENT_PREFIXES[kind], text)

const PORTAL_PREFIX = 'prt_'

/** A new token of a portal link, `prt_…`, and its stored hash. */
export function newPortalToken(): { token: string; hash: Buffer } {
  const token = newToken(PORTAL_PREFIX)
  return { token, hash: sha256(token) }
}

/** The stored hash of a portal link's token; null for a text that cannot be one. */
export function portalTokenHash(token: string): Buffer | null {
  return isToken(PORTAL_PREFIX, token) ? sha256(token) : null
}
