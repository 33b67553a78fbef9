import { randomBytes } from 'node:crypto'
import type { Db } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import { actionsOf } from '../../platform/events/audit-actions.ts'
import { type Follower, followFeed, TENANTS_A_ROUND, workForTenants } from '../../platform/events/feed.ts'
import type { ChainSource } from '../../platform/floor/source.ts'
import { type Caller, type Page, paging } from '../../platform/http/route.ts'
import type { Id } from '../../platform/ids.ts'
import { type ProofSigner, proofSigner } from '../../platform/security/proof-keys.ts'
import { actOfAuditOnly, actOfEvent } from './act.ts'
import {
  type AuditRecord,
  type ChainPlace,
  hashEntry,
  headMessage,
  isDeletion,
  isSignedHead,
  type NewAct,
  SALT_BYTES,
  sealAddress,
} from './chain.ts'
import { takeNotes } from './notes.ts'
import type { AuditEntry, ListAuditLog } from './schema.ts'
import * as store from './store.ts'

export { findReturned } from './returned.ts'

/** Entries that are hashed and written at a time: the process answers requests in between. */
const PORTION = 200

type Appending = Pick<Deps, 'keys' | 'now' | 'log'>

/** Acts as entries that follow a place in the chain. */
function chain(tenantId: Id<'ten'>, after: ChainPlace, acts: readonly NewAct[]): AuditRecord[] {
  // Generated together: a call costs much more than its bytes.
  const salts = randomBytes(SALT_BYTES * acts.length)
  let place = after
  return acts.map((act, at) => {
    const salt = salts.toString('hex', SALT_BYTES * at, SALT_BYTES * (at + 1))
    const entry = { ...act, ...sealAddress(act.address, salt), seq: place.seq + 1, previousHash: place.hash }
    const record = { ...entry, hash: hashEntry(tenantId, entry) }
    place = record
    return record
  })
}

/** The counts that acts add. */
function countsOf(acts: readonly NewAct[]): store.Counted[] {
  const counts = new Map<string, store.Counted>()
  for (const { at, appId, action, actor } of acts) {
    const of = { appId: appId ?? '', action, actor: store.isOneOfMany(actor) ? '' : actor }
    const spans = [
      { hours: 24 as const, begins: `${at.slice(0, 10)}T00:00:00Z` },
      { hours: 1 as const, begins: `${at.slice(0, 13)}:00:00Z` },
    ]
    for (const span of spans) {
      const key = [span.hours, span.begins, of.appId, action, of.actor].join(' ')
      const counted = counts.get(key) ?? { ...span, ...of, n: 0 }
      counted.n += 1
      counts.set(key, counted)
    }
  }
  return [...counts.values()]
}

/** Erases the addresses of users who were deleted, or whose app was, in these acts or before them. */
async function erase(tx: Db, tenantId: Id<'ten'>, acts: readonly NewAct[]): Promise<void> {
  const deletedNow = acts.flatMap(({ action, target }) => (isDeletion(action) ? [target] : []))
  const addressed = acts.filter(({ userId, address }) => userId !== null && address !== null)
  const told = new Set(addressed.flatMap(({ userId, appId }) => [userId as string, ...(appId === null ? [] : [appId])]))
  const deleted = told.size === 0 ? [] : await store.findDeleted(tx, tenantId, [...told])
  const gone = [...new Set([...deletedNow, ...deleted])]
  if (gone.length > 0) await store.eraseAddresses(tx, tenantId, gone)
}

/**
 * The place after which entries are appended. @throws Error unless this service has signed it: otherwise its next
 * signature would confirm a forged chain
 */
async function placeOf(tx: Db, tenantId: Id<'ten'>, signer: ProofSigner): Promise<ChainPlace> {
  const head = await store.lockHead(tx, tenantId)
  if (head === null) {
    if (!(await store.hasBegun(tx, tenantId))) return { seq: 0, hash: null }
    throw new Error(
      `the audit log of ${tenantId} cannot continue: its head is gone. Run: halfkey audit verify --tenant ${tenantId}`,
    )
  }
  if (!isSignedHead({ node: signer.nodePublicKey, proof: signer.publicKey }, tenantId, head))
    throw new Error(
      `the audit log of ${tenantId} cannot continue: its head was altered. Run: halfkey audit verify --tenant ${tenantId}`,
    )
  return head
}

