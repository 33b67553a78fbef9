import { lockOutActs } from '../../platform/concurrency/user-lock.ts'
import type { Db } from '../../platform/db/db.ts'
import { lockWalletRow, setBudgets } from '../../wallets/wallets/service.ts'
import type { Acting } from '../access.ts'
import { insertSpending } from './spending-store.ts'

/** Whether an app's budgets hold for a wallet of which nothing was counted yet. */
export const isUncounted = ({ wallet__budgets: own, limits }: Pick<Acting, 'wallet__budgets' | 'limits'>): boolean =>
  own === null && limits.length > 0

/**
 * Begins to count what is spent of a wallet, once, before the first transaction that an app's budget concerns. From then on
 * the wallet's record says that there is a count. Waits for those who act for the user: they decided without one.
 */
export async function beginCounting(
  db: Db,
  { tenant_id, wallet_id, user_id }: Pick<Acting, 'tenant_id' | 'wallet_id' | 'user_id'>,
  now: Date,
): Promise<void> {
  await db.tx(async (tx) => {
    await lockOutActs(tx, user_id)
    const wallet = await lockWalletRow(tx, { tenantId: tenant_id, appId: null }, wallet_id)
    if (wallet.budgets !== null) return
    await setBudgets(tx, { ...wallet, budgets: { limits: [] } })
    await insertSpending(tx, { tenant_id, wallet_id }, now)
  })
}
