import { afterAll, describe, expect, it, type TestContext } from 'vitest'
import { newId } from '../../src/platform/ids.ts'
import { eventually } from '../harness/harness.ts'
import { startReceiver } from '../harness/receiver.ts'
import { killAll, type ServiceProcess } from '../harness/service-process.ts'
import { type Sql, startApart } from './apart.ts'
import { expectOrder, settle, subscribe, UserLoad } from './load.ts'
import { report, scale } from './report.ts'

const ENDPOINTS = 2
const EVENTS_A_ROUND = 3_000
/** Published before the others, so that the kill comes while those are folded and these are sent. */
const ORDERED_A_ROUND = 30
const TEST_MS = 90_000 + 60_000 * scale

afterAll(killAll)

/** Events of as many kinds as are counted, by some hundreds of users over three days, as business transactions write them. */
async function insertEvents(sql: Sql, tenantId: string, appId: string, count: number): Promise<void> {
  await sql(
    `with made as (
       select 'evt_' || substr($3, 5, 18) || lpad(n::text, 8, '0') as id, now() - (n % 3) * interval '1 day' as at, 'usr_' || (n * 7919 % 400) as user_id,
         (array['user.created', 'user.signed_in', 'guest.created', 'guest.converted', 'wallet.created', 'tx.completed', 'tx.failed'])[1 + n % 7] as type,
         case n % 2 when 0 then 'passkey' else 'messenger' end as method
       from generate_series(1, $4::int) n),
     stored as (
       insert into events (tenant_id, id, app_id, type, body, created_at, context)
       select $1, id, $2, type, json_build_object('id', id, 'type', type, 'data', json_build_object('userId', user_id, 'method', method))::text, at,
         json_build_object('actor', 'key_of_nobody') from made)
     insert into outbox (tenant_id, event_id, app_id, type) select $1, id, $2, type from made`,
    [tenantId, appId, newId('evt'), count],
  )
}

/** What the events and ended deliveries come to, day by day, counted by SQL of the test's own. */
async function recount(sql: Sql, tenantId: string) {
  const days = await sql<{ day: string } & Record<string, number>>(
    `with e as (
       select (created_at at time zone 'UTC')::date::text as day, type, body::json -> 'data' as data, context ->> 'actor' as actor from events where tenant_id = $1)
     select day, count(*) filter (where type = 'user.created')::int as "newUsers",
       count(*) filter (where type = 'user.signed_in' and data ->> 'method' = 'passkey')::int as passkey,
       count(*) filter (where type = 'user.signed_in' and data ->> 'method' = 'messenger')::int as messenger,
       count(*) filter (where type = 'guest.created')::int as guests,
       count(*) filter (where type = 'guest.converted')::int as "guestsConverted",
       count(*) filter (where type = 'wallet.created')::int as "walletsCreated",
       count(*) filter (where type = 'tx.completed')::int as "transactionsCompleted",
       count(*) filter (where type = 'tx.failed')::int as "transactionsFailed",
       count(distinct data ->> 'userId') filter (where type in ('user.signed_in', 'tx.completed'))::int as "activeUsers"
     from e group by day`,
    [tenantId],
  )
  const [all] = await sql<{ active: number; delivered: number }>(
    `select (select count(distinct body::json -> 'data' ->> 'userId')::int from events where tenant_id = $1 and type in ('user.signed_in', 'tx.completed')) as active,
       (select count(*)::int from deliveries_done where tenant_id = $1 and status = 'succeeded') as delivered`,
    [tenantId],
  )
  const series = new Map(
    days.map(({ day, passkey, messenger, ...counts }) => [day, { ...counts, signIns: { passkey, messenger } }]),
  )
  return { series, active: all?.active, delivered: all?.delivered }
}

describe('workers that are killed while they fold events', () => {
  it(
    'leave the counters exact to the event, every day of them, and each delivery counted once',
    async (context: TestContext) => {
      const apart = await startApart(context)
      const { api, key, sql } = apart
      const receiver = await startReceiver()
      context.onTestFinished(() => receiver.close())
      const paths = await subscribe(api.url, key, receiver, ENDPOINTS, { ordered: true })
      const load = new UserLoad({ url: api.url, key })
      const [own] = await sql<{ tenant: string; app: string }>('select tenant_id as tenant, id as app from apps')
      const { tenant, app } = own as { tenant: string; app: string }
      const unfolded = async () => {
        const [row] = await sql<{ left: number }>(
          `select (select count(*)::int from outbox) + coalesce(h.seq, 0)::int - coalesce(c.seq, 0)::int as left
           from (select 1) one left join feed_heads h on h.tenant_id = $1 left join feed_cursors c on c.tenant_id = $1 and c.follower = 'analytics'`,
          [tenant],
        )
        return row?.left ?? 0
      }
      // Several at once: each event is folded by one of them alone.
      const workers: ServiceProcess[] = await Promise.all([apart.start('worker'), apart.start('worker')])
      const rounds = 3 * scale
      let midFold = 0
      for (let round = 0; round < rounds; round += 1) {
        load.start(1, 1)
        await load.more(ORDERED_A_ROUND)
        await load.stop()
        await insertEvents(sql, tenant, app, EVENTS_A_ROUND)
        await eventually('some are folded', async () => (await unfolded()) < EVENTS_A_ROUND, 30_000)
        await Promise.all(workers.splice(0).map((worker) => worker.kill()))
        if ((await unfolded()) > 0) midFold += 1
        workers.push(...(await Promise.all([apart.start('worker'), apart.start('worker')])))
      }
      await eventually('all is folded', async () => (await unfolded()) === 0, 60_000)
      await eventually(
        'all is delivered and drained',
        async () => {
          const [row] = await sql<{ left: number }>(
            `select (select count(*) from deliveries)::int + (select count(*) from counter_increments where metric <> 'api_requests')::int as left`,
          )
          return row?.left === 0
        },
        120_000,
      )
      const settled = await settle(load, receiver, paths)
      const truth = await recount(sql, tenant)
      const { data } = (await api.call(key, 'GET', `/analytics?period=7d&app_id=${app}`)).body
      for (const [day, counts] of truth.series)
        expect(
          data.series.find(({ date }: { date: string }) => date === day),
          day,
        ).toMatchObject(counts)
      expect(data.totals.activeUsers).toBe(truth.active)
      const all = (await api.call(key, 'GET', '/analytics?period=7d')).body.data
      expect(all.totals.deliveriesSucceeded).toBe(truth.delivered)
      expect(all.totals.newUsers).toBe(data.totals.newUsers)
      report(context, {
        fault: `kill -9 of all workers while folding × ${rounds} (${midFold} mid-fold)`,
        acknowledged: EVENTS_A_ROUND * rounds,
        delivered: truth.delivered ?? 0,
        lost: null,
        duplicates: null,
        outOfOrder: settled.overtaking.length,
        inFlight: null,
        recoveredMs: null,
      })
      expect(midFold).toBeGreaterThan(0)
      expect(load.failures).toEqual([])
      expect(settled.missing).toEqual([])
      expectOrder(settled)
      for (const worker of workers) expect(await worker.stop()).toEqual({ code: 0, signal: null })
      expect(await api.stop()).toEqual({ code: 0, signal: null })
    },
    TEST_MS,
  )
})