/**
 * Appends acts to the chain and signs its end, in this transaction. Transactions of one tenant are serialised. The tenant's proof key
 * was opened before.
 */
async function append(tx: Db, deps: Appending, tenantId: Id<'ten'>, acts: readonly NewAct[]): Promise<void> {
  if (acts.length === 0) return
  const signer = await proofSigner(tx, deps, tenantId)
  let place = await placeOf(tx, tenantId, signer)
  for (let at = 0; at < acts.length; at += PORTION) {
    const entries = chain(tenantId, place, acts.slice(at, at + PORTION))
    place = entries.at(-1) as AuditRecord
    await store.insertEntries(tx, tenantId, entries)
  }
  await store.addCounts(tx, tenantId, countsOf(acts))
  await erase(tx, tenantId, acts)
  const head = { seq: place.seq, hash: place.hash as string, signedAt: deps.now().toISOString() }
  const signature = signer.sign(headMessage(tenantId, head)).toString('hex')
  await store.writeHead(tx, tenantId, { ...head, signature })
}

/** The same, and logs for which tenant it fails. That tenant's events wait; other logs are not affected. */
async function appendOrTell(tx: Db, deps: Appending, tenantId: Id<'ten'>, acts: readonly NewAct[]): Promise<void> {
  try {
    await append(tx, deps, tenantId, acts)
  } catch (error) {
    deps.log.error({ err: error, tenantId }, 'an audit log cannot continue')
    throw error
  }
}

/** Opens, or makes, the key that signs the heads: what a transaction made could be undone with it. */
async function openKey(db: Db, deps: Appending, tenantId: Id<'ten'>): Promise<void> {
  await proofSigner(db, deps, tenantId)
}

const followerOf = (deps: Appending): Follower => ({
  name: 'audit',
  prepare: (db, tenantId) => openKey(db, deps, tenantId),
  fold: (tx, tenantId, events) => {
    const acts = events.map((event) => actOfEvent(tenantId, event))
    return appendOrTell(tx, deps, tenantId, acts)
  },
})

/** Appends entries for audit-only entries that wait. @returns whether there are more */
async function followNotes(db: Db, deps: Appending): Promise<boolean> {
  const tenants = await store.tenantsWithNotes(db, TENANTS_A_ROUND)
  return workForTenants(tenants, 'the audit log could not record actions', async (tenantId) => {
    await openKey(db, deps, tenantId)
    return db.tx(async (tx) => {
      const { notes, more } = await takeNotes(tx, tenantId)
      await appendOrTell(tx, deps, tenantId, notes.map(actOfAuditOnly))
      return more
    })
  })
}

/**
 * Brings the audit logs up to date: an entry for each event, in the feed's order, and for each audit-only entry.
 * @returns whether there is more. @throws AggregateError for tenants that failed, after the others were processed
 */
export async function followAudit(db: Db, deps: Appending): Promise<boolean> {
  let more = false
  const errors: unknown[] = []
  for (const follow of [() => followFeed(db, followerOf(deps)), () => followNotes(db, deps)])
    try {
      more = (await follow()) || more
    } catch (error) {
      errors.push(error)
    }
  if (errors.length > 0) throw errors.length === 1 ? errors[0] : new AggregateError(errors)
  return more
}

/** A page of the caller's tenant's log, by default newest first; for a key that is bound to an app, of that app's entries. */
export async function listEntries(deps: Deps, caller: Caller, query: ListAuditLog): Promise<Page<AuditEntry>> {
  const { page, pageSize, offset } = paging(query)
  const filter: store.EntryFilter = {
    tenantId: caller.tenantId,
    appId: caller.appId,
    actor: query.actor ?? null,
    target: query.target ?? null,
    userId: query.user_id ?? null,
    actions: query.action === undefined ? null : actionsOf(query.action),
    since: query.since === undefined ? null : new Date(query.since),
  }
  const { entries, total } = await store.listEntries(deps.db, filter, query.sort === 'seq', offset, pageSize)
  return { items: entries, total, page, pageSize }
}

/** The chains of entries. */
export const auditChains: ChainSource = { name: 'audit', ends: store.ends, at: store.entriesAt }
