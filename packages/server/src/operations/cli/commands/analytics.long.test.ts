import { afterAll, beforeAll, expect, test } from 'vitest'
import { eventually, type Service, startService, type Tenant, toMidMonth } from '../../../../test/harness/harness.ts'
import { createUser, insertEvents } from '../../../delivery/engine/delivery.fixture.ts'
import { createFanOut } from '../../../delivery/engine/fan-out.ts'
import { signInAs } from '../../../identity/sessions/sessions.fixture.ts'
import { analyticsWhen, recounted } from '../../../insight/analytics/analytics.fixture.ts'
import { backfillDay } from '../../../insight/analytics/backfill.ts'
import { analyticsFollower } from '../../../insight/analytics/follow.ts'
import { followFeed, lockCursor } from '../../../platform/events/feed.ts'
import { runCli } from '../cli.ts'

const DAY_MS = 86_400_000

let service: Service
beforeAll(async () => {
  service = await startService()
  toMidMonth(service)
})
afterAll(() => service.stop())

async function backfill(...args: string[]) {
  const [out, err]: [string[], string[]] = [[], []]
  const exitCode = await runCli(['analytics', 'backfill', ...args], {
    openDeps: async () => ({ deps: service.deps, migrated: [], close: async () => {} }),
    out: (line) => void out.push(line),
    err: (line) => void err.push(line),
  })
  return { exitCode, out: out.join('\n'), err: err.join('\n') }
}

const today = () => service.deps.now().toISOString().slice(0, 10)
const daysAgo = (days: number) => new Date(Date.parse(today()) - days * DAY_MS).toISOString().slice(0, 10)

const totalsOf = async (tenant: Tenant, query = '') => (await tenant.get(`/analytics?${query}`)).body.data.totals
/** Without what no event counts. */
const ofEvents = ({ deliveriesSucceeded, deliveriesFailed, apiRequests, ...counts }: Record<string, unknown>) => counts

/** Some of everything, folded. */
async function lived(tenant: Tenant): Promise<void> {
  for (let n = 0; n < 3; n += 1) await createUser(tenant)
  const ada = await signInAs(service, tenant)
  await signInAs(service, tenant, { userId: ada.userId })
  await tenant.post('/users/me/wallet', {}, { headers: { 'x-user-id': ada.userId } })
  await tenant.post('/guests', {})
  await analyticsWhen(tenant, '', (totals) => totals.guests === 1 && totals.apiRequests > 5)
}

test('damaged days are counted again from the events; what is no event stays; again, it changes nothing', async () => {
  const tenant = await service.newTenant()
  await lived(tenant)
  const requests = (await totalsOf(tenant)).apiRequests
  await service.sql(
    `update analytics_daily set new_users = 70, active_users = 0, last_active_users = 9, guests = -1, users_imported = 11 where tenant_id = $1`,
    [tenant.tenantId],
  )
  for (let run = 0; run < 2; run += 1) {
    const { exitCode, out, err } = await backfill('--tenant', tenant.tenantId, '--json')
    expect([exitCode, err]).toEqual([0, ''])
    expect(JSON.parse(out)).toEqual({ tenants: 1, days: 1, unkept: [] })
    const truth = await recounted(service, tenant)
    const totals = await totalsOf(tenant)
    expect(totals).toMatchObject({ ...truth, newUsers: (truth as { newUsers?: number }).newUsers! + 11 })
    expect(totals.apiRequests).toBeGreaterThanOrEqual(requests)
    expect(ofEvents(await totalsOf(tenant, `app_id=${tenant.appId}`))).toEqual(ofEvents(totals))
  }
})

