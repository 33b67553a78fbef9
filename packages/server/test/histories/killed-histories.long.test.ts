import { afterAll, beforeAll, expect, test } from 'vitest'
import { killAll } from '../harness/service-process.ts'
import { type KillStage, openKillStage, runKilledHistory } from './killed.ts'

/** `npm run histories -- --kill 200` sets more. */
const count = Number(process.env.HALFKEY_HISTORIES ?? '2')
const firstSeed = Number(process.env.HALFKEY_HISTORY_SEED ?? '1')
const A_HISTORY_MS = 90_000
const PROGRESS = 10

let stage: KillStage
beforeAll(async () => {
  stage = await openKillStage()
})
afterAll(async () => {
  await stage?.close()
  await killAll()
})

test(
  `${count} histories in which workers are killed lose nothing, keep each key's order and send to nobody else`,
  async () => {
    const sum = { events: 0, arrived: 0, repeats: 0 }
    for (let at = 1; at <= count; at += 1) {
      const seed = firstSeed + at - 1
      const verdict = await runKilledHistory(stage, seed)
      for (const name of Object.keys(sum) as (keyof typeof sum)[]) sum[name] += verdict[name]
      expect(verdict.violations, `npm run histories -- --kill 1 --seed ${seed}`).toEqual([])
      if (at % PROGRESS === 0)
        process.stdout.write(`from seed ${firstSeed}: ${at} of ${count} histories, ${JSON.stringify(sum)}\n`)
    }
    expect(sum.arrived).toBeGreaterThan(100 * count)
  },
  A_HISTORY_MS * count,
)
