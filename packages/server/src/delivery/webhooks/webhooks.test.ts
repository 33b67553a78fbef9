import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { type Service, startService } from '../../../test/harness/harness.ts'
import { type Receiver, startReceiver } from '../../../test/harness/receiver.ts'
import { EVENT_TYPES } from '../../platform/events/event-catalogue.ts'
import { newId } from '../../platform/ids.ts'
import { createUser, deliveriesIn, deliveriesOf, subscribe } from '../engine/delivery.fixture.ts'
import { inFeed } from '../events/own-events.fixture.ts'

// These tests wait far more than they work.
vi.setConfig({ maxConcurrency: 12 })

let service: Service
let receiver: Receiver
beforeAll(async () => {
  service = await startService({ HALFKEY_WEBHOOK_RETRY_DELAYS: '1h' })
  receiver = await startReceiver()
})
afterAll(async () => {
  await receiver.close()
  await service.stop()
})

const WEBHOOK_FIELDS = [
  'appId',
  'clientCertificate',
  'createdAt',
  'description',
  'destination',
  'disabledReason',
  'events',
  'filter',
  'format',
  'headers',
  'health',
  'id',
  'includeSubscribers',
  'metadata',
  'oauth',
  'payload',
  'previousSecretUntil',
  'secretLast4',
  'status',
  'subscriberId',
  'updatedAt',
  'url',
]

