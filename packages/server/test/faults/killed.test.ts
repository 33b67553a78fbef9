import { afterAll, describe, expect, it, type TestContext } from 'vitest'
import { eventually } from '../harness.ts'
import { type Receiver, startReceiver } from '../receiver.ts'
import { DataFolder, killAll, startProcess } from '../service-process.ts'
import { leasesOf, newestWorker, type Sql, startApart } from './apart.ts'
import { expectNothingLost, listUsers, missingUsers, settle, subscribe, UserLoad, untilDelivered } from './load.ts'
import { long, report, scale } from './report.ts'
import { keepsTime } from './wrong-clock.ts'

const ENDPOINTS = 4
const TEST_MS = 90_000 + 30_000 * scale
/** A worker silent for 15 s is taken for dead, a lease ends by itself after 60 s. */
const FROZEN_MS = long ? 65_000 : 16_500

afterAll(killAll)

/** Half of the endpoints answer at once, half after some milliseconds: so a kill meets sends before and after their answer. */
async function slowAndFast(): Promise<Receiver> {
  const receiver = await startReceiver()
  context.onTestFinished(() => receiver.close())
  receiver.behave((received, response) => {
    const wait = Number(received.path.split('-')[1]) % 2 === 0 ? 0 : 25
    setTimeout(() => response.writeHead(200).end(), wait)
  })
  return receiver
}

