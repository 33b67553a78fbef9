import { afterAll, beforeAll, expect, test } from 'vitest'
import { runHistory } from './history.ts'
import { openStage, type Stage } from './stage.ts'

/** `npm run histories` sets more. */
const count = Number(process.env.HALFKEY_HISTORIES ?? '40')
const firstSeed = Number(process.env.HALFKEY_HISTORY_SEED ?? '1')
const A_HISTORY_MS = 10_000
const PROGRESS = 100

let stage: Stage
beforeAll(async () => {
  stage = await openStage()
})
afterAll(() => stage?.close())

test(
  `${count} random histories of two workers keep every promise`,
  async () => {
    const sum = { steps: 0, deliveries: 0, sends: 0 }
    for (let at = 1; at <= count; at += 1) {
      const verdict = await runHistory(stage, firstSeed + at - 1)
      for (const name of Object.keys(sum) as (keyof typeof sum)[]) sum[name] += verdict[name]
      expect(verdict.steps).toBeGreaterThanOrEqual(verdict.violations.length === 0 ? 50 : 0)
      const told = `npm run histories -- --seed ${verdict.seed}\n${verdict.record.join('\n')}`
      expect(verdict.violations, told).toEqual([])
      if (at % PROGRESS === 0 || (at === count && count > PROGRESS))
        process.stdout.write(`from seed ${firstSeed}: ${at} of ${count} histories, ${JSON.stringify(sum)}\n`)
    }
    // Histories in which nothing happens prove nothing.
    expect(sum.deliveries).toBeGreaterThan(count > 10 ? 10 * count : 0)
  },
  A_HISTORY_MS * count,
)
