import { afterAll, describe, expect, it, type TestContext } from 'vitest'
import { eventually } from '../harness/harness.ts'
import { type Receiver, startReceiver } from '../harness/receiver.ts'
import { DataFolder, killAll, type ServiceProcess, startProcess } from '../harness/service-process.ts'
import { type Apart, leasesOf, newestWorker, type Sql, startApart } from './apart.ts'
import { expectNothingLost, listUsers, missingUsers, settle, subscribe, UserLoad } from './load.ts'
import { long, report, scale } from './report.ts'
import { keepsTime } from './wrong-clock.ts'

const ENDPOINTS = 4
const TEST_MS = 90_000 + 60_000 * scale
/** A lease ends by itself after 60 s; a silent worker is taken for dead after 15 s already. */
const PAST_LEASE_MS = 65_000

afterAll(killAll)

/** Half of the endpoints answer at once, half after some milliseconds: so a kill meets sends before and after their answer. */
async function slowAndFast(context: TestContext): Promise<Receiver> {
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
      const receiver = await slowAndFast(context)
      const start = () => startProcess({ cwd: folder.path, env: folder.env() })
      let service = await start()
      const { key } = service
      const paths = await subscribe(service.url, key, receiver, ENDPOINTS, { ordered: true })
      const load = new UserLoad({ url: service.url, key }).start(6, 2)
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
        outOfOrder: settled.overtaking.length,
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
      const receiver = await slowAndFast(context)
      const startWorker = async () => {
        const process = await apart.start('worker')
        return { process, id: await newestWorker(sql) }
      }
      const workers = [await startWorker(), await startWorker()]
      const paths = await subscribe(api.url, key, receiver, ENDPOINTS, { ordered: true })
      const load = new UserLoad({ url: api.url, key }).start(6, 2)
      let killedAt = 0
      let inFlight = 0
      const rounds = 2 * scale
      for (let round = 0; round < rounds; round++) {
        await load.more(60 + Math.floor(Math.random() * 60))
        // Killed while it holds something, in the air or just answered.
        await eventually('a worker with leases', async () => (await leasesOf(sql, workers[0]!.id)) > 0)
        const victim = workers.shift()!
        await victim.process.kill()
        killedAt = performance.now()
        inFlight += await leasesOf(sql, victim.id)
        workers.push(await startWorker())
      }
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
        outOfOrder: settled.overtaking.length,
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
    'a worker frozen until it counts as dead changes nothing when it goes on while another sends, and works again',
    async (context: TestContext) => {
      const { apart, receiver, paths, load, frozen, inFlight, frozenAt } = await freezeWorker(context)
      // What arrives again is not answered yet: so the late outcomes meet leases that another worker holds.
      const withheld = withholdRepeats(receiver)
      const other = await apart.start('worker')
      await eventually('sends of what the frozen worker held', async () => withheld.waiting() >= ENDPOINTS)
      frozen.signal('SIGCONT')
      await eventually('its late outcomes', async () => /arrived after their lease/.test(frozen.stderr))
      withheld.answer()
      const settled = await settle(load, receiver, paths)
      const recoveredMs = Math.round(performance.now() - frozenAt)
      await expectOneAttemptEach(apart.sql, settled.delivered)
      // The one in time was the other's.
      expect(other.stderr).not.toMatch(/arrived after their lease/)
      await expectItWorksAlone(apart, receiver, other)
      report(context, {
        fault: 'worker frozen for 15 s, resumed while another sends',
        acknowledged: load.acknowledged.size,
        delivered: settled.delivered,
        lost: settled.missing.length,
        duplicates: settled.duplicates,
        outOfOrder: settled.overtaking.length,
        inFlight,
        recoveredMs,
      })
      expectNothingLost(load, await listUsers(apart.api.url, apart.key), settled)
      expect(settled.duplicates).toBeLessThanOrEqual(inFlight)
    },
    TEST_MS,
  )

  it.skipIf(!long)(
    'a worker frozen past its leases changes nothing when it goes on after all is done',
    async (context: TestContext) => {
      const { apart, receiver, paths, load, frozen, inFlight, frozenAt } = await freezeWorker(context)
      const other = await apart.start('worker')
      const settled = await settle(load, receiver, paths)
      const recoveredMs = Math.round(performance.now() - frozenAt)
      await expectOneAttemptEach(apart.sql, settled.delivered)
      await eventually('its leases to end', async () => performance.now() - frozenAt > PAST_LEASE_MS, PAST_LEASE_MS * 2)
      frozen.signal('SIGCONT')
      await eventually('its late outcomes', async () => /arrived after their lease/.test(frozen.stderr))
      await expectOneAttemptEach(apart.sql, settled.delivered)
      await expectItWorksAlone(apart, receiver, other)
      report(context, {
        fault: `worker frozen for ${PAST_LEASE_MS / 1000} s, then resumed`,
        acknowledged: load.acknowledged.size,
        delivered: settled.delivered,
        lost: settled.missing.length,
        duplicates: settled.duplicates,
        outOfOrder: settled.overtaking.length,
        inFlight,
        recoveredMs,
      })
      expectNothingLost(load, await listUsers(apart.api.url, apart.key), settled)
      expect(settled.duplicates).toBeLessThanOrEqual(inFlight)
    },
    TEST_MS,
  )

  // Not a fault of their own; here because they cost nothing in the shadow of the waits above.
  it(
    'a worker whose clock is ten minutes ahead sends, signs and stores at the right time',
    (context) => keepsTime(context, 600_000),
    TEST_MS,
  )
  it(
    'a worker whose clock is ten minutes behind sends, signs and stores at the right time',
    (context) => keepsTime(context, -600_000),
    TEST_MS,
  )
})

