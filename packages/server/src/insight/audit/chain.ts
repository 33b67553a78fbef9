import { hash } from 'node:crypto'
import { z } from 'zod'
import { keyFingerprint } from '../../platform/ports/party.ts'
import { isSignedBy } from '../../platform/ports/signature.ts'
import { canonicalJson } from '../../platform/security/canonical-json.ts'

/** Part of every hashed entry: another form of entry would be another chain. */
const ENTRY_FORMAT = 'halfkey-audit-entry/1'
/** Part of every signed head: the tenant's proof key also signs heads of the ledger, and checkpoints. */
const HEAD_FORMAT = 'halfkey-audit-head/2'
/** The same in heads of releases that signed them by the key of the tenant's ledger node. */
const FORMER_HEAD_FORMAT = 'halfkey-audit-head/1'
/** Of an address's salt, which is random for each entry. */
export const SALT_BYTES = 16

const hex = (bytes: number) => z.string().regex(new RegExp(`^[0-9a-f]{${2 * bytes}}$`))
const OrNull = z.string().nullable()

/** An entry of the chain, as files hold it: bytes are hexadecimal, times ISO 8601 in UTC with milliseconds. */
export const AuditRecord = z.strictObject({
  seq: z.int(),
  id: z.string(),
  at: z.string(),
  actor: z.string(),
  keyId: OrNull,
  action: z.string(),
  target: z.string(),
  userId: OrNull,
  appId: OrNull,
  eventId: OrNull,
  requestId: OrNull,
  /** Address and salt are null if there was none, or if it was erased. */
  address: OrNull,
  addressSalt: hex(SALT_BYTES).nullable(),
  addressHash: hex(32).nullable(),
  /** Null for the first entry. */
  previousHash: hex(32).nullable(),
  hash: hex(32),
})
export type AuditRecord = z.infer<typeof AuditRecord>

/** An act that is not in the chain yet. */
export type NewAct = Omit<AuditRecord, 'seq' | 'addressSalt' | 'addressHash' | 'previousHash' | 'hash'>

/** A place in the chain; `hash` is null before the first entry. */
export interface ChainPlace {
  seq: number
  hash: string | null
}

/** The chain's end, signed with Ed25519. */
export const SignedHead = z.strictObject({ seq: z.int(), hash: hex(32), signedAt: z.string(), signature: hex(64) })
export type SignedHead = z.infer<typeof SignedHead>

/** Raw keys whose signatures of heads count. */
export interface HeadKeys {
  /** Of the tenant's ledger node. It signed the heads of earlier releases, and names the proof key. */
  node: Buffer
  /** Signs heads. Null if the tenant has none yet. */
  proof: Buffer | null
}

/** A log that was found to be unaltered. */
export interface WholeLog {
  tenantId: string
  entries: number
  /** Its end, to be noted elsewhere. Null without entries. */
  head: { seq: number; hash: string } | null
  /** Fingerprint of the node's key, which signed the head or named the key that did: the ids of the tenant's parties end with it. */
  signer: string
}

/** The hash that stands for an address in the chain; it does not reveal the address without the salt, 32 hex digits. */
function hashAddress(salt: string, address: string): string {
  return hash('sha256', salt + address)
}

/** What an entry keeps beside an address. `salt`: hexadecimal. */
export function sealAddress(address: string | null, salt: string): Pick<AuditRecord, 'addressSalt' | 'addressHash'> {
  if (address === null) return { addressSalt: null, addressHash: null }
  return { addressSalt: salt, addressHash: hashAddress(salt, address) }
}

