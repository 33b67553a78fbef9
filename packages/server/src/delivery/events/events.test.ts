import { afterAll, beforeAll, expect, test } from 'vitest'
import { expectError, expectRefusal } from '../../../test/harness/envelope.ts'
import { eventually, type Service, startService, type Tenant } from '../../../test/harness/harness.ts'
import { startReceiver } from '../../../test/harness/receiver.ts'
import { sql } from '../../platform/db/db.ts'
import { eventsWrites, newEvent, publish } from '../../platform/events/events.ts'
import { idTime } from '../../platform/ids.ts'
import { createUser, subscribe } from '../engine/delivery.fixture.ts'

let service: Service
beforeAll(async () => {
  service = await startService()
})
afterAll(() => service.stop())

interface Seen {
  id: string
  type: string
  data: Record<string, unknown>
}

async function page(tenant: Tenant, query = '', key = tenant.key) {
  const answer = await tenant.get(`/events${query}`, { key })
  expect(answer.status, answer.text).toBe(200)
  expect(Object.keys(answer.body.data)).toEqual(['events', 'nextCursor', 'hasMore', 'missed'])
  return answer.body.data as { events: Seen[]; nextCursor: string; hasMore: boolean; missed: boolean }
}

/** Commits so many events of no app at once. */
async function insertEvents(tenant: Tenant, count: number): Promise<void> {
  const one = {
    tenantId: tenant.tenantId as never,
    appId: null,
    type: 'tenant.updated' as const,
    data: { changed: [] },
  }
  const events = Array.from({ length: count }, () => newEvent(new Date(), one))
  await service.deps.db.run(sql`with ${eventsWrites(events)} select`)
  service.deps.wake.outbox()
}

/** Waits until all that was caused so far is in the feed. */
async function settled(tenant: Tenant): Promise<void> {
  await eventually('an empty outbox', async () => {
    const rows = await service.sql('select from outbox where tenant_id = $1', [tenant.tenantId])
    return rows.length === 0
  })
}

/** Reads on from a cursor until so many events have come. */
async function follow(tenant: Tenant, count: number, { after = '', query = '', key = tenant.key } = {}) {
  const events: Seen[] = []
  const cursors = [after]
  await eventually(`${count} events`, async () => {
    const next = await page(tenant, `?${query}${after === '' ? '' : `&after=${after}`}`, key)
    events.push(...next.events)
    after = next.nextCursor
    cursors.push(after)
    return events.length >= count
  })
  return { events, cursors, after }
}

test('an event is in the feed as it is delivered, field for field', async () => {
  const tenant = await service.newTenant()
  const receiver = await startReceiver()
  await subscribe(tenant, receiver.url, { events: ['user.created'] })
  const userId = await createUser(tenant, { email: 'ada@example.com' })
  const delivered = await receiver.until('the delivery', ({ event }) => event.data.userId === userId)
  const { events } = await follow(tenant, 1, { query: 'type=user.created' })
  expect(JSON.stringify(events[0])).toBe(delivered.body)
  await receiver.close()
})

test('twenty writers at once: a follower gets each event once, in an order that stays', async () => {
  const tenant = await service.newTenant()
  const begin = (await page(tenant, '?last=0')).nextCursor
  const reading = follow(tenant, 200, { after: begin, query: 'limit=7&type=user.created' })
  const made = await Promise.all(
    Array.from({ length: 20 }, async () => {
      const ids: string[] = []
      for (let at = 0; at < 10; at += 1) ids.push(await createUser(tenant))
      return ids
    }),
  )
  const { events, cursors } = await reading
  expect(events.map(({ data }) => data.userId).sort()).toEqual(made.flat().sort())
  expect([...cursors].sort()).toEqual(cursors)
  const again = await follow(tenant, 200, { after: begin, query: 'limit=1000&type=user.created' })
  expect(again.events).toEqual(events)
})

