import { beginSnapshot, type Db } from '../../../platform/db/db.ts'
import type { Deps } from '../../../platform/deps.ts'
import type { Id } from '../../../platform/ids.ts'
import { freshNodeSigner } from '../../../platform/security/node-keys.ts'
import { freshProofSigner, type ProofSigner } from '../../../platform/security/proof-keys.ts'
import type { LedgerHead } from './chain.ts'
import { checkChain, type NotedPlace, type WholeLedger } from './check.ts'
import { endLine, entryLine, headerLine, templateLine, updateLine } from './file.ts'
import { createReplay, LedgerFault } from './replay.ts'
import * as store from './store.ts'
import { checkTables } from './tables.ts'

const PORTION = 200
/** How long after its commit an update may be missing in the chain. */
const SETTLE_MS = 60_000

/** Receives the progress of long work. */
export interface Watcher {
  begin(total: number): void
  add(done: number): void
}

/** A ledger as it is at one moment. */
interface OpenLedger {
  tx: Db
  signer: ProofSigner | undefined
  nodePublicKey: Buffer
  head: LedgerHead | null
  order: Awaited<ReturnType<typeof store.updateOrder>>
}

/** The tenant's keys, opened: the columns with public keys could have been altered. @throws LedgerFault */
async function trustedKeys(tx: Db, deps: Deps, tenantId: Id<'ten'>) {
  try {
    const { publicKey } = await freshNodeSigner(tx, deps.keys, tenantId)
    return { nodePublicKey: publicKey, signer: await freshProofSigner(tx, deps.keys, tenantId) }
  } catch (error) {
    throw new LedgerFault(`The keys of ${tenantId} cannot be opened: ${(error as Error).message}`)
  }
}

/** Reads one state of the database, and writes nothing. */
function reading<T>(
  deps: Deps,
  tenantId: Id<'ten'>,
  watcher: Watcher,
  work: (ledger: OpenLedger) => Promise<T>,
): Promise<T> {
  return deps.db.tx(async (tx) => {
    await beginSnapshot(tx)
    const keys = await trustedKeys(tx, deps, tenantId)
    const head = (await store.findHead(tx, tenantId)) ?? null
    const order = await store.updateOrder(tx, tenantId)
    watcher.begin(order.length)
    return work({ tx, ...keys, head, order })
  })
}

/** All updates in the order of their offsets, a portion at a time. */
async function* updates({ tx, order }: OpenLedger, tenantId: Id<'ten'>): AsyncGenerator<store.StoredUpdate[]> {
  for (let at = 0; at < order.length; at += PORTION)
    yield await store.updatesOf(tx, tenantId, order.slice(at, at + PORTION))
}

async function* entries(tx: Db, tenantId: Id<'ten'>) {
  // Starts before 1, to find entries with a number that no valid entry has.
  for (let after = Number.MIN_SAFE_INTEGER; ; ) {
    const portion = await store.entriesAfter(tx, tenantId, after, PORTION)
    yield portion
    if (portion.length < PORTION) return
    after = portion.at(-1)?.seq as number
  }
}

/**
 * Executes all of a tenant's updates again, from their bytes and signatures alone, and holds the chain of updates, its signed
 * head and the tables of contracts against the result.
 * @param noted a head that was noted earlier
 * @throws LedgerFault naming the first update, contract or entry that is altered, missing or inserted
 */
export function verifyLedger(
  deps: Deps,
  tenantId: Id<'ten'>,
  noted: NotedPlace | null,
  watcher: Watcher,
): Promise<WholeLedger> {
  return reading(deps, tenantId, watcher, async (ledger) => {
    const { tx, signer, nodePublicKey, head } = ledger
    const replay = createReplay(tenantId, await store.definitions(tx, tenantId))
    for await (const portion of updates(ledger, tenantId)) {
      for (const update of portion) replay.take(update)
      watcher.add(portion.length)
    }
    const check = checkChain({ tenantId, publicKey: signer?.publicKey ?? null, nodePublicKey, noted }, replay)
    for await (const portion of entries(tx, tenantId)) for (const entry of portion) check.take(entry)
    const before = new Date(deps.now().getTime() - SETTLE_MS)
    const began = await store.chainBegan(tx, tenantId)
    const whole = check.end(head, began || (await store.hasUpdatesBefore(tx, tenantId, before)))
    await checkTables(tx, tenantId, replay)
    return whole
  })
}

/** Writes all that proves a tenant's ledger as lines of a file, as it is at one moment. @returns how many updates */
export function exportLedger(
  deps: Deps,
  tenantId: Id<'ten'>,
  write: (line: string) => Promise<void>,
  watcher: Watcher,
): Promise<number> {
  return reading(deps, tenantId, watcher, async (ledger) => {
    const { tx, signer, nodePublicKey, head, order } = ledger
    await write(headerLine(tenantId, nodePublicKey, signer, deps.now()))
    for (const definition of await store.definitions(tx, tenantId)) await write(templateLine(definition))
    for await (const portion of updates(ledger, tenantId)) {
      for (const update of portion) await write(updateLine(update))
      watcher.add(portion.length)
    }
    for await (const portion of entries(tx, tenantId)) for (const entry of portion) await write(entryLine(entry))
    await write(endLine(head))
    return order.length
  })
}