/** SHA-256 over the RFC 8785 form of an entry, with the previous entry's hash, without address and salt. */
export function hashEntry(tenantId: string, entry: Omit<AuditRecord, 'hash'>): string {
  const { seq, id, at, actor, keyId, action, target, userId, appId, eventId, requestId } = entry
  const { addressHash, previousHash } = entry
  // JSON.stringify gives the RFC 8785 form here: names are sorted, values are texts, integers and null.
  const chained = {
    action,
    actor,
    addressHash,
    appId,
    at,
    eventId,
    format: ENTRY_FORMAT,
    id,
    keyId,
    previousHash,
    requestId,
    seq,
    target,
    tenantId,
    userId,
  }
  return hash('sha256', JSON.stringify(chained))
}

/** The bytes that the signature of a chain's end covers. */
export function headMessage(tenantId: string, head: Omit<SignedHead, 'signature'>): Buffer {
  const { seq, hash, signedAt } = head
  return Buffer.from(canonicalJson({ format: HEAD_FORMAT, tenantId, seq, hash, signedAt }))
}

/** The same in releases that signed by the node's key. */
export function formerHeadMessage(tenantId: string, head: Omit<SignedHead, 'signature'>): Buffer {
  const { seq, hash, signedAt } = head
  return Buffer.from(canonicalJson({ format: FORMER_HEAD_FORMAT, tenantId, seq, hash, signedAt }))
}

/** Whether the tenant's keys signed a chain's end. */
export function isSignedHead({ node, proof }: HeadKeys, tenantId: string, head: SignedHead): boolean {
  const signature = Buffer.from(head.signature, 'hex')
  if (proof !== null && isSignedBy(proof, headMessage(tenantId, head), signature)) return true
  // Until the log gets its next entry, and in exports.
  return isSignedBy(node, formerHeadMessage(tenantId, head), signature)
}

/** The first thing that is wrong with a chain. The message names the entry. */
export class AuditFault extends Error {}

/** `entry 5 (aud_…)` */
export const nameOf = (record: Pick<AuditRecord, 'seq' | 'id'>): string => `entry ${record.seq} (${record.id})`

function checkAddress(record: AuditRecord): 'kept' | 'none' | 'erased' {
  const { address, addressSalt, addressHash } = record
  if (addressHash === null && address === null && addressSalt === null) return 'none'
  if (addressHash !== null && address === null && addressSalt === null) return 'erased'
  if (addressHash !== null && address !== null && addressSalt !== null)
    if (hashAddress(addressSalt, address) === addressHash) return 'kept'
  throw new AuditFault(`${nameOf(record)} was altered: its network address is not the one that was recorded.`)
}

/** Follows a chain from its first entry and throws at the first thing that is wrong with it. */
export interface ChainCheck {
  /** Checks the next entry, in the order of `seq`. @throws AuditFault */
  take(record: AuditRecord): void
  /** Checks, after the last entry, that the chain ends where its signed head says. @throws AuditFault */
  end(head: SignedHead | null): WholeLog
}

/** What a chain is checked against. */
export interface ChainCheckOptions {
  tenantId: string
  keys: HeadKeys
  /** Heads that were noted earlier: the only thing that shows that a chain was cut off together with its signed head. */
  noted: readonly ChainPlace[]
  /** Whether the tenant is so new that it need not have a head. */
  mayBeEmpty: boolean
}

/** The fault that entries between two numbers, both included, are missing. */
function missing(from: number, to: number, why: string): AuditFault {
  return new AuditFault(`${from === to ? `entry ${from} is` : `entries ${from} to ${to} are`} missing: ${why}.`)
}

function checkPlace(record: AuditRecord, last: AuditRecord | null): void {
  const expected = (last?.seq ?? 0) + 1
  if (record.seq > expected) {
    const after = last === null ? 'the first one is' : `after ${nameOf(last)} comes`
    throw missing(expected, record.seq - 1, `${after} ${nameOf(record)}`)
  }
  if (record.seq < expected) throw new AuditFault(`${nameOf(record)} was inserted: entry ${expected} should follow.`)
}

