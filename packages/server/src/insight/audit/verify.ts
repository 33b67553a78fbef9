import { beginSnapshot, type Db } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import type { Id } from '../../platform/ids.ts'
import { freshNodeSigner } from '../../platform/security/node-keys.ts'
import { freshProofSigner, type ProofSigner } from '../../platform/security/proof-keys.ts'
import {
  AuditFault,
  type AuditRecord,
  type ChainPlace,
  checkChain,
  type HeadKeys,
  nameOf,
  type SignedHead,
  type WholeLog,
} from './chain.ts'
import { headerLine, type Watcher } from './log-file.ts'
import { waitingNotes } from './notes.ts'
import * as store from './store.ts'

const PORTION = 1_000
/** How long after its creation a tenant may have no head: the worker writes its first entry within about a second. */
const NEW_MS = 60_000

/** A tenant's keys, from the private ones: the columns with public keys could have been altered. */
export interface TrustedKeys {
  nodePublicKey: Buffer
  /** Undefined if the tenant has no proof key yet. */
  signer: ProofSigner | undefined
}

/** Opens them. @throws AuditFault */
export async function trustedKeys(tx: Db, deps: Deps, tenantId: Id<'ten'>): Promise<TrustedKeys> {
  const cannotOpen = (error: unknown): never => {
    throw new AuditFault(
      `The key of ${tenantId} cannot be opened, so its log cannot be verified: ${(error as Error).message}`,
    )
  }
  const signer = await freshNodeSigner(tx, deps.keys, tenantId).catch(cannotOpen)
  if (!signer.publicKey.equals(signer.storedPublicKey))
    throw new AuditFault(
      `The public key of ${tenantId} in the database was altered: it does not match the private key.`,
    )
  return {
    nodePublicKey: signer.publicKey,
    signer: await freshProofSigner(tx, deps.keys, tenantId).catch(cannotOpen),
  }
}

/** The keys whose signatures of heads count. */
export const headKeysOf = ({ nodePublicKey: node, signer }: TrustedKeys): HeadKeys => ({
  node,
  proof: signer?.publicKey ?? null,
})

/** All entries in the chain's order, a portion at a time. */
async function* records(tx: Db, tenantId: Id<'ten'>): AsyncGenerator<store.CheckedRecord[]> {
  // Starts before 1, to find entries with a number that no valid entry has.
  for (let after = Number.MIN_SAFE_INTEGER; ; ) {
    const portion = await store.entriesAfter(tx, tenantId, after, PORTION)
    yield portion
    if (portion.length < PORTION) return
    after = portion.at(-1)?.seq as number
  }
}

/** Every event that is still kept, and that the log has passed, has one entry. @throws AuditFault */
async function requireRecorded(tx: Db, tenantId: Id<'ten'>): Promise<void> {
  const unrecorded = await store.findUnrecorded(tx, tenantId)
  if (unrecorded !== undefined)
    throw new AuditFault(
      `The event ${unrecorded.id} (${unrecorded.type}) has no entry, although the log has passed it: its entry was removed, or the event was inserted.`,
    )
  const repeated = await store.findRepeated(tx, tenantId)
  if (repeated !== undefined) throw new AuditFault(`The event ${repeated.eventId} has several entries.`)
}

/** Every act that waits for its entry is one that this service wrote. @throws AuditFault */
async function requireGenuineNotes(tx: Db, tenantId: Id<'ten'>): Promise<void> {
  for await (const { forged } of waitingNotes(tx, tenantId))
    for (const { id, action, target } of forged)
      throw new AuditFault(
        `The action ${action} of ${target} (${id}), which waits for its entry, was altered, inserted or put back after it had its entry. It does not get one.`,
      )
}

/** A log as it is at one moment, before its entries are read. */
interface OpenLog {
  tx: Db
  keys: TrustedKeys
  head: SignedHead | null
}

/** Reads one state of the database, and writes nothing. */
function reading<T>(deps: Deps, tenantId: Id<'ten'>, watcher: Watcher, work: (log: OpenLog) => Promise<T>): Promise<T> {
  return deps.db.tx(async (tx) => {
    await beginSnapshot(tx)
    const keys = await trustedKeys(tx, deps, tenantId)
    const head = await store.findHead(tx, tenantId)
    watcher.begin(await store.countAll(tx, tenantId))
    return work({ tx, keys, head })
  })
}

/**
 * Recomputes a tenant's whole chain in the database: hashes, numbers, the head's signature by the tenant's own key, and
 * that entries agree with the events that are still kept.
 * @param noted heads that were noted earlier
 * @throws AuditFault naming the first entry that is altered, missing or inserted
 */
export function verifyLog(
  deps: Deps,
  tenantId: Id<'ten'>,
  noted: readonly ChainPlace[],
  watcher: Watcher,
): Promise<WholeLog> {
  return reading(deps, tenantId, watcher, async ({ tx, keys, head }) => {
    const mayBeEmpty = await store.isNew(tx, tenantId, new Date(deps.now().getTime() - NEW_MS))
    const check = checkChain({ tenantId, keys: headKeysOf(keys), noted, mayBeEmpty })
    let unlike: AuditRecord | null = null
    for await (const portion of records(tx, tenantId)) {
      for (const { fitsEvent, ...record } of portion) {
        check.take(record)
        if (!fitsEvent) unlike ??= record
      }
      watcher.add(portion.length)
    }
    const log = check.end(head)
    // The chain is unaltered, so it is the event that changed.
    if (unlike !== null)
      throw new AuditFault(`The event ${unlike.eventId} was altered: it does not match ${nameOf(unlike)}.`)
    await requireRecorded(tx, tenantId)
    await requireGenuineNotes(tx, tenantId)
    return log
  })
}

/** Writes a tenant's log as lines of a file, as it is at one moment, without checking it. @returns how many entries */
export function readLog(
  deps: Deps,
  tenantId: Id<'ten'>,
  write: (line: string) => Promise<void>,
  watcher: Watcher,
): Promise<number> {
  return reading(deps, tenantId, watcher, async ({ tx, keys, head }) => {
    await write(headerLine(tenantId, keys, deps.now()))
    let entries = 0
    for await (const portion of records(tx, tenantId)) {
      for (const { fitsEvent: _, ...record } of portion) await write(JSON.stringify(record))
      entries += portion.length
      watcher.add(portion.length)
    }
    await write(JSON.stringify({ head }))
    return entries
  })
}
