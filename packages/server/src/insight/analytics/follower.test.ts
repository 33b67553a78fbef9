import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { eventually, type Service, startService, type Tenant, toMidMonth } from '../../../test/harness/harness.ts'
import { createUser, insertEvents } from '../../delivery/engine/delivery.fixture.ts'
import { createFanOut } from '../../delivery/engine/fan-out.ts'
import { deleteExpired } from '../../delivery/engine/upkeep/sweep.ts'
import { newType, ok } from '../../delivery/events/own-events.fixture.ts'
import type { Db } from '../../platform/db/db.ts'
import { type CounterSink, createRequestCounter, drainCounters } from '../../platform/events/counters.ts'
import { type Follower, followFeed } from '../../platform/events/feed.ts'
import { openLog } from '../../platform/observability/log.ts'
import { allFolded } from './analytics.fixture.ts'
import { analyticsCounters, analyticsFollower, createActivitySweep } from './follow.ts'

const DAY_MS = 86_400_000

/** Its own worker folds and drains beside the tests, as further processes would. */
let service: Service
beforeAll(async () => {
  // Some tests date events back by a year.
  service = await startService({ HALFKEY_RETENTION: '3650d', HALFKEY_DEAD_LETTER_RETENTION: '3650d' })
})
afterAll(() => service.stop())

const cursorOf = async (tenant: Tenant, follower = 'analytics') => {
  const rows = await service.sql<{ seq: string }>(
    'select seq from feed_cursors where tenant_id = $1 and follower = $2',
    [tenant.tenantId, follower],
  )
  return Number(rows[0]?.seq ?? 0)
}
const headOf = async (tenant: Tenant) =>
  Number(
    (await service.sql<{ seq: string }>('select seq from feed_heads where tenant_id = $1', [tenant.tenantId]))[0]
      ?.seq ?? 0,
  )

describe('events', () => {
  test('of one feed are folded once each by 20 followers that run at once, again and again', async () => {
    const tenant = await service.newTenant()
    let done = false
    const folding = Array.from({ length: 20 }, async () => {
      while (!done) await followFeed(service.deps.db, analyticsFollower)
    })
    for (let round = 0; round < 5; round += 1) await insertEvents(service, tenant, 1_500)
    await eventually('all events are in the feed', async () => {
      const waiting = await service.sql('select 1 from outbox where tenant_id = $1 limit 1', [tenant.tenantId])
      return waiting.length === 0
    })
    await allFolded(service, tenant)
    done = true
    await Promise.all(folding)
    const { totals } = (await tenant.get('/analytics')).body.data
    expect(totals.newUsers).toBe(7_500)
  }, 240_000)

  test('that cannot be folded keep back their own tenant alone, and are folded once they can be', async () => {
    const [broken, other] = [await service.newTenant(), await service.newTenant()]
    let fails = true
    const seen = new Map<string, number>()
    const follower: Follower = {
      name: 'of-this-test',
      async fold(_, tenantId, events) {
        if (fails && tenantId === broken.tenantId) throw new Error('not these')
        seen.set(tenantId, (seen.get(tenantId) ?? 0) + events.length)
      },
    }
    const follow = () => followFeed(service.deps.db, follower)
    for (const tenant of [broken, other]) await createUser(tenant)
    for (const tenant of [broken, other]) await allFolded(service, tenant)
    await expect(
      (async () => {
        while (await follow());
      })(),
    ).rejects.toThrow('could not process its feeds')
    expect(seen.get(other.tenantId)).toBe(await headOf(other))
    expect(await cursorOf(broken, follower.name)).toBe(0)
    fails = false
    while (await follow());
    expect(seen.get(broken.tenantId)).toBe(await headOf(broken))
  })

  test('of a later version are left, with all behind them, to its processes; those that teams publish are passed over', async () => {
    const tenant = await service.newTenant()
    const folded: string[] = []
    const follower: Follower = {
      name: 'of-this-version',
      async fold(_, tenantId, events) {
        if (tenantId === tenant.tenantId) folded.push(...events.map(({ type }) => type))
      },
    }
    const follow = async () => {
      while (await followFeed(service.deps.db, follower));
    }
    await newType(tenant, 'acme.paid')
    ok(await tenant.post('/events', { type: 'acme.paid', data: {} }), 201)
    await createUser(tenant)
    await allFolded(service, tenant)
    await createUser(tenant)
    await allFolded(service, tenant)
    // The second user's event, as a process of the later version would have written it.
    const rename = (from: string, to: string) =>
      service.sql(
        `update events set type = $3 where tenant_id = $1 and id = (
           select max(id) from events where tenant_id = $1 and type = $2)`,
        [tenant.tenantId, from, to],
      )
    await rename('user.created', 'user.renamed')
    await follow()
    const before = folded.length
    expect(folded).toContain('user.created')
    expect(await cursorOf(tenant, follower.name)).toBeLessThan(await headOf(tenant))
    await createUser(tenant)
    await allFolded(service, tenant)
    await follow()
    expect(folded).toHaveLength(before)
    await rename('user.renamed', 'user.created')
    await follow()
    expect(folded.filter((type) => type === 'user.created')).toHaveLength(3)
    expect(folded).not.toContain('acme.paid')
    expect(await cursorOf(tenant, follower.name)).toBe(await headOf(tenant))
  })

  test('that some follower has not folded outlive their retention; then they go', async () => {
    const [behind, level] = [await service.newTenant(), await service.newTenant()]
    for (const tenant of [behind, level]) {
      await createUser(tenant)
      await createUser(tenant)
      await allFolded(service, tenant)
      await service.sql(`update events set created_at = now() - interval '1 year' where tenant_id = $1`, [
        tenant.tenantId,
      ])
    }
    // A follower that has folded the first event of one tenant, and everything of the other.
    const late = 'late'
    await service.sql(`insert into feed_cursors (tenant_id, follower, seq) values ($1, $2, 1), ($3, $2, $4)`, [
      behind.tenantId,
      late,
      level.tenantId,
      await headOf(level),
    ])
    const sweep = () =>
      service.deps.db.tx(async (tx) => {
        const retention = {
          retentionMs: 30 * DAY_MS,
          deadLetterRetentionMs: 90 * DAY_MS,
          followers: ['analytics', late],
        }
        while ((await deleteExpired(tx, retention)) > 0);
      })
    const left = async ({ tenantId }: Tenant) =>
      (await service.sql('select 1 from events e join feed f on f.event_id = e.id where e.tenant_id = $1', [tenantId]))
        .length
    const before = await left(behind)
    expect(before).toBeGreaterThan(1)
    await sweep()
    expect(await left(behind)).toBe(before - 1)
    expect(await left(level)).toBe(0)
    await service.sql('update feed_cursors set seq = $2 where tenant_id = $1', [behind.tenantId, await headOf(behind)])
    await sweep()
    expect(await left(behind)).toBe(0)
  })

  test('are kept from retention by a follower that has not even begun', async () => {
    const tenant = await service.newTenant()
    await createUser(tenant)
    await allFolded(service, tenant)
    await service.sql(`update events set created_at = now() - interval '1 year' where tenant_id = $1`, [
      tenant.tenantId,
    ])
    const left = async () => (await service.sql('select 1 from feed where tenant_id = $1', [tenant.tenantId])).length
    const before = await left()
    await service.deps.db.tx((tx) =>
      deleteExpired(tx, { retentionMs: DAY_MS, deadLetterRetentionMs: DAY_MS, followers: ['analytics', 'new-one'] }),
    )
    expect(await left()).toBe(before)
  })
})