describe('creating', () => {
  test('answers 201 with the whole record and a secret that no later answer holds', async () => {
    const tenant = await service.newTenant()
    // What the tenant's own creation caused would be delivered to it, and count.
    await inFeed(tenant, 'app.created,api_key.created', 2)
    const made = await tenant.post('/webhooks', {
      url: `${receiver.url}/a?b=c`,
      events: ['user.created', 'tx.*', '*'],
      description: 'Backend',
      metadata: { team: 'payments' },
    })
    expect(made.status).toBe(201)
    expect(made.headers.get('cache-control')).toBe('no-store')
    const { secret, ...shown } = made.body.data
    expect(secret).toMatch(/^whsec_[A-Za-z0-9+/]{43}=$/)
    expect(shown).toEqual({
      id: expect.stringMatching(/^wh_[0-9a-hjkmnp-tv-z]{26}$/),
      url: `${receiver.url}/a?b=c`,
      events: ['user.created', 'tx.*', '*'],
      filter: null,
      format: 'standard',
      payload: 'full',
      description: 'Backend',
      status: 'active',
      disabledReason: null,
      secretLast4: secret.slice(-4),
      previousSecretUntil: null,
      health: { attempts: 0, failed: 0, state: 'idle' },
      headers: [],
      oauth: null,
      clientCertificate: null,
      destination: null,
      appId: null,
      subscriberId: null,
      includeSubscribers: false,
      metadata: { team: 'payments' },
      createdAt: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
      updatedAt: shown.createdAt,
    })
    const later = [
      await tenant.get(`/webhooks/${shown.id}`),
      await tenant.get('/webhooks'),
      await tenant.patch(`/webhooks/${shown.id}`, { description: null }),
      await tenant.post(`/webhooks/${shown.id}/test`),
      await tenant.get(`/webhooks/${shown.id}/deliveries`),
      await tenant.delete(`/webhooks/${shown.id}`),
    ]
    for (const each of later) {
      expect(each.status).toBe(200)
      expect(each.text).not.toContain(secret.slice(6, 30))
    }
    expect(service.logs()).not.toContain(secret.slice(6, 30))
    expect(later[0]?.body.data).toEqual(shown)
    expect(Object.keys(later[0]?.body.data).sort()).toEqual(WEBHOOK_FIELDS)
    expect(later[1]?.body).toEqual({ data: [shown], total: 1, page: 1, pageSize: 20, hasMore: false })
  })

  test('takes a hundred different kinds and families of the catalogue', async () => {
    const tenant = await service.newTenant()
    for (const events of [['user.created'], ['user.*'], ['*'], [...EVENT_TYPES]]) {
      expect((await tenant.post('/webhooks', { url: receiver.url, events })).status).toBe(201)
    }
  })

  const url = 'https://hooks.example.com/'
  test.each([
    ['no events', { url }, 'events'],
    ['an empty list', { url, events: [] }, 'events'],
    ['one twice', { url, events: ['user.created', 'user.created'] }, 'events'],
    ['101 entries', { url, events: Array.from({ length: 101 }, (_, i) => `user.${i}`) }, 'events'],
    ['an unknown kind', { url, events: ['user.exploded'] }, 'events.0'],
    ['an unknown family', { url, events: ['users.*'] }, 'events.0'],
    ['half a family', { url, events: ['user.c*'] }, 'events.0'],
    ['two stars', { url, events: ['**'] }, 'events.0'],
    ['another case', { url, events: ['User.Created'] }, 'events.0'],
    ['a name of the prototype', { url, events: ['constructor'] }, 'events.0'],
    ['text instead of a list', { url, events: 'user.created' }, 'events'],
    ['a number in the list', { url, events: [1] }, 'events.0'],
    ['no URL', { events: ['*'] }, 'url'],
    ['an empty URL', { url: '', events: ['*'] }, 'url'],
    ['a URL of 2049 characters', { url: url.padEnd(2_049, 'a'), events: ['*'] }, 'url'],
    ['a secret of its own', { url, events: ['*'], secret: 'whsec_aaaa' }, 'secret'],
    ['a status', { url, events: ['*'], status: 'paused' }, 'status'],
    ['an id', { url, events: ['*'], id: 'wh_1' }, 'id'],
    ['a tenant', { url, events: ['*'], tenantId: 'ten_1' }, 'tenantId'],
    ['metadata that is no string', { url, events: ['*'], metadata: { a: 1 } }, 'metadata.a'],
    ['a description of 501 characters', { url, events: ['*'], description: 'a'.repeat(501) }, 'description'],
  ])('with %s is 400, and names the field', async (_, body, field) => {
    const tenant = await service.newTenant()
    const refused = await tenant.post('/webhooks', body)
    expect([refused.status, refused.body.code]).toEqual([400, 'validation_failed'])
    expect(refused.body.details.map((detail: { field: string }) => detail.field)).toContain(field)
    expect((await tenant.get('/webhooks')).body.total).toBe(0)
  })

  test('in an app needs one of the caller’s: another tenant’s, and for a bound key any other, is 404', async () => {
    const tenant = await service.newTenant()
    const stranger = await service.newTenant()
    const app = (await tenant.post('/apps', { name: 'Second' })).body.data.id
    const bound = await tenant.newKey({ scopes: ['*'], appId: app })
    const make = (appId: string | null | undefined, key: string) =>
      tenant.post('/webhooks', { url: receiver.url, events: ['*'], appId }, { key })
    for (const refused of [
      await make(stranger.appId, tenant.key),
      await make(newId('app'), tenant.key),
      await make('x', tenant.key),
      await make(tenant.appId, bound),
    ]) {
      expect([refused.status, refused.body.code]).toEqual([404, 'not_found'])
      expect(refused.body.details[0].field).toBe('appId')
    }
    expect((await make(app, tenant.key)).body.data.appId).toBe(app)
    expect((await make(undefined, tenant.key)).body.data.appId).toBeNull()
    expect((await make(null, tenant.key)).body.data.appId).toBeNull()
    expect((await make(undefined, bound)).body.data.appId).toBe(app)
    expect((await make(null, bound)).body.data.appId).toBe(app)
    expect((await tenant.get('/webhooks')).body.total).toBe(5)
    expect((await tenant.get('/webhooks', { key: bound })).body.total).toBe(3)
    expect((await tenant.get(`/webhooks?app_id=${app}`)).body.total).toBe(3)
    expect((await tenant.get(`/webhooks?app_id=${tenant.appId}`)).body.total).toBe(0)
    expect((await tenant.get(`/webhooks?app_id=${stranger.appId}`)).status).toBe(404)
    expect((await tenant.get(`/webhooks?app_id=${tenant.appId}`, { key: bound })).status).toBe(404)
  })

  test('in an app that another process has just deleted is 404 and creates nothing', async () => {
    const tenant = await service.newTenant()
    const app = (await tenant.post('/apps', { name: 'Second' })).body.data.id
    const make = () => tenant.post('/webhooks', { url: receiver.url, events: ['*'], appId: app })
    expect((await make()).status).toBe(201)
    await service.sql('delete from apps where id = $1', [app])
    const refused = await make()
    expect([refused.status, refused.body.code, refused.body.details[0].field]).toEqual([404, 'not_found', 'appId'])
    expect((await tenant.get('/webhooks')).body.total).toBe(1)
  })

  test('is 409 past the tenant’s limit; one that is deleted makes room, and other tenants have theirs', async () => {
    const limited = await startService({ HALFKEY_WEBHOOKS_PER_TENANT: '2', HALFKEY_ROLE: 'api' })
    try {
      const tenant = await limited.newTenant()
      const make = (of = tenant) => of.post('/webhooks', { url: receiver.url, events: ['*'] })
      const first = await make()
      expect([first.status, (await make()).status]).toEqual([201, 201])
      const refused = await make()
      expect([refused.status, refused.body.code]).toEqual([409, 'webhook_limit_reached'])
      expect(refused.body.details[0].limit).toBe(2)
      expect((await make(await limited.newTenant())).status).toBe(201)
      await tenant.delete(`/webhooks/${first.body.data.id}`)
      expect((await make()).status).toBe(201)
    } finally {
      await limited.stop()
    }
  })

  test('twenty times at once under one idempotency key makes one webhook, and each repeat has its secret', async () => {
    const tenant = await service.newTenant()
    const make = (events = ['*']) =>
      tenant.post('/webhooks', { url: receiver.url, events }, { headers: { 'idempotency-key': 'one' } })
    const answers = await Promise.all(Array.from({ length: 20 }, () => make()))
    const made = answers.filter((each) => each.status === 201)
    expect(answers.every((each) => each.status === 201 || each.body.code === 'idempotency_in_progress')).toBe(true)
    const again = await make()
    expect(again.headers.get('idempotency-replayed')).toBe('true')
    expect(again.headers.get('cache-control')).toBe('no-store')
    expect(new Set([...made, again].map((each) => each.body.data.secret)).size).toBe(1)
    expect((await tenant.get('/webhooks')).body.total).toBe(1)
    const other = await make(['user.created'])
    expect([other.status, other.body.code]).toEqual([409, 'idempotency_conflict'])
    const kept = await service.sql<{ answer: Buffer }>('select answer from idempotency_keys where tenant_id = $1', [
      tenant.tenantId,
    ])
    expect(kept.every(({ answer: bytes }) => !bytes.toString('latin1').includes('whsec_'))).toBe(true)
  })
})

