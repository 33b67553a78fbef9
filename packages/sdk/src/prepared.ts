import type { Command, Effect } from './models.ts'

/** A prepared transaction of the embedded ledger, as its bytes say it. */
export interface PreparedTransaction {
  tenantId: string
  /** The delegated session's id, a slash, and the `commandId` of the call. */
  commandId: string
  /** The party that acts, and the only one: the wallet's. */
  actAs: string
  commands: Command[]
  /** Everything that it does. */
  effects: Effect[]
  /** ISO 8601; past it the transaction cannot happen. */
  expiresAt: string
  /** What the wallet's key is to sign: 32 bytes, computed here. */
  digest: Uint8Array<ArrayBuffer>
}

const VERSION = 'halfkey/transaction/v1'
const DIGEST_TAG = new TextEncoder().encode('halfkey/transaction-digest/v1\0')

function bytesOf(base64: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(atob(base64), (character) => character.charCodeAt(0))
}

function documentIn(bytes: Uint8Array): Omit<PreparedTransaction, 'digest'> {
  const text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
  const { version, ...document } = JSON.parse(text) as Omit<PreparedTransaction, 'digest'> & { version?: unknown }
  if (version !== VERSION) throw new TypeError('It has another version')
  return document
}

function read(preparedTransaction: string) {
  try {
    const bytes = bytesOf(preparedTransaction)
    return { bytes, document: documentIn(bytes) }
  } catch (cause) {
    throw new TypeError('This is no prepared transaction of the embedded ledger', { cause })
  }
}

/**
 * Reads what a signing request asks to sign, out of its bytes and nothing else: look at `effects` and sign `digest`, by
 * Ed25519 (RFC 8032). So a service that describes one transaction cannot get another one signed.
 * @param preparedTransaction base64, as in `signingRequest`
 * @throws TypeError when it is no prepared transaction of the embedded ledger
 */
export async function readPreparedTransaction(preparedTransaction: string): Promise<PreparedTransaction> {
  const { bytes, document } = read(preparedTransaction)
  const tagged = new Uint8Array(DIGEST_TAG.length + bytes.length)
  tagged.set(DIGEST_TAG)
  tagged.set(bytes, DIGEST_TAG.length)
  return { ...document, digest: new Uint8Array(await crypto.subtle.digest('SHA-256', tagged)) }
}
