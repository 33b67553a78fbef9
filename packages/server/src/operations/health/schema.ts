import { z } from 'zod'
import { Time } from '../../platform/http/route.ts'

export const Health = z
  .object({ status: z.literal('ok'), version: z.string(), uptimeSeconds: z.int() })
  .meta({ id: 'Health' })

export const Check = z
  .object({
    name: z.enum(['database', 'migrations', 'worker', 'floor', 'shutdown']),
    state: z.enum(['ok', 'failing', 'unknown']),
    message: z.string().nullable(),
    durationMs: z.number(),
    checkedAt: Time,
  })
  .meta({ id: 'ReadinessCheck' })
export type Check = z.infer<typeof Check>

export const Readiness = z.object({ status: z.literal('ready'), checks: z.array(Check) }).meta({ id: 'Readiness' })