describe.concurrent('lists', () => {
  test('are newest first, in pages, by status, and refuse what they do not know', async () => {
    const tenant = await service.newTenant()
    const ids: string[] = []
    for (let n = 0; n < 5; n += 1) ids.unshift((await subscribe(tenant, receiver.url)).id)
    await tenant.patch(`/webhooks/${ids[1]}`, { status: 'paused' })
    const page = async (query: string) => (await tenant.get(`/webhooks?${query}`)).body
    const idsOf = (body: { data: { id: string }[] }) => body.data.map((each) => each.id)
    expect(idsOf(await page('page_size=2'))).toEqual(ids.slice(0, 2))
    expect(await page('page_size=2&page=3')).toMatchObject({ total: 5, page: 3, pageSize: 2, hasMore: false })
    expect(await page('page=9')).toMatchObject({ data: [], total: 5, hasMore: false })
    expect(idsOf(await page('status=paused'))).toEqual([ids[1]])
    for (const query of ['page=0', 'page=-1', 'page_size=101', 'status=gone', 'x=1', 'page=1&page=1']) {
      expect((await tenant.get(`/webhooks?${query}`)).status).toBe(400)
      expect((await tenant.get(`/webhooks/${ids[0]}/deliveries?${query}`)).status).toBe(400)
    }
    expect((await tenant.get(`/webhooks/${ids[0]}/deliveries?event_type=user.*`)).status).toBe(400)
  })

  test('of event types hold the whole catalogue with an example each', async () => {
    const tenant = await service.newTenant()
    const all = (await tenant.get('/webhooks/event-types?page_size=100')).body
    expect(all.total).toBe(EVENT_TYPES.length)
    expect(all.data.map((each: { type: string }) => each.type)).toEqual(EVENT_TYPES)
    const created = all.data.find((each: { type: string }) => each.type === 'user.created')
    expect(Object.keys(created.example).sort()).toEqual(['email', 'partyId', 'userId'])
    expect((await tenant.get('/webhooks/event-types?page_size=7&page=2')).body.data).toHaveLength(7)
  })

  test('of deliveries are newest first, by status and event type, with exact totals', async () => {
    const tenant = await service.newTenant()
    const { id } = await subscribe(tenant, receiver.url, { events: ['user.*'] })
    const user = await createUser(tenant)
    for (const name of ['Ada', 'Grace', 'Joan']) await tenant.patch(`/users/${user}`, { name })
    await deliveriesIn(tenant, id, 'succeeded', 4)
    await tenant.patch(`/webhooks/${id}`, { status: 'paused' })
    await tenant.patch(`/users/${user}`, { name: 'Ida' })
    await deliveriesIn(tenant, id, 'pending', 1)
    const all = await deliveriesOf(tenant, id)
    expect(all.map((each) => each.eventType)).toEqual([...Array(4).fill('user.updated'), 'user.created'])
    expect(all.map((each) => each.id)).toEqual(
      all
        .map((each) => each.id)
        .sort()
        .reverse(),
    )
    expect(all[0]).toMatchObject({ status: 'pending', retryCount: 0, attempts: [], webhookId: id })
    const page = (await tenant.get(`/webhooks/${id}/deliveries?page_size=2&page=2`)).body
    expect(page).toMatchObject({ total: 5, page: 2, pageSize: 2, hasMore: true })
    expect(page.data.map((each: { id: string }) => each.id)).toEqual(all.slice(2, 4).map((each) => each.id))
    expect(await deliveriesOf(tenant, id, '&event_type=user.created')).toEqual([all[4]])
    expect(await deliveriesOf(tenant, id, '&event_type=user.updated&status=pending')).toEqual([all[0]])
    expect(await deliveriesOf(tenant, id, '&status=cancelled')).toEqual([])
    expect(await deliveriesOf(tenant, id, '&sort=createdAt')).toEqual([...all].reverse())
    expect(await deliveriesOf(tenant, id, '&sort=-createdAt')).toEqual(all)
    const past = (await tenant.get(`/webhooks/${id}/deliveries?page=9999999&page_size=100`)).body
    expect(past).toEqual({ data: [], total: 5, page: 9_999_999, pageSize: 100, hasMore: false })
  })
})