/** Freezes the only worker at its worst: while the receiver holds its requests and the database its locks. */
async function freezeWorker(context: TestContext) {
  const apart = await startApart(context)
  const receiver = await startReceiver((_, response) => setTimeout(() => response.writeHead(200).end(), 150))
  context.onTestFinished(() => receiver.close())
  const paths = await subscribe(apart.api.url, apart.key, receiver, ENDPOINTS, { ordered: true })
  const frozen = await apart.start('worker')
  const frozenId = await newestWorker(apart.sql)
  const load = new UserLoad({ url: apart.api.url, key: apart.key }).start(4, 1)
  await receiver.count('requests in flight', 30)
  // Behind a pooler, all connections of the service have one name.
  await eventually('a worker frozen inside a transaction', async () => {
    frozen.signal('SIGSTOP')
    const open = await apart.sql(
      `select pid from pg_stat_activity
       where datname = current_database() and application_name in ('halfkey engine', 'halfkey') and state = 'idle in transaction'`,
    )
    if (open.length > 0 && (await leasesOf(apart.sql, frozenId)) > 0) return true
    frozen.signal('SIGCONT')
    return false
  })
  const frozenAt = performance.now()
  const inFlight = await leasesOf(apart.sql, frozenId)
  await load.more(10)
  await load.stop()
  return { apart, receiver, paths, load, frozen, inFlight, frozenAt }
}

/** From now on, what comes a second time waits for its answer. */
function withholdRepeats(receiver: Receiver) {
  const known = new Set(receiver.received.map(({ path, event }) => path + event.id))
  const waiting: (() => void)[] = []
  let open = false
  receiver.behave(({ path, event }, response) => {
    const answer = () => void response.writeHead(200).end()
    if (known.has(path + event.id) && !open) waiting.push(answer)
    else setTimeout(answer, 20)
    known.add(path + event.id)
  })
  return {
    waiting: () => waiting.length,
    answer() {
      open = true
      for (const answer of waiting) answer()
    },
  }
}

/** Neither a lost lease nor a late outcome adds an attempt, or a second end. */
async function expectOneAttemptEach(sql: Sql, deliveries: number): Promise<void> {
  const stored = await eventually('all outcomes', async () => {
    const rows = await sql<{ done: number; attempts: number; pending: number }>(
      `select (select count(*)::int from deliveries_done where status = 'succeeded') as done,
        (select count(*)::int from attempts) as attempts, (select count(*)::int from deliveries) as pending`,
    )
    return rows[0]?.pending === 0 && rows[0]
  })
  expect(stored).toEqual({ done: deliveries, attempts: deliveries, pending: 0 })
}

/** A thawed worker must deliver again. */
async function expectItWorksAlone({ api, key }: Apart, receiver: Receiver, other: ServiceProcess): Promise<void> {
  expect(await other.stop()).toEqual({ code: 0, signal: null })
  const added = await api.call(key, 'POST', '/users', { body: { name: 'after' } })
  await receiver.until('a delivery of the thawed worker', ({ event }) => event.data.userId === added.body.data.id)
}
