import type { Db } from '../../../platform/db/db.ts'
import type { Deps } from '../../../platform/deps.ts'
import { TENANTS_A_ROUND, workForTenants } from '../../../platform/events/feed.ts'
import type { Id } from '../../../platform/ids.ts'
import type { MaintenanceTask } from '../../../platform/maintenance.ts'
import { type ProofSigner, proofSigner } from '../../../platform/security/proof-keys.ts'
import { type ChainEntry, hashEntry, headMessage, isSignedHead, type LedgerHead } from './chain.ts'
import * as store from './store.ts'

const UPDATES_A_TURN = 1_000
/** Longer than it takes from the number of an update to its commit. */
const QUIET_MS = 5 * 60_000

type Following = Pick<Deps, 'keys' | 'now' | 'log'>

const EMPTY = { seq: 0, hash: '', signedAt: '', signature: '', readXid: '0', readOffset: 0 }

/**
 * The head to continue. @throws Error unless this service has signed it, or if it is gone: a new signature would confirm
 * what somebody removed
 */
async function headOf(
  tx: Db,
  tenantId: Id<'ten'>,
  signer: ProofSigner,
  began: Date | null,
): Promise<LedgerHead & store.ReadPlace> {
  const head = await store.findHead(tx, tenantId)
  const why = head === undefined ? 'is missing' : 'was altered'
  if (head === undefined ? began === null : isSignedHead(signer.publicKey, tenantId, head)) return head ?? EMPTY
  throw new Error(
    `the chain of ${tenantId}'s ledger cannot continue: its head ${why}. Run: halfkey ledger verify --tenant ${tenantId}`,
  )
}

function chain(
  tenantId: string,
  after: LedgerHead,
  updates: readonly { updateId: string; offset: number }[],
): ChainEntry[] {
  let { seq, hash } = after
  return updates.map(({ updateId, offset }) => {
    seq += 1
    hash = hashEntry(tenantId, hash, { seq, updateId, offset })
    return { seq, updateId, offset, hash }
  })
}

/** Chains a tenant's new updates and signs the end. @returns whether there are more */
async function chainSome(tx: Db, deps: Following, tenantId: Id<'ten'>, signer: ProofSigner): Promise<boolean> {
  const began = await store.lockChain(tx, tenantId)
  // Another process is at it.
  if (began === undefined) return false
  const now = deps.now()
  const head = await headOf(tx, tenantId, signer, began)
  const updates = await store.unchained(tx, tenantId, head, UPDATES_A_TURN)
  const last = updates.at(-1)
  if (last === undefined) {
    await store.settlePlace(tx, tenantId)
    return false
  }
  if (began === null) await store.beginChain(tx, tenantId, now)
  const entries = chain(tenantId, head, updates)
  await store.insertEntries(tx, tenantId, entries)
  const { seq, hash } = entries.at(-1) as ChainEntry
  const end = { seq, hash, signedAt: now.toISOString() }
  const signature = signer.sign(headMessage(tenantId, end)).toString('hex')
  await store.writeHead(tx, tenantId, { ...end, signature, readXid: last.xid, readOffset: last.offset })
  return updates.length === UPDATES_A_TURN
}

/** The same, in a transaction; logs for which tenant it fails. */
async function followTenant(db: Db, deps: Following, tenantId: Id<'ten'>): Promise<boolean> {
  try {
    const signer = await proofSigner(db, deps, tenantId)
    return await db.tx((tx) => chainSome(tx, deps, tenantId, signer))
  } catch (error) {
    deps.log.error({ err: error, tenantId }, 'the chain of a ledger cannot continue')
    throw error
  }
}

/**
 * Brings the chains of all tenants' updates up to date. It runs behind the transactions, so that none waits for another.
 * The tenants are not looked through again once no number was taken for `QUIET_MS` and nothing was left.
 */
export function createLedgerFollower(deps: Following): MaintenanceTask {
  let seen = { made: -1, at: 0, isDone: false }
  return async (db) => {
    const made = await store.lastOffset(db)
    if (made !== seen.made) seen = { made, at: performance.now(), isDone: false }
    if (seen.isDone) return false
    const tenants = await store.tenantsBehind(db, TENANTS_A_ROUND)
    const isQuiet = tenants.length === 0 && performance.now() - seen.at > QUIET_MS
    if (isQuiet && !(await store.isBehind(db))) seen.isDone = true
    return workForTenants(tenants, 'the chain could not be continued', (tenantId) => followTenant(db, deps, tenantId))
  }
}
