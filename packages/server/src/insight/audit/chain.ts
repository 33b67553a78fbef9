import { hash } from 'node:crypto'
import { isSignedBy } from '../../platform/ports/signature.ts'
import { canonicalJson } from '../../platform/security/canonical-json.ts'

/** Stands in what is hashed: another form of entry is another chain. */
const ENTRY_FORMAT = 'halfkey-audit-entry/1'
/** Stands in what is signed: the node's key signs other things too. */
const HEAD_FORMAT = 'halfkey-audit-head/1'
/** Of an address; as many random ones for each. */
export const SALT_BYTES = 16

/** What is recorded of an act. */
export interface Act {
  id: string
  /** ISO 8601, UTC, milliseconds. */
  at: string
  actor: string
  keyId: string | null
  action: string
  target: string
  userId: string | null
  appId: string | null
  eventId: string | null
  requestId: string | null
}

/** An entry of the chain, as files hold it: bytes are hexadecimal. */
export interface AuditRecord extends Act {
  seq: number
  /** Address and salt are null where there never was one and where it was erased. */
  address: string | null
  addressSalt: string | null
  addressHash: string | null
  /** Null for the first entry. */
  previousHash: string | null
  hash: string
}

/** A place in the chain. */
export interface ChainPlace {
  seq: number
  /** Null before the first entry. */
  hash: string | null
}

/** The chain's end, signed. */
export interface SignedHead {
  seq: number
  hash: string
  signedAt: string
  /** Ed25519, hexadecimal. */
  signature: string
}

/** What stands in the chain for an address; the address cannot be found by it without the salt, 32 hexadecimal digits. */
function hashAddress(salt: string, address: string): string {
  return hash('sha256', salt + address)
}

/** An address as an entry keeps it. `salt`: hexadecimal. */
export function sealAddress(
  address: string | null,
  salt: string,
): Pick<AuditRecord, 'address' | 'addressSalt' | 'addressHash'> {
  if (address === null) return { address, addressSalt: null, addressHash: null }
  return { address, addressSalt: salt, addressHash: hashAddress(salt, address) }
}

/** SHA-256 over the RFC 8785 form of an entry, the hash of the one before it included; address and salt are not in it. */
export function hashEntry(tenantId: string, entry: Omit<AuditRecord, 'hash'>): string {
  const { seq, id, at, actor, keyId, action, target, userId, appId, eventId, requestId } = entry
  const { addressHash, previousHash } = entry
  // With its names in order, and nothing but texts, whole numbers and null in it, JSON is in that form as it is written.
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

/** Whether this raw key signed a chain's end. */
export function isSignedHead(publicKey: Buffer, tenantId: string, head: SignedHead): boolean {
  return isSignedBy(publicKey, headMessage(tenantId, head), Buffer.from(head.signature, 'hex'))
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
  throw new AuditFault(`${nameOf(record)} was altered: its address is not the one that was recorded.`)
}

/** Follows a chain from its first entry and throws at the first thing that is wrong with it. */
export interface ChainCheck {
  /** The next entry, by the order of `seq`. @throws AuditFault */
  take(record: AuditRecord): void
  /** After the last entry: that the chain ends where its signed head says. @throws AuditFault */
  end(head: SignedHead | null): void
  /** Where it has got. */
  place(): ChainPlace
}

/** What a chain is checked against. */
export interface ChainCheckOptions {
  tenantId: string
  /** Raw: of the tenant's ledger node. */
  publicKey: Buffer
  /** A head that was noted earlier: the only thing that shows that a chain was cut off together with its signed head. */
  noted: ChainPlace | null
}

function checkPlace(record: AuditRecord, last: AuditRecord | null): void {
  const expected = (last?.seq ?? 0) + 1
  if (record.seq > expected) {
    const which = record.seq === expected + 1 ? `entry ${expected} is` : `entries ${expected} to ${record.seq - 1} are`
    throw new AuditFault(
      `${which} missing: ${last === null ? 'the first one is' : `after ${nameOf(last)} comes`} ${nameOf(record)}.`,
    )
  }
  if (record.seq < expected)
    throw new AuditFault(`${nameOf(record)} was inserted: it is entry ${expected} that follows.`)
}

function checkHash(tenantId: string, record: AuditRecord, last: AuditRecord | null): void {
  const isWhole = hashEntry(tenantId, record) === record.hash
  const follows = record.previousHash === (last?.hash ?? null)
  if (isWhole && follows) return
  // It is as it was, and was written after another one than stands before it now.
  if (isWhole && last !== null && record.previousHash !== null)
    throw new AuditFault(
      `${nameOf(last)} was altered or inserted, and its hash with it: ${nameOf(record)} follows another one.`,
    )
  throw new AuditFault(`${nameOf(record)} was altered or inserted: its hash is not that of what it says.`)
}

function checkNoted({ noted }: ChainCheckOptions, record: AuditRecord): void {
  if (noted?.seq !== record.seq || noted.hash === record.hash) return
  throw new AuditFault(`${nameOf(record)} or one before it was altered: its hash was ${noted.hash} when you noted it.`)
}

function checkHead(options: ChainCheckOptions, last: AuditRecord | null, head: SignedHead | null): void {
  if (head === null) {
    if (last === null) return
    throw new AuditFault(`${nameOf(last)} is the last one, and no signed head says so.`)
  }
  if (!isSignedHead(options.publicKey, options.tenantId, head))
    throw new AuditFault(
      `entry ${head.seq} is the last one by the head, whose signature is not that of the tenant's key: the head was altered, or entries were written anew by somebody without that key.`,
    )
  const seq = last?.seq ?? 0
  if (seq < head.seq) {
    const which = head.seq === seq + 1 ? `entry ${head.seq} is` : `entries ${seq + 1} to ${head.seq} are`
    throw new AuditFault(`${which} missing: the signed head says that there are ${head.seq}.`)
  }
  if (last !== null && seq > head.seq)
    throw new AuditFault(`${nameOf(last)} was inserted: by the signed head ${head.seq} is the last one.`)
  if (last !== null && last.hash !== head.hash)
    throw new AuditFault(`${nameOf(last)} was altered, and its hash with it: the signed head has another one.`)
}

/** Whether what is its target takes the addresses of users along: the user, or the app with its users. */
export const isDeletion = (action: string): boolean => action === 'user.deleted' || action === 'app.deleted'

/** Begins a check of one chain. It keeps one line of memory for each user whose addresses were erased. */
export function checkChain(options: ChainCheckOptions): ChainCheck {
  let last: AuditRecord | null = null
  const deleted = new Set<string>()
  /** Erased entries of users whose deletion is yet to come, by user. */
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
      const { noted } = options
      const seq = last?.seq ?? 0
      if (noted !== null && noted.seq > seq) {
        const which = noted.seq === seq + 1 ? `entry ${noted.seq} is` : `entries ${seq + 1} to ${noted.seq} are`
        throw new AuditFault(`${which} missing: the log reached entry ${noted.seq} when you noted its head.`)
      }
      const [first] = erased.values()
      if (first !== undefined)
        throw new AuditFault(`${nameOf(first)} was altered: its address is gone, and its user was not deleted.`)
    },
    place: () => ({ seq: last?.seq ?? 0, hash: last?.hash ?? null }),
  }
}
