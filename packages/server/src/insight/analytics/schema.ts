import { z } from 'zod'

/** How far back a query looks, today included. */
export const PERIODS = { '7d': 7, '30d': 30, '90d': 90 } as const

export const AnalyticsQuery = z.strictObject({
  period: z
    .enum(['7d', '30d', '90d'])
    .optional()
    .meta({ description: 'The number of days, including today (default 30d).', example: '30d' }),
  app_id: z.string().optional().meta({ description: 'Count only this app.' }),
})
export type AnalyticsQuery = z.infer<typeof AnalyticsQuery>

const Day = (description: string, example: string) => z.string().meta({ format: 'date', description, example })
const Count = (description: string, example: number) => z.int().meta({ description, example })

const COUNTS = {
  newUsers: Count('New users, including guests that became users and imported users.', 12),
  activeUsers: Count('Active users. Each counts once per day, and in `totals` once per period.', 240),
  signIns: z.object({
    passkey: Count('Sign-ins by passkey.', 180),
    messenger: Count('Sign-ins by messenger.', 60),
    email: Count('Sign-ins with a code sent by email.', 40),
    exchange: Count('Sign-ins with a token of a trusted issuer.', 25),
    provider: Count('Sign-ins with an account at a sign-in provider.', 20),
    wallet: Count('Sign-ins with an external wallet.', 10),
  }),
  guests: Count('Guest sessions that started.', 31),
  guestsConverted: Count('Guests that became users.', 4),
  walletsCreated: Count('Created wallets.', 11),
  transactionsCompleted: Count('Transactions that are final on the ledger.', 96),
  transactionsFailed: Count('Transactions that failed: they certainly did not take effect.', 2),
  deliveriesSucceeded: Count('Deliveries that a webhook accepted, without tests.', 310),
  deliveriesFailed: Count('Deliveries that became dead letters.', 1),
  apiRequests: Count('Requests under `/v1` with a valid key.', 5200),
}

/** What happened in a period, day by day. */
export const Analytics = z
  .object({
    period: z.enum(['7d', '30d', '90d']).meta({ example: '7d' }),
    from: Day('The first day, in UTC.', '2026-11-15'),
    to: Day('The last day, in UTC: today.', '2026-11-21'),
    totals: z.object(COUNTS),
    series: z
      .array(z.object({ date: Day('The day, in UTC.', '2026-11-21'), ...COUNTS }))
      .meta({ description: 'Every day of the period, earliest first. Days without activity have zeros.' }),
  })
  .meta({ id: 'Analytics' })
export type Analytics = z.infer<typeof Analytics>
/** The counts of a day, or of a whole period. */
export type Counts = Analytics['totals']
