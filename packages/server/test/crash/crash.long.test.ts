import { appendFileSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { killAll } from '../harness/service-process.ts'
import { CASES, runCase } from './cases.ts'
import type { CrashAdapter, CrashService } from './service.ts'

const START_MS = 300_000
const CASE_MS = 300_000
const HOUR_MS = 3_600_000

/** `npm run crash-test` runs it at length, and takes another service's adapter. */
const { HALFKEY_CRASH_REPORT: reportFile, HALFKEY_CRASH_ADAPTER: adapterFile } = process.env
const size = reportFile === undefined ? { processes: 3, cap: 6, rounds: 1 } : { processes: 10, cap: 40, rounds: 5 }

afterAll(killAll)

describe.each([
  { clocksApart: false, processes: size.processes },
  { clocksApart: true, processes: 2 },
])('agents spend what they may and no unit more, clocks apart: $clocksApart', ({ clocksApart, processes }) => {
  let service: CrashService
  beforeAll(async () => {
    const { adapter }: { adapter: CrashAdapter } = await (adapterFile === undefined
      ? import('./halfkey.ts')
      : import(adapterFile))
    service = await adapter.start({ processes, clockAheadMs: clocksApart ? HOUR_MS : 0 })
  }, START_MS)
  afterAll(() => service.end())

  it.each(CASES.filter((each) => (each.clocksApart ?? false) === clocksApart))(
    '$name',
    { timeout: CASE_MS },
    async (each) => {
      const result = await runCase(each, service, { ...size, processes })
      const { allowed, spent, paid, unknown } = result
      if (reportFile !== undefined) appendFileSync(reportFile, `${JSON.stringify({ name: each.name, ...result })}\n`)
      // What was answered as paid is, and the permission can be used up.
      expect(paid).toBeLessThanOrEqual(spent)
      expect(spent).toBeLessThanOrEqual(paid + unknown)
      if (clocksApart) expect(spent).toBeLessThanOrEqual(allowed)
      else expect(spent).toBe(allowed)
    },
  )
})
