import type { Deps } from '../../platform/deps.ts'
import type { ErrorDetail } from '../../platform/http/errors.ts'
import type { Id } from '../../platform/ids.ts'
import { knownSetting } from './known-settings.ts'
import type { BudgetInput } from './schema.ts'
import * as store from './store.ts'

/** A limit on what all sessions of a wallet together may spend, as it is stored: with everything that can be left out. */
export interface BudgetLimit {
  asset: { issuer: string; symbol: string }
  /** In the form of the API. */
  amount: string
  window: NonNullable<BudgetInput['window']>
  /** Only what this party receives. */
  recipient: string | null
  /** Only what commands on contracts of this template cost. */
  templateId: string | null
}

/** What a budget counts. Two with the same key count the same, and have one count. */
export function budgetKey({ asset, window, recipient, templateId }: Omit<BudgetLimit, 'amount'>): string {
  return JSON.stringify([asset.issuer, asset.symbol, window, recipient, templateId])
}

/** A budget as it is stored. */
export function budgetLimit({ asset, amount, window, recipient, templateId }: BudgetInput): BudgetLimit {
  const { issuer, symbol } = asset
  return {
    asset: { issuer, symbol },
    amount,
    window: window ?? 'lifetime',
    recipient: recipient ?? null,
    templateId: templateId ?? null,
  }
}

/** What is wrong with budgets that their schema cannot express. Fields are named below `field`. */
export function budgetProblems(budgets: readonly BudgetInput[], field = 'budgets'): ErrorDetail[] {
  const seen = new Set<string>()
  return budgets.flatMap((budget, index): ErrorDetail[] => {
    const at = `${field}.${index}`
    const key = budgetKey(budgetLimit(budget))
    if (seen.has(key)) return [{ field: at, code: 'repeated', message: 'Another budget limits the same.' }]
    seen.add(key)
    if (budget.recipient == null || budget.templateId == null) return []
    const message = 'Must be absent if "recipient" is set. Set two budgets to limit both.'
    return [{ field: `${at}.templateId`, code: 'invalid', message }]
  })
}

const knownBudgets = knownSetting<readonly BudgetLimit[]>()

/** Drops the cached budgets of apps. Call it after the commit of a change. */
export const forgetBudgets = (deps: Pick<Deps, 'auth'>): void => knownBudgets(deps).forget()

/** What each wallet of an app may spend. Another process's change counts within a second. */
export async function budgetsOfApp(
  deps: Pick<Deps, 'auth' | 'db'>,
  tenantId: Id<'ten'>,
  appId: Id<'app'>,
): Promise<readonly BudgetLimit[]> {
  const read = async () => (await store.findApp(deps.db, { tenantId, appId: null }, appId))?.budgets.limits ?? []
  return knownBudgets(deps).of(tenantId, appId, read)
}