test('beside a service that folds on, nothing is counted twice and nothing is lost', async () => {
  const tenant = await service.newTenant()
  const before = 4_000
  await insertEvents(service, tenant, before)
  let done = false
  const writing = (async () => {
    for (let n = 0; n < 20; n += 1) await insertEvents(service, tenant, 200)
    done = true
  })()
  while (!done) expect((await backfill('--tenant', tenant.tenantId)).exitCode).toBe(0)
  await writing
  const runs = await Promise.all(Array.from({ length: 4 }, () => backfill('--tenant', tenant.tenantId)))
  expect(runs.map((run) => run.exitCode)).toEqual([0, 0, 0, 0])
  await eventually('all is folded', async () => {
    const [row] = await service.sql<{ left: number }>(
      `select (select count(*) from outbox where tenant_id = $1)::int + (h.seq - c.seq)::int as left
       from feed_heads h join feed_cursors c on c.tenant_id = h.tenant_id and c.follower = 'analytics' where h.tenant_id = $1`,
      [tenant.tenantId],
    )
    return row?.left === 0
  })
  expect((await totalsOf(tenant)).newUsers).toBe(before + 4_000)
}, 240_000)

test('a run goes on waiting for another one when a statement of it has waited for as long as it may', async () => {
  const tenant = await service.newTenant()
  await insertEvents(service, tenant, 10)
  await eventually('all is counted', async () => (await totalsOf(tenant)).newUsers === 10)
  let release = () => {}
  const released = new Promise<void>((resolve) => {
    release = resolve
  })
  const other = service.deps.db.tx(async (tx) => {
    await lockCursor(tx, tenant.tenantId as never, 'analytics')
    await released
  })
  const run = backfill('--tenant', tenant.tenantId)
  // Cancelled as the database does it after the statement timeout.
  await eventually('it waits and is cancelled', async () => {
    const [row] = await service.sql<{ cancelled: boolean }>(
      `select pg_cancel_backend(pid) as cancelled from pg_stat_activity
       where datname = current_database() and wait_event_type = 'Lock' and query like '%feed_cursors%'`,
    )
    return row?.cancelled
  })
  release()
  await other
  expect((await run).exitCode).toBe(0)
})

test('what the follower has still to fold is left to it', async () => {
  // Nothing folds but this test.
  const api = await startService({ HALFKEY_ROLE: 'api' })
  toMidMonth(api)
  try {
    const tenant = await api.newTenant()
    const fanOut = createFanOut({ asyncCommit: api.deps.db, now: api.deps.now })
    const arrive = async (count: number) => {
      await insertEvents(api, tenant, count)
      while ((await fanOut()).more);
    }
    const fold = async () => {
      while (await followFeed(api.deps.db, analyticsFollower));
    }
    const countAgain = async () => {
      await backfillDay(api.deps, tenant.tenantId as never, today())
      return (await totalsOf(tenant)).newUsers
    }
    await arrive(30)
    expect(await countAgain()).toBe(0)
    await fold()
    expect(await countAgain()).toBe(30)
    await arrive(12)
    // Not even in the feed.
    await insertEvents(api, tenant, 5)
    expect(await countAgain()).toBe(30)
    while ((await fanOut()).more);
    await fold()
    expect((await totalsOf(tenant)).newUsers).toBe(47)
    expect(await countAgain()).toBe(47)
  } finally {
    await api.stop()
  }
})

test('a day counts what happened on it in UTC, to the millisecond', async () => {
  const tenant = await service.newTenant()
  await insertEvents(service, tenant, 4)
  await eventually('all is folded', async () => (await totalsOf(tenant)).newUsers === 4)
  const ids = await service.sql<{ id: string }>(
    `select id from events where tenant_id = $1 and type = 'user.created' order by id`,
    [tenant.tenantId],
  )
  const times = [
    `${daysAgo(3)}T00:00:00.000Z`,
    `${daysAgo(3)}T23:59:59.999Z`,
    `${daysAgo(2)}T00:00:00.000Z`,
    `${today()}T00:00:00Z`,
  ]
  for (const [index, { id }] of ids.entries())
    await service.sql('update events set created_at = $2 where id = $1', [id, times[index]])
  await backfill('--tenant', tenant.tenantId, '--from', daysAgo(6))
  const { series } = (await tenant.get('/analytics?period=7d')).body.data
  expect(series.map((day: { newUsers: number }) => day.newUsers)).toEqual([0, 0, 0, 2, 1, 0, 1])
})