describe.concurrent('PATCH', () => {
  test('changes what is given: null clears, arrays replace, metadata merges, nothing changes nothing', async () => {
    const tenant = await service.newTenant()
    const made = await tenant.post('/webhooks', {
      url: receiver.url,
      events: ['user.created', 'tx.*'],
      description: 'a',
      metadata: { a: '1', b: '2' },
    })
    const path = `/webhooks/${made.body.data.id}`
    const { secret: _, ...before } = made.body.data
    for (const nothing of [await tenant.patch(path, {}), await tenant.patch(path)]) {
      expect(nothing.status).toBe(200)
      expect(nothing.body.data).toEqual(before)
    }
    const after = await tenant.patch(path, { events: ['*'], description: null, metadata: { a: null, c: '3' } })
    expect(after.body.data).toEqual({
      ...before,
      events: ['*'],
      description: null,
      metadata: { b: '2', c: '3' },
      updatedAt: after.body.data.updatedAt,
    })
    expect(after.body.data.updatedAt >= before.updatedAt).toBe(true)
    expect((await tenant.patch(path, { url: `${receiver.url}/new` })).body.data.url).toBe(`${receiver.url}/new`)
  })

  test.each([
    ['a null URL', { url: null }],
    ['null events', { events: null }],
    ['a null status', { status: null }],
    ['the status disabled', { status: 'disabled' }],
    ['another app', { appId: 'app_1' }],
    ['a secret', { secret: 'whsec_a' }],
    ['an empty list', { events: [] }],
    ['one twice', { events: ['*', '*'] }],
    ['too much metadata', { metadata: Object.fromEntries(Array.from({ length: 51 }, (_, i) => [`k${i}`, ''])) }],
    ['a URL within', { url: 'https://10.0.0.1/' }],
    ['a URL that is none', { url: 'example' }],
  ])('with %s is 400 and changes nothing', async (_, body) => {
    const tenant = await service.newTenant()
    const { id } = await subscribe(tenant, receiver.url)
    const before = (await tenant.get(`/webhooks/${id}`)).body
    expect((await tenant.patch(`/webhooks/${id}`, body)).status).toBe(400)
    expect((await tenant.get(`/webhooks/${id}`)).body).toEqual(before)
  })

  test('paused holds deliveries and active sends them', async () => {
    const tenant = await service.newTenant()
    const { id } = await subscribe(tenant, receiver.url)
    expect((await tenant.patch(`/webhooks/${id}`, { status: 'paused' })).body.data.status).toBe('paused')
    const users = [await createUser(tenant), await createUser(tenant)]
    const held = await deliveriesIn(tenant, id, 'pending', 2)
    // Another webhook of the tenant gets a later event: the engine has been by, and left these alone.
    const witness = await subscribe(tenant, `${receiver.url}/witness`)
    const last = await createUser(tenant)
    await receiver.until('the witness', (got) => got.path === '/witness' && got.event.data.userId === last)
    expect(await deliveriesOf(tenant, id, '&status=pending')).toHaveLength(3)
    expect(receiver.received.some((got) => got.path === '/' && users.includes(got.event.data.userId))).toBe(false)
    expect(held.every((each) => each.attempts.length === 0)).toBe(true)
    expect(witness.id).not.toBe(id)
    expect((await tenant.patch(`/webhooks/${id}`, { status: 'active' })).body.data.status).toBe('active')
    await receiver.count('the held', 3, (got) => got.path === '/' && [...users, last].includes(got.event.data.userId))
  })

  test('active brings a disabled webhook back, without its reason', async () => {
    const tenant = await service.newTenant()
    const { id } = await subscribe(tenant, receiver.url)
    await service.sql(`update webhooks set status = 'disabled', disabled_reason = 'x' where id = $1`, [id])
    await service.sql('update lanes set held = true, failing_since = now() where id = $1', [id])
    expect((await tenant.get(`/webhooks/${id}`)).body.data).toMatchObject({ status: 'disabled', disabledReason: 'x' })
    await createUser(tenant)
    await deliveriesIn(tenant, id, 'dead_letter')
    expect((await tenant.patch(`/webhooks/${id}`, { description: 'still' })).body.data.status).toBe('disabled')
    expect((await tenant.patch(`/webhooks/${id}`, { status: 'active' })).body.data).toMatchObject({
      status: 'active',
      disabledReason: null,
    })
    const user = await createUser(tenant)
    await receiver.until('the next one', (got) => got.event.data.userId === user)
  })
})

