import { z } from 'zod'
import { Time } from '../../platform/http/route.ts'
import { BudgetInputs } from '../../tenancy/apps/schema.ts'

export const Budget = z
  .object({
    asset: z.object({ issuer: z.string(), symbol: z.string().meta({ example: 'USDX' }) }),
    amount: z.string().meta({ description: 'The most that can be spent within the window.', example: '100' }),
    window: z.enum(['lifetime', 'rolling_24h', 'rolling_30d', 'day_utc']),
    recipient: z.string().nullable().meta({ description: 'Counts only what this party receives.', example: null }),
    templateId: z
      .string()
      .nullable()
      .meta({ description: 'Counts only what commands on contracts of this template cost.', example: null }),
    setBy: z.enum(['owner', 'server', 'app']).meta({
      description: '`app`: it is a setting of the app. Only the owner can raise what the owner set.',
    }),
    spent: z.string().meta({ description: 'What was spent or is reserved within the window.', example: '30' }),
    remaining: z.string().meta({ example: '70' }),
    resetsAt: Time.nullable().meta({
      description: 'When some of `spent` no longer counts; null if nothing is spent, or if it counts for good.',
    }),
  })
  .meta({ id: 'Budget', description: 'What all delegated sessions of a wallet together may spend.' })
export type Budget = z.infer<typeof Budget>

export const WalletBudgets = z
  .object({
    walletId: z.string(),
    budgets: z.array(Budget).meta({ description: "The wallet's own." }),
    appBudgets: z.array(Budget).meta({ description: "Those of the wallet's app, which hold as well." }),
  })
  .meta({ id: 'WalletBudgets' })
export type WalletBudgets = z.infer<typeof WalletBudgets>

export const SetBudgets = z
  .strictObject({
    budgets: BudgetInputs.meta({
      description: "All of the wallet's own budgets. Those that are left out are removed.",
    }),
  })
  .meta({ id: 'SetBudgets' })
export type SetBudgets = z.infer<typeof SetBudgets>
