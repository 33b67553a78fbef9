import { setTrustLevel } from '../../identity/users/service.ts'
import type { Db } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import { type EventInput, publish } from '../../platform/events/events.ts'
import type { Id } from '../../platform/ids.ts'
import { listWith, listWithout } from '../../platform/security/records/id-list.ts'
import { ledgerOf, readiness, walletEvent } from './new-wallet.ts'
import * as store from './store.ts'

/**
 * Records that the user got enough to sign without the service. In the transaction that holds the user and the wallet's
 * row.
 */
export async function recordExported(tx: Db, deps: Deps, before: store.WalletRow): Promise<store.WalletRow> {
  const now = deps.now()
  const row = await store.setKeyState(tx, { ...before, exported_at: before.exported_at ?? now, updated_at: now })
  await setTrustLevel(tx, deps, { tenantId: row.tenant_id, id: row.user_id, trustLevel: 'self_custody' })
  return row
}

/** Makes another generation of shares the current one. In the transaction that holds the wallet's row. */
export async function setGeneration(
  tx: Db,
  deps: Deps,
  before: store.WalletRow,
  generation: number,
): Promise<store.WalletRow> {
  return store.setKeyState(tx, { ...before, generation, updated_at: deps.now() })
}

/** Makes a `shared` wallet ready after its user proved to have a share. In the transaction that holds its row. */
export async function activateProven(
  tx: Db,
  deps: Deps,
  before: store.WalletRow,
  cause: EventInput['cause'],
): Promise<store.WalletRow> {
  if (before.status !== 'pending' || before.onboard_at !== null || before.onboard_attempts > 0) return before
  const now = deps.now()
  const ready = readiness(ledgerOf(deps, before.ledger), true, now)
  const row = await store.setReadiness(tx, { ...before, ...ready, updated_at: now })
  if (row.status === 'ready') await publish(tx, deps, walletEvent(row, 'wallet.ready', cause))
  return row
}

/** Makes a self-custody wallet show its newest generation after a share was stored. In the transaction that holds its row. */
export async function recordSharing(
  tx: Db,
  deps: Deps,
  before: store.WalletRow,
  { threshold, total, generation }: { threshold: number; total: number; generation: number },
): Promise<void> {
  if (before.generation !== null && before.generation >= generation) return
  await store.setSharing(tx, { ...before, threshold, total, generation, updated_at: deps.now() })
}

/*
 * A wallet's record lists its live delegated sessions. Whoever creates or ends sessions locks their wallet first, then them. So
 * does everybody who acts by one.
 */

/** A wallet, locked until the transaction ends, verified. @throws record_tampered */
export function lockWalletOf(tx: Db, tenantId: Id<'ten'>, id: Id<'wal'>): Promise<store.WalletRow | undefined> {
  return store.lockWallet(tx, { tenantId, appId: null }, id)
}

/** Lists a new session, and no longer what has ended. In the transaction that holds the wallet. @param active those that have not */
export async function listSession(
  tx: Db,
  before: store.WalletRow,
  active: readonly string[],
  sessionId: Id<'dse'>,
): Promise<void> {
  const live = new Set(active)
  const ended = new Set(before.sessions?.split(' ').filter((id) => !live.has(id)))
  await store.setSessions(tx, { ...before, sessions: listWith(listWithout(before.sessions, ended), sessionId) })
}

async function unlist(tx: Db, before: store.WalletRow, isEnded: (id: string) => boolean): Promise<void> {
  const sessions = listWithout(before.sessions, new Set(before.sessions?.split(' ').filter(isEnded)))
  if (sessions !== before.sessions) await store.setSessions(tx, { ...before, sessions })
}

/** Takes sessions off a wallet's list, all of them without `sessionId`. Call it before the sessions are locked. */
export async function unlistSessions(
  tx: Db,
  { tenantId, walletId, sessionId }: { tenantId: Id<'ten'>; walletId: Id<'wal'>; sessionId?: Id<'dse'> },
): Promise<void> {
  const before = await store.lockWalletToFreeze(tx, { tenantId, appId: null }, walletId)
  if (before !== undefined) await unlist(tx, before, (id) => sessionId === undefined || id === sessionId)
}

/** The same for a session whose row does not verify: it may name another wallet than the one that lists it. */
export async function unlistEverywhere(tx: Db, tenantId: Id<'ten'>, sessionId: Id<'dse'>): Promise<void> {
  for (const before of await store.lockListing(tx, tenantId, sessionId))
    await unlist(tx, before, (id) => id === sessionId)
}

/**
 * The same for an app: all sessions up to `last` of at most `limit` wallets whose id is greater than `after`.
 * @returns the wallets, in the order of their ids
 */
export async function unlistSessionsOfApp(
  tx: Db,
  of: { tenantId: Id<'ten'>; appId: Id<'app'>; after: string },
  last: Id<'dse'>,
  limit: number,
): Promise<Id<'wal'>[]> {
  const wallets = await store.lockListingOfApp(tx, of, limit)
  for (const before of wallets) await unlist(tx, before, (id) => id <= last)
  return wallets.map(({ id }) => id)
}
