import { createHash } from 'node:crypto'
import { isSignedBy } from '../../../platform/ports/signature.ts'
import { canonicalJson } from '../../../platform/security/canonical-json.ts'

const ENTRY_FORMAT = 'halfkey-ledger-entry/1'
/** Part of every signed head: the key also signs heads of the audit log. */
const HEAD_FORMAT = 'halfkey-ledger-head/1'

/** An update at its place in the tenant's chain. Hashes are hex. */
export interface ChainEntry {
  /** From 1, without gaps. */
  seq: number
  updateId: string
  offset: number
  hash: string
}

/** The end of a chain. `hash` is empty before the first entry. */
export interface LedgerHead {
  seq: number
  hash: string
  /** ISO 8601 in UTC with milliseconds. */
  signedAt: string
  /** Ed25519, hex. */
  signature: string
}

/** SHA-256 of an entry with the hash before it, hex. `previousHash` is empty for the first. */
export function hashEntry(
  tenantId: string,
  previousHash: string,
  { seq, updateId, offset }: Omit<ChainEntry, 'hash'>,
): string {
  const chained = { format: ENTRY_FORMAT, offset, previousHash, seq, tenantId, updateId }
  return createHash('sha256').update(canonicalJson(chained)).digest('hex')
}

/** The bytes that a head's signature covers. */
export function headMessage(tenantId: string, { seq, hash, signedAt }: Omit<LedgerHead, 'signature'>): Buffer {
  return Buffer.from(canonicalJson({ format: HEAD_FORMAT, hash, seq, signedAt, tenantId }))
}

/** Whether this raw key signed a head. */
export function isSignedHead(publicKey: Buffer, tenantId: string, head: LedgerHead): boolean {
  return isSignedBy(publicKey, headMessage(tenantId, head), Buffer.from(head.signature, 'hex'))
}
