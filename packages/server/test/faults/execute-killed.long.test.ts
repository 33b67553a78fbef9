import { afterAll, describe, expect, it, type TestContext } from 'vitest'
import { eventually, newDatabase } from '../harness/harness.ts'
import { DataFolder, killAll } from '../harness/service-process.ts'
import { Mortal, outcome } from './mortal.ts'
import { long, report, scale } from './report.ts'
import { BOB, expectWhole, newScene, transfer } from './scene.ts'

const TEST_MS = 60_000 + 30_000 * scale
/** Past the lease of what was signed and not sent, and before it expires. */
const PAST_LEASE_MS = 32_000
const AMOUNT = '3'
const STEPS = ['reserved', 'signed', 'submitted', 'settled']
/** On the embedded ledger what is submitted is settled. */
const EMBEDDED_STEPS = STEPS.filter((step) => step !== 'submitted')

afterAll(killAll)

async function newMortal(context: TestContext): Promise<Mortal> {
  const database = await newDatabase()
  const folder = new DataFolder()
  context.onTestFinished(async () => {
    await folder.remove()
    await database.drop()
  })
  const service = new Mortal(folder, database.url)
  await service.start()
  return service
}

/** With an Idempotency-Key and without; in the quick run by turns. */
const cases = (steps: readonly string[]) =>
  steps.flatMap((step, index) => (long ? [false, true] : [index % 2 === 1]).map((keyed) => ({ step, keyed })))

describe.concurrent('executions whose process is killed', () => {
  it.for([
    ['embedded', cases(EMBEDDED_STEPS)],
    ['remote', cases(STEPS)],
  ] as const)(
    'on the %s ledger, at whichever step, happen once when they are asked for again',
    { timeout: TEST_MS },
    async ([ledger, deaths], context) => {
      const service = await newMortal(context)
      const cap = String(Number(AMOUNT) * deaths.length)
      const scene = await newScene(service, ledger, { holdings: deaths.length + 1, of: '10', cap })
      for (const [index, { step, keyed }] of deaths.entries()) {
        const body = { commandId: `c${index}`, commands: [transfer(scene.ids[index] as string, AMOUNT, BOB)] }
        const headers: Record<string, string> = keyed ? { 'idempotency-key': `k${index}` } : {}
        service.dieAt(step)
        await expect(service.call('POST', scene.path, body, headers)).rejects.toThrow()
        expect(await service.process.exited, step).toEqual({ code: null, signal: 'SIGKILL' })
        await service.start(ledger === 'remote' && step === 'signed' ? PAST_LEASE_MS : 0)
        const done = await outcome(service, scene.path, body, headers)
        expect(done.status, done.text).toBe(200)
        expect((await service.call('POST', scene.path, body)).text).toBe(done.text)
        expect(await expectWhole(service, scene)).toBe(index + 1)
      }
      const last = scene.ids.at(-1) as string
      const over = await service.call('POST', scene.path, { commands: [transfer(last, '0.0000000001', BOB)] })
      expect(over.body.code).toBe('spend_limit_exceeded')
      expect(await service.process.stop()).toEqual({ code: 0, signal: null })
    },
  )

  it.for(long ? ['embedded', 'remote'] : ['remote'])(
    'on the %s ledger, at any time, never pass the cap, and what is never asked for again is released',
    { timeout: TEST_MS },
    async (ledger, context) => {
      const service = await newMortal(context)
      const cap = 6 + 6 * scale
      const scene = await newScene(service, ledger, { holdings: 2 * cap, of: '1', cap: String(cap) })
      const bodies = scene.ids.map((id, index) => ({
        commandId: `c${index}`,
        commands: [transfer(id, undefined, BOB)],
      }))
      const acknowledged = new Set<string>()
      let cutOff = 0
      for (let round = 0; round < scale; round += 1) {
        const left = bodies.slice((round * bodies.length) / scale, ((round + 1) * bodies.length) / scale)
        // A few at a time, so that each kill meets some that have not begun, some under way and some that have ended.
        const lane = async () => {
          for (let body = left.shift(); body !== undefined; body = left.shift()) {
            const answer = await service.call('POST', scene.path, body).catch(() => null)
            if (answer === null) cutOff += 1
            if (answer?.status === 200 && answer.body.data.status === 'completed') acknowledged.add(body.commandId)
          }
        }
        const before = acknowledged.size
        const lanes = Promise.all(Array.from({ length: 4 }, lane))
        await eventually('some are done', async () => acknowledged.size > before || left.length === 0)
        await service.process.kill()
        await lanes
        await service.start(PAST_LEASE_MS)
      }
      // Half of them are asked for again, the others left to themselves.
      const again = bodies.filter((_, index) => index % 2 === 0)
      const answers = await Promise.all(again.map((body) => outcome(service, scene.path, body)))
      for (const { status } of answers) expect([200, 403, 409, 410]).toContain(status)
      await service.process.kill()
      await service.start(10 * 60_000)
      await eventually('nothing is open', async () => {
        const open = await service.sql(`select from transactions where status not in ('completed', 'failed')`)
        return open.length === 0
      })
      const rows = await service.sql<{ command_id: string }>(
        `select command_id from transactions where delegated_session_id = $1 and status = 'completed'`,
        [scene.sessionId],
      )
      const completed = new Set(rows.map((row) => row.command_id))
      const lost = [...acknowledged].filter((commandId) => !completed.has(commandId))
      report(context, {
        fault: `kill -9 among executions, ${ledger} ledger, × ${scale}`,
        acknowledged: acknowledged.size,
        delivered: null,
        lost: lost.length,
        duplicates: null,
        inFlight: cutOff,
        recoveredMs: null,
      })
      expect(cutOff).toBeGreaterThan(0)
      expect(lost).toEqual([])
      expect(await expectWhole(service, scene)).toBe(completed.size)
      expect(completed.size).toBeLessThanOrEqual(cap)
      expect(await service.process.stop()).toEqual({ code: 0, signal: null })
    },
  )
})
