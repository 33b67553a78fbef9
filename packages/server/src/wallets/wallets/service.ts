import { ownUser } from '../../identity/sessions/service.ts'
import { lockUser } from '../../identity/users/service.ts'
import { lockOutActs } from '../../platform/concurrency/user-lock.ts'
import type { Db } from '../../platform/db/db.ts'
import type { AppScope } from '../../platform/db/page.ts'
import type { Deps } from '../../platform/deps.ts'
import { recordAuditOnly } from '../../platform/events/audit-only-entries.ts'
import { type EventInput, publish } from '../../platform/events/events.ts'
import { existing, HttpError, notFoundField, pathId } from '../../platform/http/errors.ts'
import type { Caller, Page } from '../../platform/http/route.ts'
import type { Id } from '../../platform/ids.ts'
import { listScope } from '../../tenancy/apps/service.ts'
import type { Call } from './access.ts'
import { fail } from './errors.ts'
import { ledgerOf, walletEvent } from './new-wallet.ts'
import type { ListWallets, Wallet } from './schema.ts'
import * as store from './store.ts'

export { type Call, findOwnWallet, lockOwner, lockOwnWallet, requireOwnSession } from './access.ts'
export { WALLET_ERRORS } from './errors.ts'
export { addWallet, ledgerOf, walletEvent } from './new-wallet.ts'
export {
  activateProven,
  listSession,
  lockWalletOf,
  recordExported,
  recordSharing,
  setGeneration,
  unlistEverywhere,
  unlistSessions,
  unlistSessionsOfApp,
} from './state.ts'
export {
  claimPending,
  findWallet as findWalletRow,
  findWalletOf,
  finishOnboarding,
  lockPending,
  onboardAt,
  postpone as postponeOnboarding,
  setBudgets,
  setRecipients,
  setRecoveryAttempts,
  type WalletBudget,
  type WalletRow,
} from './store.ts'
export { WALLET_RECORD } from './wallet-record.ts'

/** The current user's wallet. @throws wallet_not_found */
export async function getOwnWallet(deps: Deps, { caller, user }: Omit<Call, 'origin'>): Promise<Wallet> {
  return walletOf(deps, caller, user.id)
}

/** The wallet of a user, or of a guest, for a developer. @throws not_found, wallet_not_found */
export async function getWalletOf(deps: Deps, caller: Caller, userId: string): Promise<Wallet> {
  return walletOf(deps, caller, await ownUser(deps, caller, userId))
}

async function walletOf(deps: Deps, { tenantId }: Caller, userId: Id<'usr'>): Promise<Wallet> {
  const row = await store.findWalletOf(deps.db, tenantId, userId)
  if (row === undefined) throw fail('wallet_not_found')
  return store.toWallet(row)
}

async function findOwn(find: typeof store.findWallet, db: Db, caller: AppScope, id: string): Promise<store.WalletRow> {
  return existing(await find(db, caller, pathId('wal', id)))
}

/** A wallet as it is stored. @throws not_found, as `getWallet` */
export function getWalletRow(deps: Deps, caller: Caller, id: string): Promise<store.WalletRow> {
  return findOwn(store.findWallet, deps.db, caller, id)
}

/** The same, locked until the transaction ends. @throws not_found */
export function lockWalletRow(tx: Db, caller: AppScope, id: string): Promise<store.WalletRow> {
  return findOwn(store.lockWallet, tx, caller, id)
}

/** The same for acts that end what a wallet may do: it may have been changed by somebody else. @throws not_found */
export function getWalletRowToEnd(deps: Deps, caller: Caller, id: string): Promise<store.WalletRow> {
  return findOwn(store.lockWalletToFreeze, deps.db, caller, id)
}

/** @throws not_found, also for wallets of another tenant or app */
export async function getWallet(deps: Deps, caller: Caller, id: string): Promise<Wallet> {
  return store.toWallet(await findOwn(store.findWallet, deps.db, caller, id))
}

async function seesUser(deps: Deps, caller: Caller, id: string): Promise<boolean> {
  try {
    await ownUser(deps, caller, id)
    return true
  } catch (error) {
    if (error instanceof HttpError && error.code === 'not_found') return false
    throw error
  }
}

/** A page of the wallets that a filter finds, newest first. @throws not_found (names `app_id`, `user_id`) */
export async function listWallets(deps: Deps, caller: Caller, query: ListWallets): Promise<Page<Wallet>> {
  const scope = await listScope(deps, caller, query)
  if (query.user_id !== undefined && !(await seesUser(deps, caller, query.user_id))) throw notFoundField('user_id')
  const { user_id: userId, custody, status } = query
  const ledger = query.ledger === undefined ? undefined : ledgerOf(deps, query.ledger).name
  return store.listWallets(deps.db, { ...scope, userId, custody, status, ledger }, query)
}

/**
 * Freezes a wallet, so that it cannot sign. A frozen wallet is returned unchanged, without an event. @throws not_found
 */
export async function freezeWallet(deps: Deps, { caller, origin }: Omit<Call, 'user'>, id: string): Promise<Wallet> {
  const { user_id: userId } = await getWalletRowToEnd(deps, caller, id)
  return deps.db.tx(async (tx) => {
    await lockOutActs(tx, userId)
    const before = await findOwn(store.lockWalletToFreeze, tx, caller, id)
    if (before.frozen_at !== null) return store.toWallet(before)
    const now = deps.now()
    const row = await store.setFrozen(tx, { ...before, frozen_at: now, updated_at: now })
    await publish(tx, deps, walletEvent(row, 'wallet.frozen', { caller, origin }))
    return store.toWallet(row)
  })
}

/**
 * Lets a frozen wallet sign again. One that is not frozen is returned unchanged. The wallet of an ended guest stays frozen.
 * @throws not_found, guest_expired
 */
export async function unfreezeWallet(deps: Deps, cause: Omit<Call, 'user'>, id: string): Promise<Wallet> {
  const { caller } = cause
  const { user_id: userId } = await findOwn(store.findWallet, deps.db, caller, id)
  return deps.db.tx(async (tx) => {
    await lockOutActs(tx, userId)
    // Locks the user before the wallet, like the code that ends a guest: its freeze must not be undone here.
    const held = await lockUser(tx, deps, caller.tenantId, userId)
    const before = await findOwn(store.lockWallet, tx, caller, id)
    if (held?.ended === true) throw fail('guest_expired')
    if (before.frozen_at === null) return store.toWallet(before)
    const row = await store.setFrozen(tx, { ...before, frozen_at: null, updated_at: deps.now() })
    const { tenant_id: tenantId, app_id: appId } = row
    await recordAuditOnly(tx, deps, { tenantId, appId, action: 'wallet.unfrozen', target: row.id, userId, cause })
    return store.toWallet(row)
  })
}

/** Freezes a user's wallet, if they have one that is not frozen, in the transaction that causes it. */
export async function freezeWalletOf(
  tx: Db,
  deps: Deps,
  { tenantId, userId, cause }: { tenantId: Id<'ten'>; userId: Id<'usr'>; cause?: EventInput['cause'] },
): Promise<void> {
  const before = await store.lockUnfrozenOf(tx, tenantId, userId)
  if (before === undefined) return
  const now = deps.now()
  const row = await store.setFrozen(tx, { ...before, frozen_at: now, updated_at: now })
  await publish(tx, deps, walletEvent(row, 'wallet.frozen', cause))
}
