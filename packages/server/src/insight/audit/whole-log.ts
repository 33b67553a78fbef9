import { keyFingerprint } from '../../platform/ports/party.ts'
import type { AuditRecord, ChainPlace, SignedHead } from './chain.ts'

/** A log that was found whole. */
export interface WholeLog {
  tenantId: string
  entries: number
  /** Where it ends: what to note somewhere else. Null where there is no entry yet. */
  head: { seq: number; hash: string } | null
  /** Fingerprint of the key that signed the head: what the tenant's parties end with. */
  signer: string
}

/** What is told of long work. */
export interface Watcher {
  begin(entries: number): void
  add(entries: number): void
}

/** A whole log as others describe it. */
export function wholeLog(tenantId: string, place: ChainPlace, publicKey: Buffer): WholeLog {
  const { seq, hash } = place
  return { tenantId, entries: seq, head: hash === null ? null : { seq, hash }, signer: keyFingerprint(publicKey) }
}

/** A log's beginning, a portion of its entries, or its end. */
export type LogPart =
  | { kind: 'header'; tenantId: string; publicKey: Buffer; at: Date }
  | { kind: 'entries'; records: AuditRecord[] }
  | { kind: 'head'; head: SignedHead | null }
