import type { Command, Effect } from './models.ts'

/** A prepared transaction of the embedded ledger, read from its bytes. */
export interface PreparedTransaction {
  tenantId: string
  /** The delegated session's id, a slash, and the `commandId` of the call. */
  commandId: string
  /** The only party that acts: the wallet's. */
  actAs: string
  commands: Command[]
  /** Everything that the transaction does. */
  effects: Effect[]
  /** ISO 8601; afterwards the transaction cannot happen. */
  expiresAt: string
  /** What the wallet's key signs: 32 bytes, computed here. */
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
  if (version !== VERSION) throw new TypeError(`Expected version ${VERSION}`)
  return document
}

function read(preparedTransaction: string) {
  try {
    const bytes = bytesOf(preparedTransaction)
    return { bytes, document: documentIn(bytes) }
  } catch (cause) {
    throw new TypeError('This is not a prepared transaction of the embedded ledger', { cause })
  }
}

/**
 * Reads a signing request from the bytes to sign and nothing else: check `effects`, then sign `digest` with Ed25519
 * (RFC 8032). A service that describes one transaction can then not get another one signed.
 * @param preparedTransaction base64, as in `signingRequest`
 * @throws TypeError when it is not a prepared transaction of the embedded ledger
 */
export async function readPreparedTransaction(preparedTransaction: string): Promise<PreparedTransaction> {
  const { bytes, document } = read(preparedTransaction)
  const tagged = new Uint8Array(DIGEST_TAG.length + bytes.length)
  tagged.set(DIGEST_TAG)
  tagged.set(bytes, DIGEST_TAG.length)
  return { ...document, digest: new Uint8Array(await crypto.subtle.digest('SHA-256', tagged)) }
}
