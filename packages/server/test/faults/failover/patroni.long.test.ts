import { afterAll, expect, type TestContext, test } from 'vitest'
import { call, eventually } from '../../harness/harness.ts'
import { startReceiver } from '../../harness/receiver.ts'
import { killAll } from '../../harness/service-process.ts'
import { startApart } from '../apart.ts'
import { expectNothingLost, listUsers, settle, subscribe, UserLoad } from '../load.ts'
import { report, reporting, scale } from '../report.ts'
import { expectWhole, newScene, type SceneService } from '../scene.ts'
import { startAsking } from './asking.ts'
import { PatroniCluster, patroniPrograms } from './patroni-cluster.ts'
import { startPuller } from './puller.ts'
import { startSpending } from './spending.ts'

const ENDPOINTS = 4
/** More than a lane takes in a quarter of a second at this load. */
const LEASED_AHEAD = 64
const RECOVERY_MS = 2_000
/** A claim whose commit got no answer is left to its lease. */
const LEASE_MS = 75_000
const PAYMENTS_A_ROUND = 60
const TEST_MS = 240_000 + 60_000 * scale

afterAll(killAll)

const found = reporting ? patroniPrograms() : { missing: 'only `npm run faults` runs this' }
const programs = 'programs' in found ? found.programs : null
const reason = 'missing' in found ? ` (skipped; ${found.missing})` : ''
if (reporting && 'missing' in found)
  process.stderr.write(`faults: failover under Patroni is skipped; ${found.missing}\n`)

type Leader = Awaited<ReturnType<PatroniCluster['whole']>>
interface Way {
  fault: string
  /** How the primary is lost; the cluster is whole before. */
  lose(cluster: PatroniCluster, primary: Leader): Promise<void>
  /** What brings the lost server back. */
  heal(primary: Leader): void
}

const WAYS: Way[] = [
  {
    fault: 'kill -9 of the primary with its Patroni, as if its machine were gone',
    lose: (_, primary) => primary.killMachine(),
    heal: (primary) => primary.start(),
  },
  {
    fault: 'kill -9 of the primary, whose Patroni hands over',
    lose: async (_, primary) => primary.killPostgres(),
    heal: () => {},
  },
  { fault: 'switchover', lose: (cluster, primary) => cluster.switchOver(primary), heal: () => {} },
]

/** Two API processes and a worker on the cluster, under everything that can be lost, passed or told twice. */
async function start(context: TestContext, cluster: PatroniCluster) {
  const receiver = await startReceiver()
  context.onTestFinished(() => receiver.close())
  const apart = await startApart(context, {}, cluster.url)
  const { api, key } = apart
  const other = await apart.start('api')
  const worker = await apart.start('worker')
  const urls = [api.url, other.url]
  const service: SceneService = {
    call: (method, path, body, headers = {}) =>
      call(api.url, method, `/v1${path}`, { key, headers, ...(body === undefined ? {} : { body }) }),
    sql: (text, values) => cluster.sql(text, values),
  }
  const holdings = PAYMENTS_A_ROUND * scale
  const cap = Math.floor(holdings * 0.75)
  const scene = await newScene(service, 'embedded', { holdings, of: '1', cap: String(cap) })
  const spending = startSpending(urls, key, scene)
  const paths = await subscribe(api.url, key, receiver, ENDPOINTS, { ordered: true })
  const puller = startPuller(urls, key)
  const load = new UserLoad({ urls, key })
  return { api, other, worker, urls, key, service, receiver, paths, load, puller, scene, spending, cap }
}

test.skipIf(programs === null).for(WAYS)(
  `$fault: no event is lost, no cap is passed, and the service goes on without a restart${reason}`,
  { timeout: TEST_MS },
  async ({ fault, lose, heal }, context) => {
    const cluster = await PatroniCluster.start(programs as string)
    context.onTestFinished(() => cluster.remove())
    const all = await start(context, cluster)
    const { urls, key, load, receiver, puller, spending } = all
    let slowestMs = 0
    for (let round = 0; round < scale; round++) {
      const primary = await cluster.whole()
      load.start(6, 2)
      await load.more(100)
      const asking = await startAsking(urls, key)
      const paid = spending.run(PAYMENTS_A_ROUND)
      await load.more(5)
      const lost = lose(cluster, primary)
      await cluster.answers(primary)
      slowestMs = Math.max(slowestMs, await asking.answeredAfter(performance.now()))
      await lost
      await paid
      await load.more(50)
      // What piles up while the cluster heals would only have to be waited for.
      await load.stop()
      heal(primary)
    }
    const settled = await settle(load, receiver, all.paths, LEASE_MS)
    const feed = await puller.stop()
    report(context, {
      fault: `Patroni: ${fault} × ${scale}: answers after PostgreSQL by`,
      acknowledged: load.acknowledged.size,
      delivered: settled.delivered,
      lost: settled.missing.length,
      duplicates: settled.duplicates,
      outOfOrder: settled.overtaking.length,
      inFlight: null,
      recoveredMs: slowestMs,
      limitMs: RECOVERY_MS,
    })
    for (const process of [all.api, all.other, all.worker]) expect(process.exit).toBeNull()
    for (const failure of load.failures) expect(failure).toMatchObject({ status: 500, code: 'internal_error' })
    expectNothingLost(load, await listUsers(all.api.url, key), settled)
    expect(settled.duplicates).toBeLessThanOrEqual(scale * ENDPOINTS * LEASED_AHEAD)
    expect(feed.refused).toEqual([])
    expect(feed.pulled).toEqual(feed.whole)
    await eventually('nothing is open', async () => {
      const open = await cluster.sql('select 1 from transactions where check_at is not null')
      return open.length === 0
    })
    const completed = await expectWhole(all.service, all.scene)
    expect(completed).toBe(all.cap)
    expect(spending.acknowledged.size).toBe(completed)
    expect(spending.refused).toEqual(['spend_limit_exceeded'])
  },
)
