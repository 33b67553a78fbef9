import { z } from 'zod'

/** How far back a query looks, today included. */
export const PERIODS = { '7d': 7, '30d': 30, '90d': 90 } as const

export const AnalyticsQuery = z.strictObject({
  period: z
    .enum(['7d', '30d', '90d'])
    .optional()
    .meta({ description: 'How many days, today included (default 30d).', example: '30d' }),
  app_id: z.string().optional().meta({ description: 'Only what happened in this app.' }),
})
export type AnalyticsQuery = z.infer<typeof AnalyticsQuery>

const Day = (description: string, example: string) => z.string().meta({ format: 'date', description, example })
const Count = (description: string, example: number) => z.int().meta({ description, example })

const COUNTS = {
  newUsers: Count('Users that came to be, guests that became users and imported ones included.', 12),
  activeUsers: Count('Users who did something: each once a day, and in `totals` once in the period.', 240),
  signIns: z.object({
    passkey: Count('Sign-ins by passkey.', 180),
    messenger: Count('Sign-ins by messenger.', 60),
  }),
  guests: Count('Guest sessions that began.', 31),
  guestsConverted: Count('Guests that became users.', 4),
  walletsCreated: Count('Wallets that were created.', 11),
  transactionsCompleted: Count('Transactions that are final on the ledger.', 96),
  transactionsFailed: Count('Transactions that certainly did not happen.', 2),
  deliveriesSucceeded: Count('Deliveries that a webhook took, tests left out.', 310),
  deliveriesFailed: Count('Deliveries that became dead letters.', 1),
  apiRequests: Count('Requests under `/v1` with a valid key.', 5200),
}

/** What happened in a period, day by day. */
export const Analytics = z
  .object({
    period: z.enum(['7d', '30d', '90d']).meta({ example: '7d' }),
    from: Day('The first day, in UTC.', '2026-11-15'),
    to: Day('The last day: today, in UTC.', '2026-11-21'),
    totals: z.object(COUNTS),
    series: z
      .array(z.object({ date: Day('The day, in UTC.', '2026-11-21'), ...COUNTS }))
      .meta({ description: 'Every day of the period, the earliest first; zeros where nothing was.' }),
  })
  .meta({ id: 'Analytics' })
export type Analytics = z.infer<typeof Analytics>
/** The counts of a day, or of a whole period. */
export type Counts = Analytics['totals']
