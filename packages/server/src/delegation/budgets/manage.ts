import { isDeepStrictEqual } from 'node:util'
import { requireStepUp } from '../../identity/sessions/service.ts'
import { lockOutActs } from '../../platform/concurrency/user-lock.ts'
import type { Db } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import { eventOf, publish } from '../../platform/events/events.ts'
import type { MaybeUserCall } from '../../platform/http/route.ts'
import { parseAmount } from '../../platform/ports/amount.ts'
import type { BudgetInput } from '../../tenancy/apps/schema.ts'
import { budgetKey, budgetLimit, budgetProblems } from '../../tenancy/apps/service.ts'
import { hasUnsettled } from '../../wallets/transactions/service.ts'
import {
  getWalletRow,
  lockWalletRow,
  requireOwnSession,
  setBudgets as storeBudgets,
  type WalletBudget,
  type WalletRow,
} from '../../wallets/wallets/service.ts'
import { fail } from '../errors.ts'
import type { Spent } from '../policy/windows.ts'
import type { SetBudgets, WalletBudgets } from './budget-schema.ts'
import { leftOf, limitsOf } from './limits.ts'
import { findSpending, insertSpending, lockSpending, refuseDeleted, storeSpending } from './spending-store.ts'

/** The wallet, for its owner and for a server. @throws not_found, also for the wallet of another user */
async function visible(deps: Deps, { caller, user }: MaybeUserCall, id: string): Promise<WalletRow> {
  const wallet = await getWalletRow(deps, caller, id)
  if (user === null ? caller.keyType !== 'secret' : user.id !== wallet.user_id) throw fail('not_found')
  return wallet
}

async function shown(deps: Pick<Deps, 'auth' | 'db' | 'now'>, wallet: WalletRow, spent: Spent): Promise<WalletBudgets> {
  const limits = await limitsOf(deps, { ...wallet, own: wallet.budgets?.limits ?? [] })
  const now = deps.now()
  const of = (isOfApp: boolean) =>
    limits.filter(({ setBy }) => (setBy === 'app') === isOfApp).map((limit) => leftOf(limit, spent, now))
  return { walletId: wallet.id, budgets: of(false), appBudgets: of(true) }
}

/** The budgets that hold for a wallet, with what is spent and left of each. @throws not_found, record_tampered */
export async function getBudgets(deps: Deps, call: MaybeUserCall, id: string): Promise<WalletBudgets> {
  const wallet = await visible(deps, call, id)
  return shown(deps, wallet, await spentOf(deps.db, wallet))
}

/** What was counted of a wallet. Its record says whether there is a count. @throws record_tampered */
async function spentOf(db: Db, { tenant_id, id, budgets }: WalletRow, look = findSpending): Promise<Spent> {
  if (budgets === null) return {}
  const row = await look(db, tenant_id, id)
  return row === undefined ? refuseDeleted(db, { tenant_id, wallet_id: id }) : row.spent
}

const unitsOf = ({ amount }: Pick<WalletBudget, 'amount'>) => parseAmount(amount) ?? 0n

/** A wallet's own budgets after a change, and those of before that allow more now. */
function changed(
  before: readonly WalletBudget[],
  input: readonly BudgetInput[],
  by: WalletBudget['setBy'],
): { limits: WalletBudget[]; raised: WalletBudget[] } {
  const known = new Map(before.map((budget) => [budgetKey(budget), budget]))
  const limits = input.map(budgetLimit).map((limit): WalletBudget => {
    const old = known.get(budgetKey(limit))
    if (old !== undefined && unitsOf(old) === unitsOf(limit)) return old
    // What a server lowers stays the owner's, who alone can raise it again.
    return { ...limit, setBy: old?.setBy === 'owner' ? 'owner' : by }
  })
  const next = new Map(limits.map((limit) => [budgetKey(limit), unitsOf(limit)]))
  const raised = before.filter((old) => {
    const units = next.get(budgetKey(old))
    return units === undefined || units > unitsOf(old)
  })
  return { limits, raised }
}

/** @throws budget_of_owner; and for the owner what creating a session throws */
async function requireMayRaise(deps: Deps, call: MaybeUserCall, wallet: WalletRow, raised: WalletBudget[]) {
  const { caller, user } = call
  if (user === null || user.sessionId === null) {
    const theirs = raised.find(({ setBy }) => setBy === 'owner')
    if (theirs === undefined) return
    const { asset, window } = theirs
    throw fail('budget_of_owner').about(
      'budgets',
      `The owner has set the budget of ${theirs.amount} ${asset.symbol} (${window}). It can be lowered here, but not raised or removed.`,
    )
  }
  if (raised.length === 0) return
  if (wallet.custody !== 'embedded') await requireOwnSession(deps, { caller, user })
  await requireStepUp(deps, caller, user)
}

/**
 * Replaces a wallet's own budgets. Once this has been answered, nothing is signed beyond them: it waits for those who act for
 * the user, and what was decided on the wallet as it was is not written any more. A budget that stays keeps its count.
 * @throws not_found, validation_failed, budget_of_owner, and for the owner what creating a session throws
 */
export async function setBudgets(
  deps: Deps,
  call: MaybeUserCall,
  id: string,
  { budgets }: SetBudgets,
): Promise<WalletBudgets> {
  const wrong = budgetProblems(budgets)
  if (wrong.length > 0) throw fail('validation_failed', wrong)
  const { id: walletId, user_id: userId } = await visible(deps, call, id)
  const by = call.user?.sessionId == null ? 'server' : 'owner'
  return deps.db.tx(async (tx) => {
    const inTx = { ...deps, db: tx }
    await lockOutActs(tx, userId)
    const before = await lockWalletRow(tx, call.caller, walletId)
    const { limits, raised } = changed(before.budgets?.limits ?? [], budgets, by)
    await requireMayRaise(inTx, call, before, raised)
    const spent = await spentOf(tx, before, lockSpending)
    if (isDeepStrictEqual(limits, before.budgets?.limits ?? [])) return shown(inTx, before, spent)
    const now = deps.now()
    const row = await storeBudgets(tx, { ...before, budgets: { limits }, updated_at: now })
    if (before.budgets === null) await insertSpending(tx, { tenant_id: row.tenant_id, wallet_id: row.id }, now)
    const kept = await keepCounts(inTx, row, spent, now)
    const told = limits.map(({ setBy: _, ...limit }) => limit)
    await publish(tx, deps, eventOf(row, 'budget.updated', { walletId, userId, by, budgets: told }, call))
    return shown(inTx, row, kept)
  })
}

/**
 * Drops the counts of budgets that hold no more: one that is set again begins at nothing. Not while a transaction is open: what
 * it gives back must not be taken from a count that never had it.
 */
async function keepCounts(deps: Pick<Deps, 'auth' | 'db'>, row: WalletRow, spent: Spent, now: Date): Promise<Spent> {
  const limits = await limitsOf(deps, { ...row, own: row.budgets?.limits ?? [] })
  const keys = new Set(limits.map(({ key }) => key))
  const kept = Object.fromEntries(Object.entries(spent).filter(([key]) => keys.has(key)))
  if (Object.keys(kept).length === Object.keys(spent).length) return spent
  if (await hasUnsettled(deps.db, row.tenant_id, row.id)) return spent
  const before = await lockSpending(deps.db, row.tenant_id, row.id)
  if (before !== undefined) await storeSpending(deps.db, before, kept, now)
  return kept
}
