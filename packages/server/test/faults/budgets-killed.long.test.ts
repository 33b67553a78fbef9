import { afterAll, describe, expect, it } from 'vitest'
import { type Answer, eventually, newDatabase } from '../harness/harness.ts'
import { DataFolder, killAll } from '../harness/service-process.ts'
import { Mortal, outcome } from './mortal.ts'
import { scale } from './report.ts'
import { BOB, newScene, transfer } from './scene.ts'

const TEST_MS = 120_000 + 60_000 * scale
/** Past the lease of what was begun and not finished. */
const PAST_LEASE_MS = 61_000
const ROUNDS = 2 + scale

afterAll(killAll)

describe.concurrent('a budget', () => {
  it.for(['embedded', 'remote'])(
    'is spent exactly by three sessions through two processes that are killed again and again, on the %s ledger',
    { timeout: TEST_MS },
    async (ledger, context) => {
      const database = await newDatabase()
      const folder = new DataFolder()
      context.onTestFinished(async () => {
        await folder.remove()
        await database.drop()
      })
      const one = new Mortal(folder, database.url)
      await one.start()
      const two = new Mortal(folder, database.url, one)
      await two.start()
      const amount = 6 * ROUNDS
      const scene = await newScene(one, ledger, { holdings: 4 * amount, of: '1', cap: '1000' })
      const { userId, walletId, policy } = (await one.call('GET', `/delegated-sessions/${scene.sessionId}`)).body.data
      const paths = [scene.path]
      for (let n = 0; n < 2; n += 1) {
        const made = await one.call('POST', '/delegated-sessions', { policy }, { 'x-user-id': userId })
        paths.push(`/delegated-sessions/${made.body.data.id}/execute`)
      }
      const { asset } = policy.spend[0]
      const set = await one.call('PUT', `/wallets/${walletId}/budgets`, {
        budgets: [{ asset, amount: String(amount) }],
      })
      expect(set.status, set.text).toBe(200)

      const left = scene.ids.slice(0, 2 * amount).map((id, n) => ({
        path: paths[n % paths.length] as string,
        body: { commandId: `c${n}`, commands: [transfer(id, undefined, BOB)] },
      }))
      const asked = [...left]
      const isDone = ({ status, body }: Answer) => status === 200 && body.data.status === 'completed'
      let cutOff = 0
      for (let round = 0; round < ROUNDS; round += 1) {
        const ours = left.splice(0, Math.ceil((2 * amount) / ROUNDS))
        let answered = 0
        const lane = async (by: Mortal) => {
          for (let next = ours.shift(); next !== undefined; next = ours.shift()) {
            const answer = await by.call('POST', next.path, next.body).catch(() => null)
            if (answer === null) cutOff += 1
            else answered += 1
          }
        }
        const dying = round % 2 === 0 ? one : two
        const lanes = Promise.all([one, two, one, two].map(lane))
        await eventually('some are answered', async () => answered > 1 || ours.length === 0)
        await dying.process.kill()
        await lanes
        await dying.start(PAST_LEASE_MS)
      }
      // From here on both clocks agree: one that is ahead may give up what the other one is at.
      if (ROUNDS % 2 === 1) {
        await two.process.kill()
        await two.start(PAST_LEASE_MS)
      }
      // All are asked for again, by the other process. Those that were released have failed for good.
      const answers = await Promise.all(asked.map(({ path, body }, n) => outcome(n % 2 === 0 ? two : one, path, body)))
      const counts = () => one.call('GET', `/wallets/${walletId}/budgets`)
      const completed = answers.filter(isDone).length
      expect(cutOff).toBeGreaterThan(0)
      expect(completed).toBeLessThanOrEqual(amount)
      await eventually('nothing is open', async () => {
        const open = await one.sql(`select from transactions where status not in ('completed', 'failed')`)
        return open.length === 0
      })
      // Not a unit was lost: exactly the rest can still be spent.
      let more = 0
      for (const [n, id] of scene.ids.slice(2 * amount).entries()) {
        const commands = [transfer(id, undefined, BOB)]
        const answer = await (n % 2 === 0 ? one : two).call('POST', paths[n % paths.length] as string, { commands })
        if (isDone(answer)) more += 1
        else expect(answer.body.code, answer.text).toBe('budget_exceeded')
      }
      expect(completed + more).toBe(amount)
      const [bobs] = await one.sql<{ sum: string }>(
        `select sum((arguments ->> 'amount')::numeric)::text as sum from ledger_contracts
         where arguments ->> 'owner' = $1 and archived_offset is null`,
        [BOB],
      )
      expect(bobs?.sum).toBe(String(amount))
      expect((await counts()).body.data.budgets).toMatchObject([{ spent: String(amount), remaining: '0' }])
      for (const process of [one, two]) expect(await process.process.stop()).toEqual({ code: 0, signal: null })
    },
  )
})