test('days of which events are past their retention are left as they are, and told of', async () => {
  const tenant = await service.newTenant()
  await insertEvents(service, tenant, 6)
  await eventually('all is folded', async () => (await totalsOf(tenant)).newUsers === 6)
  // Two users a day on the last three days, of whom the first one's event has gone.
  await service.sql(
    `update events e set created_at = $2::timestamptz - n.days * interval '1 day' + interval '2 minutes'
     from (select id, case when type = 'user.created' then 2 - (row_number() over (partition by type order by id) - 1) / 2 else 2 end as days
       from events where tenant_id = $1) n
     where e.id = n.id and e.tenant_id = $1`,
    [tenant.tenantId, `${today()}T00:00:00Z`],
  )
  await backfill('--tenant', tenant.tenantId)
  const seriesOf = async () =>
    (await tenant.get('/analytics?period=7d')).body.data.series.map((day: { newUsers: number }) => day.newUsers)
  expect(await seriesOf()).toEqual([0, 0, 0, 0, 2, 2, 2])
  await service.sql(
    `with old as (select id from events where tenant_id = $1 and type = 'user.created' order by id limit 1),
     fed as (delete from feed f using old where f.event_id = old.id)
     delete from events e using old where e.id = old.id`,
    [tenant.tenantId],
  )
  await service.sql('update analytics_daily set new_users = 50 where tenant_id = $1', [tenant.tenantId])
  const { out, exitCode } = await backfill('--tenant', tenant.tenantId)
  expect(exitCode).toBe(0)
  expect(out).toContain(`${tenant.tenantId}: ${daysAgo(2)}`)
  expect(await seriesOf()).toEqual([0, 0, 0, 0, 50, 2, 2])
  const told = JSON.parse((await backfill('--tenant', tenant.tenantId, '--from', daysAgo(6), '--json')).out)
  expect(told.unkept).toEqual([{ tenantId: tenant.tenantId, from: daysAgo(6), to: daysAgo(2) }])
  // With all of its events gone there is nothing that could be counted.
  await service.sql(
    'with gone as (delete from feed where tenant_id = $1 returning event_id) delete from events where id in (select event_id from gone)',
    [tenant.tenantId],
  )
  const nothing = JSON.parse((await backfill('--tenant', tenant.tenantId, '--from', daysAgo(1), '--json')).out)
  expect(nothing).toEqual({
    tenants: 1,
    days: 0,
    unkept: [{ tenantId: tenant.tenantId, from: daysAgo(1), to: today() }],
  })
  expect(await seriesOf()).toEqual([0, 0, 0, 0, 50, 2, 2])
})

test('what cannot be meant is refused with what to do; without a tenant it goes through all, and says how far it is', async () => {
  for (const [args, said] of [
    [['--from', 'yesterday'], '2026-11-21'],
    [['--from', '2026-02-30'], '2026-11-21'],
    [['--from', '2999-01-01'], 'after today'],
    [['--since', '2026-01-01'], 'Usage: halfkey analytics backfill'],
  ] as const) {
    const { exitCode, err } = await backfill(...args)
    expect([exitCode, err.includes(said)], err).toEqual([2, true])
  }
  const unknown = await backfill('--tenant', 'ten_unknown')
  expect([unknown.exitCode, unknown.err]).toEqual([1, expect.stringContaining('no tenant ten_unknown')])
  const all = await backfill()
  expect(all.exitCode).toBe(0)
  expect(all.out).toMatch(/^Recounted \d+ days of \d+ tenants\./)
  expect(all.err).toMatch(/Counting days: 100 %/)
})