describe.concurrent('a process that ends without warning', () => {
  it(
    'kill -9 of the whole service loses no acknowledged user or event; the same key again makes no second row',
    async (context: TestContext) => {
      const folder = new DataFolder()
      context.onTestFinished(() => folder.remove())
      const sql: Sql = (text, values) => folder.sql(text, values)
      const receiver = await slowAndFast()
      context.onTestFinished(() => receiver.close())
      const start = () => startProcess({ cwd: folder.path, env: folder.env() })
      let service = await start()
      const { key } = service
      const paths = await subscribe(service.url, key, receiver, ENDPOINTS)
      const load = new UserLoad({ url: service.url, key }).start()
      let inFlight = 0
      const rounds = 2 * scale
      for (let round = 0; round < rounds; round++) {
        await load.more(60 + Math.floor(Math.random() * 60))
        const worker = await newestWorker(sql)
        await service.kill()
        inFlight += await leasesOf(sql, worker)
        service = await start()
        load.moveTo(service.url)
      }
      const restartedAt = performance.now()
      await load.more(30)
      await load.stop()
      const cutOff = load.failures.filter(({ status }) => status === null).length
      const settled = await settle(load, receiver, paths)
      const recoveredMs = Math.round(performance.now() - restartedAt)
      const listed = await listUsers(service.url, key)
      report(context, {
        fault: `kill -9 of all, embedded database, × ${rounds}`,
        acknowledged: load.acknowledged.size,
        delivered: settled.delivered,
        lost: settled.missing.length + missingUsers(load, listed).length,
        duplicates: settled.duplicates,
        inFlight,
        recoveredMs,
      })
      expect(cutOff).toBeGreaterThan(0)
      expectNothingLost(load, listed, settled)
      expect(settled.duplicates).toBeLessThanOrEqual(inFlight)
      expect(await service.stop()).toEqual({ code: 0, signal: null })
    },
    TEST_MS,
  )

  it(
    'kill -9 of workers beside an API loses nothing: another takes over what they held',
    async (context: TestContext) => {
      const apart = await startApart(context)
      const { api, key, sql } = apart
      const receiver = await slowAndFast()
      context.onTestFinished(() => receiver.close())
      const startWorker = async () => {
        const process = await apart.start('worker')
        return { process, id: await newestWorker(sql) }
      }
      const workers = [await startWorker(), await startWorker()]
      const paths = await subscribe(api.url, key, receiver, ENDPOINTS)
      const load = new UserLoad({ url: api.url, key }).start()
      let inFlight = 0
      const rounds = 2 * scale
      for (let round = 0; round < rounds; round++) {
        await load.more(60 + Math.floor(Math.random() * 60))
        // Killed while it holds something, in the air or just answered.
        await eventually('a worker with leases', async () => (await leasesOf(sql, workers[0]!.id)) > 0, 30_000)
        const victim = workers.shift()!
        await victim.process.kill()
        inFlight += await leasesOf(sql, victim.id)
        workers.push(await startWorker())
      }
      const killedAt = performance.now()
      await load.stop()
      const settled = await settle(load, receiver, paths)
      const recoveredMs = Math.round(performance.now() - killedAt)
      const listed = await listUsers(api.url, key)
      report(context, {
        fault: `kill -9 of one worker of two × ${rounds}`,
        acknowledged: load.acknowledged.size,
        delivered: settled.delivered,
        lost: settled.missing.length,
        duplicates: settled.duplicates,
        inFlight,
        recoveredMs,
      })
      expect(load.failures).toEqual([])
      expectNothingLost(load, listed, settled)
      expect(settled.duplicates).toBeLessThanOrEqual(inFlight)
      for (const { process } of workers) expect(await process.stop()).toEqual({ code: 0, signal: null })
      expect(await api.stop()).toEqual({ code: 0, signal: null })
    },
    TEST_MS,
  )

  it(
    'a worker frozen until it counts as dead changes nothing when it goes on, and works again',
    async (context: TestContext) => {
      const apart = await startApart(context)
      const { api, key, sql } = apart
      const receiver = await startReceiver((_, response) => setTimeout(() => response.writeHead(200).end(), 150))
      context.onTestFinished(() => receiver.close())
      const paths = await subscribe(api.url, key, receiver, ENDPOINTS)
      const frozen = await apart.start('worker')
      const frozenId = await newestWorker(sql)
      const load = new UserLoad({ url: api.url, key }).start(4)
      // Only this worker runs yet: what the receiver holds open is its.
      await receiver.count('requests in flight', 30)
      frozen.signal('SIGSTOP')
      const frozenAt = performance.now()
      const inFlight = await leasesOf(sql, frozenId)
      await load.more(10)
      await load.stop()
      const other = await apart.start('worker')
      const thawed = eventually(
        'the time to go on',
        async () => performance.now() - frozenAt > FROZEN_MS,
        FROZEN_MS * 2,
      )
      const settled = await settle(load, receiver, paths)
      const recoveredMs = Math.round(performance.now() - frozenAt)
      await thawed
      const before = await eventually('all outcomes', async () => {
        const now = await outcomes(sql)
        return now.pending === 0 && now
      })
      frozen.signal('SIGCONT')
      await eventually('its late outcomes', async () => /came after their lease/.test(frozen.stderr))
      expect(await outcomes(sql)).toEqual(before)
      // Alone again, it must still deliver.
      expect(await other.stop()).toEqual({ code: 0, signal: null })
      const added = await api.call(key, 'POST', '/users', { body: { name: 'after' } })
      const known = new Set(load.acknowledged.values())
      await receiver.until('a delivery of the thawed worker', ({ event }) => event.data.userId === added.body.data.id)
      const after = await untilDelivered(receiver, paths, load, 1_000)
      report(context, {
        fault: `worker frozen for ${FROZEN_MS / 1000} s, then resumed`,
        acknowledged: known.size,
        delivered: settled.delivered,
        lost: settled.missing.length,
        duplicates: after.duplicates,
        inFlight,
        recoveredMs,
      })
      expectNothingLost(load, await listUsers(api.url, key), settled)
      expect(inFlight).toBeGreaterThan(0)
      expect(after.duplicates).toBeLessThanOrEqual(inFlight)
      // One attempt each: neither the lost lease nor the late outcome added one.
      expect(before.attempts).toBe(before.done)
      expect(before.done).toBe(settled.delivered)
      for (const process of [frozen, api]) expect(await process.stop()).toEqual({ code: 0, signal: null })
    },
    TEST_MS,
  )

  // Not a fault of their own; here because they cost nothing in the shadow of the waits above.
  it('a worker whose clock is ten minutes ahead sends, signs and stores at the right time', (context) =>
    keepsTime(context, 600_000))
  it('a worker whose clock is ten minutes behind sends, signs and stores at the right time', (context) =>
    keepsTime(context, -600_000))
})

async function outcomes(sql: Sql): Promise<{ done: number; attempts: number; pending: number }> {
  const rows = await sql<{ done: number; attempts: number; pending: number }>(
    `select (select count(*)::int from deliveries_done where status = 'succeeded') as done,
      (select count(*)::int from attempts) as attempts, (select count(*)::int from deliveries) as pending`,
  )
  return rows[0]!
}
