import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, expect, type TestContext, test } from 'vitest'
import { call, eventually, newDatabase } from '../harness/harness.ts'
import { startReceiver } from '../harness/receiver.ts'
import { DataFolder, killAll, query, ServiceProcess, startProcess } from '../harness/service-process.ts'
import { startPuller } from './failover/puller.ts'
import { startSpending } from './failover/spending.ts'
import { expectNothingLost, listUsers, settle, subscribe, UserLoad } from './load.ts'
import { report, scale } from './report.ts'
import { expectWhole, newScene, type SceneService } from './scene.ts'

/** A checkout of an earlier release, with its packages installed. */
const before = process.env.HALFKEY_TEST_BEFORE
const MAIN = 'packages/server/src/main.ts'
const ENDPOINTS = 4
const PAYMENTS = 60
/** How long processes of both releases run together: ten minutes in the run at length. */
const TOGETHER_MS = scale > 1 ? scale * 60_000 : 15_000
const QUIET_MS = 75_000

afterAll(killAll)

/** One database and key file, and processes of both releases on them. */
async function newHouse(context: TestContext) {
  const database = await newDatabase()
  const folder = new DataFolder()
  context.onTestFinished(async () => {
    await folder.remove()
    await database.drop()
  })
  const optionsOf = (role: string, of: 'before' | 'now') => ({
    cwd: folder.path,
    env: folder.env({ DATABASE_URL: database.url, HALFKEY_ROLE: role }),
    ...(of === 'before' ? { program: [process.execPath, join(before as string, MAIN)] } : {}),
  })
  return {
    start: (role: 'api' | 'worker', of: 'before' | 'now') => startProcess(optionsOf(role, of)),
    /** How a command of this release ends. */
    run: async (...args: string[]) => (await new ServiceProcess({ ...optionsOf('api', 'now'), args }).exited).code,
    sql: <Row extends object>(text: string, values: unknown[] = []) =>
      query<Row>({ connectionString: database.url }, text, values),
  }
}

test.skipIf(before === undefined)(
  `processes of the release in HALFKEY_TEST_BEFORE and of this one share a database under load, and nothing is lost or refused (${before ?? 'skipped: it is not set'})`,
  { timeout: TOGETHER_MS + 300_000 },
  async (context) => {
    expect(existsSync(join(before as string, MAIN))).toBe(true)
    const receiver = await startReceiver()
    context.onTestFinished(() => receiver.close())
    const house = await newHouse(context)
    const old = [await house.start('api', 'before'), await house.start('worker', 'before')] as const
    const { key } = old[0]
    const urls = [old[0].url]
    const service: SceneService = {
      call: (method, path, body, headers = {}) =>
        call(urls[0] as string, method, `/v1${path}`, { key, headers, ...(body === undefined ? {} : { body }) }),
      sql: house.sql,
    }
    const cap = PAYMENTS * 0.75
    const scene = await newScene(service, 'embedded', { holdings: PAYMENTS, of: '1', cap: String(cap) })
    const paths = await subscribe(old[0].url, key, receiver, ENDPOINTS, { ordered: true })
    const puller = startPuller(urls, key)
    const spending = startSpending(urls, key, scene)
    const load = new UserLoad({ urls, key }).start(6, 2)
    await load.more(100)
    await spending.run(PAYMENTS / 3)

    const now = [await house.start('api', 'now'), await house.start('worker', 'now')] as const
    urls.push(now[0].url)
    load.moveTo(...urls)
    const paid = spending.run(PAYMENTS / 3)
    for (const end = performance.now() + TOGETHER_MS; performance.now() < end; ) await load.more(50)
    await paid

    urls.shift()
    load.moveTo(...urls)
    await load.more(50)
    const exits = await Promise.all(old.map((process) => process.stop()))
    await spending.run(PAYMENTS / 3)
    await load.more(100)
    await load.stop()
    const settled = await settle(load, receiver, paths, QUIET_MS)
    const feed = await puller.stop()
    report(context, {
      fault: `an upgrade: both releases together for ${Math.round(TOGETHER_MS / 1000)} s`,
      acknowledged: load.acknowledged.size,
      delivered: settled.delivered,
      lost: settled.missing.length,
      duplicates: settled.duplicates,
      outOfOrder: settled.overtaking.length,
      inFlight: null,
      recoveredMs: null,
    })
    expect(exits).toEqual(old.map(() => ({ code: 0, signal: null })))
    expect(load.failures).toEqual([])
    expectNothingLost(load, await listUsers(now[0].url, key), settled)
    expect(feed.refused).toEqual([])
    expect(feed.pulled).toEqual(feed.whole)
    expect(await expectWhole(service, scene)).toBe(cap)
    expect(spending.acknowledged.size).toBe(cap)
    expect(spending.refused).toEqual(['spend_limit_exceeded'])
    const isWhole = async () => (await house.run('audit', 'verify')) === 0
    await eventually('the audit log holds every event', isWhole, 60_000)
  },
)