describe.concurrent('deleting', () => {
  test('answers the record once, then it is gone, and nothing is sent any more', async () => {
    const tenant = await service.newTenant()
    const { id } = await subscribe(tenant, `${receiver.url}/deleted`)
    const kept = await subscribe(tenant, `${receiver.url}/kept`)
    const before = (await tenant.get(`/webhooks/${id}`)).body.data
    const gone = await tenant.delete(`/webhooks/${id}`)
    expect(gone.status).toBe(200)
    expect(Object.keys(gone.body.data).sort()).toEqual(WEBHOOK_FIELDS)
    expect(gone.body.data).toMatchObject({ id, url: before.url, createdAt: before.createdAt })
    for (const each of [
      await tenant.delete(`/webhooks/${id}`),
      await tenant.get(`/webhooks/${id}`),
      await tenant.patch(`/webhooks/${id}`, { status: 'active' }),
      await tenant.post(`/webhooks/${id}/test`),
      await tenant.post(`/webhooks/${id}/rotate`),
      await tenant.get(`/webhooks/${id}/deliveries`),
    ]) {
      expect(each.status).toBe(404)
    }
    expect((await tenant.get('/webhooks')).body.data.map((each: { id: string }) => each.id)).toEqual([kept.id])
    const user = await createUser(tenant)
    await receiver.until('the one that stays', (got) => got.path === '/kept' && got.event.data.userId === user)
    expect(receiver.received.some((got) => got.path === '/deleted')).toBe(false)
  })
})

