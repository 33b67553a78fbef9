import type { Db } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import type { Id } from '../../platform/ids.ts'
import { freshNodeSigner } from '../../platform/security/node-signer.ts'
import { AuditFault, type AuditRecord, type ChainPlace, checkChain, nameOf } from './chain.ts'
import * as store from './store.ts'
import { type LogPart, type Watcher, type WholeLog, wholeLog } from './whole-log.ts'

const PORTION = 1_000

/** The tenant's key as it can sign, and not as the database alone has it. @throws AuditFault */
async function trustedKey(tx: Db, deps: Deps, tenantId: Id<'ten'>): Promise<Buffer> {
  const signer = await freshNodeSigner(tx, deps.keys, tenantId).catch((error: unknown) => {
    throw new AuditFault(
      `The key of ${tenantId} cannot be opened, so nothing can be said of its log: ${(error as Error).message}`,
    )
  })
  if (!signer.publicKey.equals(signer.storedPublicKey))
    throw new AuditFault(
      `The public key of ${tenantId} in the database was altered: it is not that of its private key.`,
    )
  return signer.publicKey
}

/** All entries in the chain's order, a portion at a time. */
async function* records(tx: Db, tenantId: Id<'ten'>): AsyncGenerator<store.CheckedRecord[]> {
  // From before the first, so that one with a number that no entry has is met too.
  for (let after = Number.MIN_SAFE_INTEGER; ; ) {
    const portion = await store.entriesAfter(tx, tenantId, after, PORTION)
    yield portion
    if (portion.length < PORTION) return
    after = portion.at(-1)?.record.seq as number
  }
}

/** Reads one state of the database, and writes nothing. */
function reading<T>(deps: Deps, work: (tx: Db) => Promise<T>): Promise<T> {
  return deps.db.tx(async (tx) => {
    await store.beginReading(tx)
    return work(tx)
  })
}

/**
 * Recomputes a tenant's whole chain in the database: hashes, numbers, the head's signature by the tenant's own key, and
 * that entries agree with the events that are still kept.
 * @param noted a head that was noted earlier
 * @throws AuditFault naming the first entry that is altered, missing or inserted
 */
export function verifyLog(
  deps: Deps,
  tenantId: Id<'ten'>,
  noted: ChainPlace | null,
  watcher: Watcher,
): Promise<WholeLog> {
  return reading(deps, async (tx) => {
    const publicKey = await trustedKey(tx, deps, tenantId)
    const head = await store.findHead(tx, tenantId)
    watcher.begin(await store.countAll(tx, tenantId))
    const check = checkChain({ tenantId, publicKey, noted })
    let unlike: AuditRecord | null = null
    for await (const portion of records(tx, tenantId)) {
      for (const { record, fitsEvent } of portion) {
        check.take(record)
        if (!fitsEvent) unlike ??= record
      }
      watcher.add(portion.length)
    }
    check.end(head)
    // The chain is whole, so it is the event that changed.
    if (unlike !== null)
      throw new AuditFault(
        `The event ${unlike.eventId} was altered: it is not the one that ${nameOf(unlike)} tells of.`,
      )
    return wholeLog(tenantId, check.place(), publicKey)
  })
}

/** Hands a tenant's log over part by part, as it is at one moment, without checking it. @returns how many entries */
export function readLog(
  deps: Deps,
  tenantId: Id<'ten'>,
  take: (part: LogPart) => Promise<void>,
  watcher: Watcher,
): Promise<number> {
  return reading(deps, async (tx) => {
    const publicKey = await trustedKey(tx, deps, tenantId)
    const head = await store.findHead(tx, tenantId)
    watcher.begin(await store.countAll(tx, tenantId))
    await take({ kind: 'header', tenantId, publicKey, at: deps.now() })
    let entries = 0
    for await (const portion of records(tx, tenantId)) {
      await take({ kind: 'entries', records: portion.map(({ record }) => record) })
      entries += portion.length
      watcher.add(portion.length)
    }
    await take({ kind: 'head', head })
    return entries
  })
}