test('an event that gets into the feed while retention looks is not taken before it is folded', async () => {
  // Nothing is fanned out, folded or deleted but by this test.
  const api = await startService({ HALFKEY_ROLE: 'api' })
  try {
    const tenant = await api.newTenant()
    const fanOut = createFanOut({ asyncCommit: api.deps.db, now: api.deps.now })
    const all = async () => {
      while ((await fanOut()).more);
      while (await followFeed(api.deps.db, analyticsFollower));
    }
    await createUser(tenant)
    await all()
    await createUser(tenant)
    await api.sql(`update events set created_at = now() - interval '3 days' where tenant_id = $1`, [tenant.tenantId])
    let waits = true
    await api.deps.db.tx((tx) => {
      /** After the statement that finds out who is behind, the fan-out commits. */
      const crossed: Db = {
        ...tx,
        async query(statement) {
          const rows = await tx.query(statement)
          if (waits && statement.text.includes('feed_cursors')) {
            waits = false
            while ((await fanOut()).more);
          }
          return rows as never
        },
      }
      return deleteExpired(crossed, { retentionMs: DAY_MS, deadLetterRetentionMs: DAY_MS, followers: ['analytics'] })
    })
    expect(waits).toBe(false)
    await all()
    expect((await tenant.get('/analytics?period=7d')).body.data.totals.newUsers).toBe(2)
  } finally {
    await api.stop()
  }
})