test('whatever is read meanwhile, an event that commits late comes behind every cursor that was given', async () => {
  const tenant = await service.newTenant()
  await createUser(tenant)
  // What the tenant's own creation caused may come in after the user.
  await settled(tenant)
  const { after } = await follow(tenant, 1, { query: 'type=user.created' })
  let commit = () => {}
  const held = new Promise<void>((resolve) => {
    commit = resolve
  })
  let published = ''
  const slow = service.deps.db.tx(async (tx) => {
    const input = { tenantId: tenant.tenantId as never, appId: null, type: 'webhook.test' as const, data: {} }
    published = (await publish(tx, service.deps, input)).id
    await held
  })
  const userId = await createUser(tenant)
  const between = await follow(tenant, 1, { after, query: 'type=user.created' })
  expect(between.events[0]?.data.userId).toBe(userId)
  commit()
  await slow
  const late = await follow(tenant, 1, { after: between.after })
  expect(late.events.map(({ id }) => id)).toEqual([published])
})

test('a page has at most its limit, and the last and the first few can be asked for', async () => {
  const tenant = await service.newTenant()
  await insertEvents(tenant, 250)
  await settled(tenant)
  const all = await page(tenant, '?limit=1000')
  const ids = all.events.map(({ id }) => id)
  expect([all.hasMore, all.missed]).toEqual([false, false])
  const first = await page(tenant)
  expect([first.events.map(({ id }) => id), first.hasMore]).toEqual([ids.slice(0, 100), true])
  const one = await page(tenant, `?after=${first.nextCursor}&limit=1`)
  expect(one.events.map(({ id }) => id)).toEqual([ids[100]])
  expect((await page(tenant, '?last=7')).events.map(({ id }) => id)).toEqual(ids.slice(-7))
  expect((await page(tenant, '?last=1000&limit=1000')).events.map(({ id }) => id)).toEqual(ids)
  const end = await page(tenant, '?last=0')
  expect(end).toEqual({ events: [], nextCursor: all.nextCursor, hasMore: false, missed: false })
  expect(await page(tenant, `?after=${end.nextCursor}`)).toEqual(end)
})

test('a tenant without events has an empty feed, whose cursor finds the first one', async () => {
  const tenant = await service.newTenant()
  await service.sql('delete from outbox where tenant_id = $1', [tenant.tenantId])
  await service.sql('delete from feed_heads where tenant_id = $1', [tenant.tenantId])
  await service.sql('delete from feed where tenant_id = $1', [tenant.tenantId])
  const empty = await page(tenant)
  expect(empty).toMatchObject({ events: [], hasMore: false, missed: false })
  for (const query of ['?last=0', '?last=5', `?since=${new Date().toISOString()}`, `?after=${empty.nextCursor}`])
    expect(await page(tenant, query), query).toEqual(empty)
  const userId = await createUser(tenant)
  expect((await follow(tenant, 1, { after: empty.nextCursor })).events[0]?.data.userId).toBe(userId)
})

test('since begins at its time or a little before, and never after an event of that time', async () => {
  const tenant = await service.newTenant()
  const hour = (at: number) => Date.UTC(2026, 9, 1, at)
  const rows = Array.from({ length: 200 }, (_, at) => `evt_${idTime(hour(at))}${String(at).padStart(16, '0')}`)
  await service.sql(
    `with e as (insert into events (tenant_id, id, type, body, created_at, context)
       select $1, id, 'user.deleted', json_build_object('id', id, 'type', 'user.deleted', 'created_at', '', 'api_version', '', 'data', '{}'::json)::text, now(), '{}'
       from unnest($2::text[]) id),
     h as (insert into feed_heads values ($1, 1000) on conflict (tenant_id) do update set seq = 1000)
     insert into feed select $1, 300 + n, id from unnest($2::text[]) with ordinality as t(id, n)`,
    [tenant.tenantId, rows],
  )
  for (const at of [0, 1, 57, 199]) {
    const { events } = await page(tenant, `?since=${new Date(hour(at)).toISOString()}&limit=1&type=user.deleted`)
    expect(events[0]?.id).toBe(rows[at])
  }
  expect((await page(tenant, '?since=2020-01-01T00:00:00Z&type=user.deleted&limit=1')).events[0]?.id).toBe(rows[0])
  expect((await page(tenant, '?since=2029-01-01T00:00:00%2B02:00&type=user.deleted')).events).toEqual([])
})

