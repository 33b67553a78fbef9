import { z } from 'zod'
import { Time } from '../../platform/http/route.ts'
import { Policy } from '../policy/policy-schema.ts'

const SECONDS_MIN = 60
const SECONDS_MAX = 30 * 86_400
const LAST_MAX = 500

export const RehearsePolicy = z
  .strictObject({
    policy: Policy,
    expiresInSeconds: z.int().min(SECONDS_MIN).max(SECONDS_MAX).optional().meta({
      description: 'How long the session would last, as in `POST /delegated-sessions`.',
      example: 3600,
    }),
  })
  .meta({ id: 'RehearsePolicy' })
export type RehearsePolicy = z.infer<typeof RehearsePolicy>

export const RehearsedPolicy = z
  .object({
    policy: Policy.meta({ description: 'The policy with everything that was left out and has a default.' }),
    words: z
      .array(z.object({ rule: z.string().meta({ example: 'allow[0]' }), text: z.string() }))
      .meta({ description: 'What each entry of the policy says.' }),
    warnings: z
      .array(
        z.object({
          field: z.string().meta({ example: 'policy.spend.0.amount' }),
          code: z.enum(['cap_zero', 'no_expiry', 'never_open', 'unreachable']),
          message: z.string(),
        }),
      )
      .meta({ description: 'What is allowed, but is probably a mistake.' }),
  })
  .meta({ id: 'RehearsedPolicy' })
export type RehearsedPolicy = z.infer<typeof RehearsedPolicy>
export type Warning = RehearsedPolicy['warnings'][number]

export const SimulatePolicy = z
  .strictObject({
    policy: Policy,
    walletId: z.string().meta({ example: 'wal_01jb2m7x9kq4t8v6w0r3s5y1zc' }),
    last: z.int().min(1).max(LAST_MAX).optional().meta({
      description:
        'How many completed transactions are looked at. Default: 100. A policy that has too many values to compare with so many is refused (`too_large`).',
      example: 100,
    }),
  })
  .meta({ id: 'SimulatePolicy' })
export type SimulatePolicy = z.infer<typeof SimulatePolicy>

const Simulated = z
  .object({
    transactionId: z.string().meta({ example: 'tx_01jb2m7x9kq4t8v6w0r3s5y1zh' }),
    commandId: z.string().meta({ example: 'order-1042' }),
    at: Time.meta({ description: 'When it was requested.' }),
    verdict: z.enum(['allowed', 'asked', 'refused']),
    code: z
      .string()
      .nullable()
      .meta({ description: 'The error code of a refusal; `approval_required` if the owner would have been asked.' }),
    rule: z.string().meta({ example: 'spend[0]' }),
    message: z.string(),
    trace: z
      .array(z.string())
      .meta({ description: 'Which rules were checked, and what they said: the first 40 lines.' }),
  })
  .meta({ id: 'SimulatedTransaction' })
export type Simulated = z.infer<typeof Simulated>

export const Simulation = z
  .object({
    walletId: z.string(),
    allowed: z.int(),
    asked: z.int(),
    refused: z.int(),
    transactions: z.array(Simulated).meta({ description: 'Newest first.' }),
  })
  .meta({ id: 'Simulation' })
export type Simulation = z.infer<typeof Simulation>
