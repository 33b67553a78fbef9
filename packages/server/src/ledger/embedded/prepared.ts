import { createHash } from 'node:crypto'
import { canonicalJson } from '../../core/canonical-json.ts'
import type { Id } from '../../core/ids.ts'
import { type Command, type Effect, LedgerError, type Prepared } from '../ledger.ts'
import { flowsOf } from './token-templates.ts'

const VERSION = 'halfkey/transaction/v1'
const DIGEST_TAG = 'halfkey/transaction-digest/v1\0'
const CONTRACT_TAG = 'halfkey/contract-id/v1\0'
const BYTES_MAX = 4 * 1024 * 1024

/** A prepared transaction as it stands in its bytes: the RFC 8785 form of this. */
export interface Document {
  version: typeof VERSION
  tenantId: Id<'ten'>
  commandId: string
  actAs: string
  commands: Command[]
  effects: Effect[]
  /** 32 random bytes as hex: contract ids follow from them, and nobody guesses them. */
  seed: string
  expiresAt: string
}

/** What this ledger reads out of prepared bytes. */
export interface Decoded extends Prepared {
  tenantId: Id<'ten'>
  seed: string
}

/** `00` and 64 hex digits: SHA-256 over a tag, the seed and the number of the created contract. */
export function contractIdOf(seed: string, n: number): string {
  const number = Buffer.alloc(4)
  number.writeUInt32BE(n)
  return `00${createHash('sha256').update(CONTRACT_TAG).update(seed, 'hex').update(number).digest('hex')}`
}

/** SHA-256 over a domain tag and the bytes: never the digest of anything else that a key signs. */
export function digestOf(bytes: Buffer): Buffer {
  return createHash('sha256').update(DIGEST_TAG).update(bytes).digest()
}

/** Writes the bytes that are signed. */
export function encode(document: Omit<Document, 'version'>): Buffer {
  return Buffer.from(canonicalJson({ version: VERSION, ...document }))
}

function parse(text: string): Partial<Document> | null {
  try {
    return JSON.parse(text)
  } catch {
    return null
  }
}

/** Reads bytes that may come from anywhere. @throws LedgerError prepared_invalid unless they are a transaction in canonical form */
export function decode(bytes: Buffer): Decoded {
  const text = bytes.length <= BYTES_MAX ? bytes.toString() : ''
  const document = parse(text)
  // One form for one meaning: what is signed cannot be written in a second way.
  if (document?.version !== VERSION || canonicalJson(document) !== text)
    throw new LedgerError('prepared_invalid', 'This is not a prepared transaction of this ledger.')
  const { tenantId, commandId, actAs, commands, effects, seed, expiresAt } = document as Document
  return {
    bytes,
    digest: digestOf(bytes),
    tenantId,
    commandId,
    actAs,
    commands,
    effects,
    flows: flowsOf(effects),
    seed,
    expiresAt: new Date(expiresAt),
  }
}