test('types and families choose events, and the cursor passes over the others', async () => {
  const tenant = await service.newTenant()
  const userId = await createUser(tenant)
  await tenant.patch(`/users/${userId}`, { name: 'Ada' })
  await tenant.delete(`/users/${userId}`)
  const both = await follow(tenant, 2, { query: 'type=user.created,user.deleted' })
  expect(both.events.map(({ type }) => type)).toEqual(['user.created', 'user.deleted'])
  const family = await page(tenant, '?type=user.*')
  expect(family.events.map(({ type }) => type)).toEqual(['user.created', 'user.updated', 'user.deleted'])
  const others = await page(tenant, '?type=tx.*')
  expect([others.events, others.nextCursor]).toEqual([[], family.nextCursor])
  expect((await page(tenant, '?type=user.*&last=2')).events.map(({ type }) => type)).toEqual([
    'user.updated',
    'user.deleted',
  ])
})

test("a key of an app gets its app's events only, and passes over the others' in bounded steps", async () => {
  const tenant = await service.newTenant()
  const other = (await tenant.post('/apps', { name: 'Other' })).body.data.id as string
  await insertEvents(tenant, 6_000)
  const userId = await createUser(tenant, { appId: other })
  await createUser(tenant)
  await settled(tenant)
  const key = await tenant.newKey({ scopes: ['webhooks:read'], appId: other })
  await settled(tenant)
  const first = await page(tenant, '?type=user.*', key)
  expect([first.events, first.hasMore]).toEqual([[], true])
  const { events, cursors } = await follow(tenant, 1, { after: first.nextCursor, query: 'type=user.*', key })
  expect(events.map(({ data }) => data.userId)).toEqual([userId])
  expect(cursors.length).toBeLessThan(6)
  const end = await page(tenant, '?last=0')
  expect(cursors.at(-1)).toBe(end.nextCursor)
  expect((await page(tenant, '?type=tenant.*', key)).events).toEqual([])
})

test("another tenant's events never appear, and its cursor is refused", async () => {
  const [tenant, other] = [await service.newTenant(), await service.newTenant()]
  await createUser(other)
  const theirs = (await follow(other, 1, { query: 'type=user.created' })).after
  await createUser(tenant)
  const own = await follow(tenant, 1, { query: 'type=user.created' })
  expect(JSON.stringify(own.events)).not.toContain(other.tenantId)
  expect(own.events).toHaveLength(1)
  const details = expectRefusal(await tenant.get(`/events?after=${theirs}`), 'validation_failed')
  expect(details[0]).toMatchObject({ field: 'after' })
})

test.each([
  ['after=', 'after'],
  ['after=0', 'after'],
  ['after=cur_00000000010000000', 'after'],
  ['after=cur_zzzzzzzzzz000000', 'after'],
  [`after=${'9'.repeat(10_000)}`, 'after'],
  ["after=' OR 1=1", 'after'],
  ['since=yesterday', 'since'],
  ['since=2026-13-01T00:00:00Z', 'since'],
  ['last=-1', 'last'],
  ['last=1001', 'last'],
  ['limit=0', 'limit'],
  ['limit=1001', 'limit'],
  ['limit=1e2', 'limit'],
  ['type=', 'type'],
  ['type=user.nonsense', 'type'],
  ['type=user.created,', 'type'],
  ['wait=31', 'wait'],
  ['wait=0.5', 'wait'],
  ['last=1&since=2026-11-01T00:00:00Z', 'last'],
  ['limit=1&limit=2', 'limit'],
  ['page=1', 'page'],
])('%s is refused by name', async (query, field) => {
  const details = expectRefusal(await service.admin.get(`/events?${query}`), 'validation_failed', query)
  expect(details.map((detail) => detail.field)).toContain(field)
})