describe.concurrent('rotating', () => {
  test('answers a new secret once, not to be cached; endGrace answers none', async () => {
    const tenant = await service.newTenant()
    const { id, secret } = await subscribe(tenant, receiver.url)
    const rotated = await tenant.post(`/webhooks/${id}/rotate`, { graceSeconds: 60 })
    expect([rotated.status, rotated.headers.get('cache-control')]).toEqual([200, 'no-store'])
    expect(rotated.body.data.secret).toMatch(/^whsec_[A-Za-z0-9+/]{43}=$/)
    expect(rotated.body.data.secret).not.toBe(secret)
    expect(Date.parse(rotated.body.data.previousSecretUntil)).toBeGreaterThan(service.deps.now().getTime())
    expect(rotated.body.data.secretLast4).toBe(rotated.body.data.secret.slice(-4))
    const ended = await tenant.post(`/webhooks/${id}/rotate`, { endGrace: true })
    expect([ended.status, ended.headers.get('cache-control')]).toEqual([200, 'no-store'])
    expect(ended.body.data).toMatchObject({ secret: null, secretLast4: rotated.body.data.secretLast4 })
    expect((await tenant.get(`/webhooks/${id}`)).body.data).toMatchObject({
      secretLast4: rotated.body.data.secretLast4,
      previousSecretUntil: null,
    })
  })

  test.each([
    ['both', { endGrace: true, graceSeconds: 1 }],
    ['a negative grace', { graceSeconds: -1 }],
    ['half a second', { graceSeconds: 0.5 }],
    ['a grace of text', { graceSeconds: '60' }],
    ['a grace of 31 days', { graceSeconds: 31 * 86_400 }],
    ['endGrace: false', { endGrace: false }],
    ['a secret of its own', { secret: 'whsec_a' }],
  ])('with %s is 400 and keeps the secret', async (_, body) => {
    const tenant = await service.newTenant()
    const { id, secret } = await subscribe(tenant, receiver.url)
    expect((await tenant.post(`/webhooks/${id}/rotate`, body)).status).toBe(400)
    expect((await tenant.get(`/webhooks/${id}`)).body.data.secretLast4).toBe(secret.slice(-4))
  })

  test('twice under one idempotency key is one rotation', async () => {
    const tenant = await service.newTenant()
    const { id } = await subscribe(tenant, receiver.url)
    const rotate = () => tenant.post(`/webhooks/${id}/rotate`, {}, { headers: { 'idempotency-key': 'r' } })
    expect((await rotate()).body.data.secret).toBe((await rotate()).body.data.secret)
  })
})