function checkHash(tenantId: string, record: AuditRecord, last: AuditRecord | null): void {
  const isWhole = hashEntry(tenantId, record) === record.hash
  const follows = record.previousHash === (last?.hash ?? null)
  if (isWhole && follows) return
  // The entry is unaltered, and once followed another one than stands before it now.
  if (isWhole && last !== null && record.previousHash !== null)
    throw new AuditFault(
      `${nameOf(last)} was altered or inserted, together with its hash: ${nameOf(record)} follows a different entry.`,
    )
  throw new AuditFault(`${nameOf(record)} was altered or inserted: its hash does not match its content.`)
}

function checkNoted({ noted }: ChainCheckOptions, record: AuditRecord): void {
  const other = noted.find(({ seq, hash }) => seq === record.seq && hash !== record.hash)
  if (other !== undefined)
    throw new AuditFault(
      `${nameOf(record)} or one before it was altered: its hash was ${other.hash} when you noted it.`,
    )
}

function checkHead(options: ChainCheckOptions, last: AuditRecord | null, head: SignedHead | null): void {
  if (head === null) {
    if (last === null && options.mayBeEmpty) return
    if (last === null)
      throw new AuditFault('The log has no entries and no signed head: they were removed, or never written.')
    throw new AuditFault(`${nameOf(last)} is the last entry, but no signed head confirms it.`)
  }
  if (!isSignedHead(options.keys, options.tenantId, head))
    throw new AuditFault(
      `The head names entry ${head.seq} as the last one, but its signature is not from the tenant's key: the head was altered, or somebody without that key rewrote entries.`,
    )
  const seq = last?.seq ?? 0
  if (seq < head.seq) throw missing(seq + 1, head.seq, `the signed head counts ${head.seq} entries`)
  if (last !== null && seq > head.seq)
    throw new AuditFault(`${nameOf(last)} was inserted: according to the signed head, ${head.seq} is the last entry.`)
  if (last !== null && last.hash !== head.hash)
    throw new AuditFault(`${nameOf(last)} was altered, together with its hash: the signed head has a different hash.`)
}

/** Whether an action erases addresses: the deletion of a user, or of an app with its users. */
export const isDeletion = (action: string): boolean => action === 'user.deleted' || action === 'app.deleted'

/** Starts a check of one chain. Its memory grows with the number of users whose addresses were erased. */
export function checkChain(options: ChainCheckOptions): ChainCheck {
  let last: AuditRecord | null = null
  const deleted = new Set<string>()
  /** Erased entries of users whose deletion has not been read yet, by user. */
  const erased = new Map<string, AuditRecord>()

  function checkErasure(record: AuditRecord): void {
    const { action, target, userId, appId } = record
    if (isDeletion(action)) {
      deleted.add(target)
      erased.delete(target)
      if (action === 'app.deleted')
        for (const [id, of] of erased) if (of.appId === target && of.userId !== null) erased.delete(id)
    }
    if (checkAddress(record) !== 'erased') return
    const isMeant = userId !== null && (deleted.has(userId) || deleted.has(appId ?? ''))
    if (!isMeant && !erased.has(userId ?? '')) erased.set(userId ?? '', record)
  }

  return {
    take(record) {
      checkPlace(record, last)
      checkHash(options.tenantId, record, last)
      checkErasure(record)
      checkNoted(options, record)
      last = record
    },
    end(head) {
      checkHead(options, last, head)
      const { tenantId, keys, noted } = options
      const seq = last?.seq ?? 0
      const reached = Math.max(0, ...noted.map((place) => place.seq))
      if (reached > seq) throw missing(seq + 1, reached, `the log reached entry ${reached} when you noted its head`)
      const [first] = erased.values()
      if (first !== undefined)
        throw new AuditFault(
          `${nameOf(first)} was altered: its network address is missing, although its user was not deleted.`,
        )
      return { tenantId, entries: seq, head: last && { seq, hash: last.hash }, signer: keyFingerprint(keys.node) }
    },
  }
}