describe('counter_increments', () => {
  /** A process that drains nothing by itself. */
  let api: Service
  beforeAll(async () => {
    api = await startService({ HALFKEY_ROLE: 'api' })
    toMidMonth(api)
  })
  afterAll(() => api.stop())

  const insert = (tenant: Tenant, metric: string, count: number, at: string) =>
    api.sql(
      `insert into counter_increments (tenant_id, app_id, metric, n, at) select $1, $2, $3, 2, $5::timestamptz from generate_series(1, $4::int)`,
      [tenant.tenantId, tenant.appId, metric, count, at],
    )
  const none = async () => (await api.sql('select 1 from counter_increments limit 1')).length === 0

  test('reach every sink once each, drained by 20 at once while more come, on the day of their time', async () => {
    const tenant = await api.newTenant()
    const today = `${api.deps.now().toISOString().slice(0, 10)}T00:00:00.000Z`
    const yesterday = new Date(Date.parse(today) - 1).toISOString()
    let total = 0
    const other: CounterSink = {
      async add(tx, rows) {
        const n = rows.filter(({ tenantId }) => tenantId === tenant.tenantId).reduce((sum, row) => sum + row.n, 0)
        tx.afterCommit(() => {
          total += n
        })
      },
    }
    let done = false
    const draining = Array.from({ length: 20 }, async () => {
      while (!done) await drainCounters(api.deps.db, [analyticsCounters, other])
    })
    await Promise.all([
      ...Array.from({ length: 10 }, () => insert(tenant, 'deliveries_succeeded', 1_200, today)),
      insert(tenant, 'deliveries_failed', 100, yesterday),
      insert(tenant, 'users_imported', 50, today),
    ])
    await eventually('all are drained', none)
    done = true
    await Promise.all(draining)
    const { series } = (await tenant.get(`/analytics?app_id=${tenant.appId}`)).body.data
    expect(series.at(-1)).toMatchObject({ deliveriesSucceeded: 24_000, deliveriesFailed: 0, newUsers: 100 })
    expect(series.at(-2)).toMatchObject({ deliveriesSucceeded: 0, deliveriesFailed: 200 })
    expect(total).toBe(24_300)
  })

  test('that a sink refuses stay, and reach all sinks later', async () => {
    const tenant = await api.newTenant()
    await insert(tenant, 'deliveries_failed', 3, api.deps.now().toISOString())
    const refusing: CounterSink = { add: () => Promise.reject(new Error('full')) }
    await expect(drainCounters(api.deps.db, [analyticsCounters, refusing])).rejects.toThrow('full')
    const failed = async () => (await tenant.get('/analytics')).body.data.totals.deliveriesFailed
    expect(await failed()).toBe(0)
    while (await drainCounters(api.deps.db, [analyticsCounters]));
    expect(await failed()).toBe(6)
  })

  /** A database whose answer to a commit gets lost, after or before the commit itself. */
  function losing(db: Db, loses: () => 'nothing' | 'answer' | 'commit'): Db {
    return {
      ...db,
      async tx(body) {
        const lost = loses()
        const done = await db.tx(async (tx) => {
          const result = await body(tx)
          if (lost === 'commit') throw new Error('lost before the commit')
          return result
        })
        if (lost === 'answer') throw new Error('lost after the commit')
        return done
      },
    }
  }

  test.each(['answer', 'commit'] as const)(
    'of requests are written once, also when the %s of a write is lost',
    async (what) => {
      const tenant = await api.newTenant()
      let loses: 'nothing' | 'answer' | 'commit' = what
      const { now } = api.deps
      const counter = createRequestCounter({ db: losing(api.deps.db, () => loses), log: openLog('silent').log, now })
      const caller = { tenantId: tenant.tenantId as never, appId: tenant.appId as never }
      for (let n = 0; n < 5; n += 1) counter.count(caller)
      await counter.flush()
      counter.count(caller)
      await counter.flush()
      loses = 'nothing'
      await counter.stop()
      const [row] = await api.sql<{ n: number }>(
        `select sum(n)::int as n from counter_increments where tenant_id = $1 and app_id = $2 and metric = 'api_requests'`,
        [tenant.tenantId, tenant.appId],
      )
      expect(row?.n).toBe(6)
    },
  )

  test('of requests are written when the process stops', async () => {
    const tenant = await api.newTenant()
    const own = await startService({
      HALFKEY_ROLE: 'api',
      DATABASE_URL: api.databaseUrl,
      HALFKEY_KEK_FILE: `${api.dataDir}/kek.key`,
    })
    const calls = 25
    await Promise.all(
      Array.from({ length: calls }, () => fetch(`${own.url}/v1/tenant`, { headers: { 'x-api-key': tenant.key } })),
    )
    await own.stop()
    const [row] = await api.sql<{ n: number }>(`select sum(n)::int as n from counter_increments where tenant_id = $1`, [
      tenant.tenantId,
    ])
    expect(row?.n).toBe(calls)
  })
})

test('users who were active in no period any more are forgotten, the others stay, however many there are', async () => {
  const api = await startService({ HALFKEY_ROLE: 'api' })
  try {
    const tenant = await api.newTenant()
    await api.sql(
      `insert into analytics_active_users (tenant_id, user_id, app_id, last_day, days)
       select $1, 'usr_' || n, $2, (now() at time zone 'UTC')::date - (n % 200), 1 from generate_series(0, 12000 - 1) n`,
      [tenant.tenantId, tenant.appId],
    )
    const sweep = createActivitySweep(api.deps.now)
    for (let round = 0; round < 2; round += 1) while (await sweep(api.deps.db));
    const [row] = await api.sql<{ n: number; oldest: number }>(
      `select count(*)::int as n, max((now() at time zone 'UTC')::date - last_day) as oldest from analytics_active_users`,
    )
    expect(row).toEqual({ n: 96 * 60, oldest: 95 })
  } finally {
    await api.stop()
  }
})