test('a cursor past the end of the feed is refused: a database that was restored does not hide events', async () => {
  const tenant = await service.newTenant()
  await createUser(tenant)
  const { after } = await follow(tenant, 1, { query: 'type=user.created' })
  await service.sql('update feed_heads set seq = seq - 1 where tenant_id = $1', [tenant.tenantId])
  const [detail] = expectRefusal(await tenant.get(`/events?after=${after}`), 'validation_failed')
  expect(detail).toMatchObject({ field: 'after', code: 'ahead_of_feed' })
})

test('a key without the scope is refused, and a publishable one', async () => {
  const tenant = await service.newTenant()
  const narrow = await tenant.newKey({ scopes: ['users:read'] })
  expectError(await tenant.get('/events', { key: narrow }), 403, 'insufficient_scope')
  expectError(
    await tenant.get('/events', { key: await tenant.newKey({ publishable: true }) }),
    403,
    'key_type_not_allowed',
  )
  expectError(await tenant.get('/events', { key: null }), 401, 'api_key_missing')
})

test('who comes after the retention is told so, and goes on at what is kept', async () => {
  const tenant = await service.newTenant()
  await insertEvents(tenant, 30)
  await settled(tenant)
  const { events } = await page(tenant)
  const early = (await page(tenant, '?limit=5')).nextCursor
  const late = (await page(tenant, '?limit=20')).nextCursor
  await service.sql(
    'with gone as (delete from events where tenant_id = $1 and id = any($2) returning id) delete from feed using gone where tenant_id = $1 and event_id = gone.id',
    [tenant.tenantId, events.slice(0, 20).map(({ id }) => id)],
  )
  const kept = events.slice(20).map(({ id }) => id)
  const missing = await page(tenant, `?after=${early}`)
  expect([missing.missed, missing.events.map(({ id }) => id)]).toEqual([true, kept])
  for (const query of ['', `?after=${late}`, '?last=1000', '?since=2020-01-01T00:00:00Z']) {
    const whole = await page(tenant, query)
    expect([whole.missed, whole.events.map(({ id }) => id)], query).toEqual([false, kept])
  }
})

test('what is erased of a deleted user is erased in the feed', async () => {
  const tenant = await service.newTenant()
  const userId = await createUser(tenant, { email: 'erased@example.com' })
  expect((await follow(tenant, 1, { query: 'type=user.created' })).events[0]?.data.email).toBe('erased@example.com')
  await tenant.delete(`/users/${userId}`)
  await eventually('the erasure', async () => (await page(tenant, '?type=user.created')).events[0]?.data.email === '')
})

test('pages of large events stay near 1 MiB, and one that is larger comes alone', async () => {
  const tenant = await service.newTenant()
  const sizes = [300_000, 300_000, 300_000, 300_000, 300_000, 3_000_000, 10, 300_000]
  await service.deps.db.tx(async (tx) => {
    for (const size of sizes) {
      const data = { text: 'x'.repeat(size) }
      await publish(tx, service.deps, { tenantId: tenant.tenantId as never, appId: null, type: 'webhook.test', data })
    }
  })
  await settled(tenant)
  const counts: number[] = []
  let after = (await page(tenant, `?last=${sizes.length}&limit=1`)).nextCursor
  for (let more = true; more; ) {
    const next = await page(tenant, `?after=${after}&limit=1000`)
    counts.push(next.events.length)
    after = next.nextCursor
    more = next.hasMore
  }
  // After the first one. What begins below 1 MiB comes whole; the one of 3 MB comes alone.
  expect(counts).toEqual([4, 1, 2])
})
