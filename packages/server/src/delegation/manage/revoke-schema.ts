import { z } from 'zod'
import { Time } from '../../platform/http/route.ts'

/** How many transactions in flight a kill switch lists. */
export const IN_FLIGHT_MAX = 1_000

/** What a kill switch ended. */
export const RevokedSessions = z
  .object({
    revoked: z.int().meta({ description: 'How many active sessions this call ended.', example: 3 }),
    inFlight: z
      .array(
        z.object({
          transactionId: z.string(),
          commandId: z.string(),
          delegatedSessionId: z.string(),
          walletId: z.string(),
          ledger: z.string(),
          expiresAt: Time.nullable(),
        }),
      )
      .meta({
        description: `Transactions that were signed before and may still happen, because their ledger has not reported the outcome: at most ${IN_FLIGHT_MAX}, the oldest. Empty on the embedded ledger.`,
        example: [],
      }),
    moreInFlight: z.boolean().meta({
      description: 'Whether there are more of them. `GET /transactions?status=submitted` lists all.',
      example: false,
    }),
  })
  .meta({ id: 'RevokedSessions' })
export type RevokedSessions = z.infer<typeof RevokedSessions>
