import type { Deps } from '../../platform/deps.ts'
import type { Id } from '../../platform/ids.ts'
import { formatAmount, parseAmount } from '../../platform/ports/amount.ts'
import { type BudgetLimit, budgetKey, budgetsOfApp } from '../../tenancy/apps/service.ts'
import type { WalletBudget } from '../../wallets/wallets/service.ts'
import { positive, type Spent, standing } from '../policy/windows.ts'
import type { Budget } from './budget-schema.ts'

/** A budget that holds for a wallet. */
export interface Limit extends Omit<BudgetLimit, 'amount'> {
  /** Its place in what `GET /wallets/:id/budgets` returns. */
  name: `${'budgets' | 'appBudgets'}[${number}]`
  /** What it counts: see `budgetKey`. */
  key: string
  units: bigint
  setBy: Budget['setBy']
}

/** A wallet, and the budgets that are its own. */
export interface BudgetedWallet {
  tenant_id: Id<'ten'>
  app_id: Id<'app'>
  own: readonly WalletBudget[]
}

const NONE: readonly Limit[] = []

const compiled =
  (list: 'budgets' | 'appBudgets', by?: 'app') =>
  (budget: BudgetLimit & { setBy?: WalletBudget['setBy'] }, index: number): Limit => {
    const { amount, setBy, ...rest } = budget
    const units = parseAmount(amount)
    if (units === null) throw new Error('a budget has no amount')
    return { ...rest, name: `${list}[${index}]`, key: budgetKey(budget), units, setBy: by ?? setBy ?? 'owner' }
  }

/** All budgets that hold for a wallet: its own, then those of its app. Each of them holds, so that the smaller one decides. */
export async function limitsOf(
  deps: Pick<Deps, 'auth' | 'db'>,
  { tenant_id, app_id, own }: BudgetedWallet,
): Promise<readonly Limit[]> {
  const ofApp = await budgetsOfApp(deps, tenant_id, app_id)
  if (own.length === 0 && ofApp.length === 0) return NONE
  return [...own.map(compiled('budgets')), ...ofApp.map(compiled('appBudgets', 'app'))]
}

/** What is left of a budget. */
export function leftOf({ key, units, setBy, ...limit }: Limit, spent: Spent, now: Date): Budget {
  const { sum, resetsAt } = standing(limit.window, spent[key] ?? {}, now)
  const { asset, window, recipient, templateId } = limit
  return {
    asset,
    amount: formatAmount(units),
    window,
    recipient,
    templateId,
    setBy,
    spent: formatAmount(sum),
    remaining: formatAmount(positive(units - sum)),
    resetsAt: resetsAt?.toISOString() ?? null,
  }
}
