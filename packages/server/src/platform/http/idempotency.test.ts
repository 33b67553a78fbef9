import { randomUUID } from 'node:crypto'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startDnsServer } from '../../../test/harness/dns-server.ts'
import { expectError, expectRefusal } from '../../../test/harness/envelope.ts'
import {
  type Answer,
  type CallOptions,
  eventually,
  type Service,
  startService,
  type Tenant,
} from '../../../test/harness/harness.ts'
import { NOWHERE } from '../../../test/matrix/bodies.ts'
import { signIn } from '../../../test/matrix/requests.ts'

let service: Service
beforeAll(async () => {
  service = await startService()
})
afterAll(() => service.stop())

const DAY_MS = 24 * 3_600_000
const PARALLEL = 20

const keyed = (key: string, more: CallOptions = {}): CallOptions => ({
  ...more,
  headers: { 'idempotency-key': key, ...more.headers },
})
const replayed = (answer: Answer) => answer.headers.get('idempotency-replayed')

/** Asks again, as a client does, while the first is still running. */
const settled = (request: () => Promise<Answer>): Promise<Answer> =>
  eventually('an answer that is not idempotency_in_progress', async () => {
    const answer = await request()
    return answer.body?.code !== 'idempotency_in_progress' && answer
  })

const total = async (tenant: Tenant, path: string): Promise<number> => (await tenant.get(path)).body.total

const creations: [path: string, body: object, list: string][] = [
  ['/users', { email: 'ada@example.com' }, '/users'],
  ['/apps', { name: 'Shop' }, '/apps'],
  ['/api-keys', { name: 'Backend', type: 'secret', scopes: ['users:read'] }, '/api-keys'],
  ['/webhooks', { url: NOWHERE, events: ['user.created'] }, '/webhooks'],
]

test.each(creations)(
  'twenty POST %s at once under one key have one effect and one answer',
  async (path, body, list) => {
    const tenant = await service.newTenant()
    const before = await total(tenant, list)
    const key = randomUUID()
    const first = await Promise.all(Array.from({ length: PARALLEL }, () => tenant.post(path, body, keyed(key))))
    for (const answer of first) {
      if (answer.status === 201) continue
      expectError(answer, 409, 'idempotency_in_progress')
      expect(answer.headers.get('retry-after')).toBe('1')
    }
    const again = await Promise.all(
      Array.from({ length: PARALLEL }, () => settled(() => tenant.post(path, body, keyed(key)))),
    )
    const made = [...first, ...again].filter((answer) => answer.status === 201)
    expect(new Set(made.map((answer) => answer.text)).size).toBe(1)
    expect(made.filter((answer) => replayed(answer) === null)).toHaveLength(1)
    expect(again.every((answer) => answer.status === 201 && replayed(answer) === 'true')).toBe(true)
    expect(await total(tenant, list)).toBe(before + 1)
  },
)

test('twenty test events at once under one key are one event', async () => {
  const tenant = await service.newTenant()
  const { id } = (await tenant.post('/webhooks', { url: NOWHERE, events: ['*'] })).body.data
  const key = randomUUID()
  const answers = await Promise.all(
    Array.from({ length: PARALLEL }, () => settled(() => tenant.post(`/webhooks/${id}/test`, {}, keyed(key)))),
  )
  expect(new Set(answers.map((answer) => `${answer.status} ${answer.body.data.id}`)).size).toBe(1)
  const rows = await service.sql('select 1 from events where tenant_id = $1 and type = $2', [
    tenant.tenantId,
    'webhook.test',
  ])
  expect(rows).toHaveLength(1)
})

test('one user.created stands for any number of repeats', async () => {
  const tenant = await service.newTenant()
  for (let i = 0; i < 3; i += 1) expect((await tenant.post('/users', { name: 'Ada' }, keyed('k'))).status).toBe(201)
  const events = await service.sql('select 1 from events where tenant_id = $1 and type = $2', [
    tenant.tenantId,
    'user.created',
  ])
  expect(events).toHaveLength(1)
})

test('a repeat gets the identical bytes, status and headers of the first answer, whatever happened since', async () => {
  const tenant = await service.newTenant()
  const first = await tenant.post('/users', { name: 'Ada' }, keyed('k'))
  expect(replayed(first)).toBeNull()
  await tenant.patch(`/users/${first.body.data.id}`, { name: 'Eve' })
  await tenant.delete(`/users/${first.body.data.id}`)
  const again = await tenant.post('/users', { name: 'Ada' }, keyed('k'))
  expect([again.status, again.text, replayed(again)]).toEqual([201, first.text, 'true'])
  expect(again.headers.get('content-type')).toBe(first.headers.get('content-type'))
  expect(again.headers.get('x-request-id')).not.toBe(first.headers.get('x-request-id'))
})

test('a body that means the same is the same request, however it is written', async () => {
  const tenant = await service.newTenant()
  const first = await tenant.post(
    '/users',
    undefined,
    keyed('k', { raw: '{"name":"Ad\\u0061","metadata":{"a":"1","b":"2"}}' }),
  )
  const again = await tenant.post(
    '/users',
    undefined,
    keyed('k', { raw: ' { "metadata" : {"b":"2","a":"1"}, "name":"Ada" }' }),
  )
  expect([again.status, again.text]).toEqual([201, first.text])
})

test('another body under the same key is a conflict, and has no effect', async () => {
  const tenant = await service.newTenant()
  await tenant.post('/users', { name: 'Ada' }, keyed('k'))
  for (const body of [{ name: 'Eve' }, { name: 'Ada', email: 'ada@example.com' }, {}])
    expectError(await tenant.post('/users', body, keyed('k')), 409, 'idempotency_conflict')
  expect(await total(tenant, '/users')).toBe(1)
  expect((await tenant.post('/users', { name: 'Ada' }, keyed('k'))).status).toBe(201)
})

test('PATCH keeps its answer too, and a DELETE and a GET ignore the header', async () => {
  const tenant = await service.newTenant()
  const { id } = (await tenant.post('/users', { name: 'Ada' })).body.data
  const first = await tenant.patch(`/users/${id}`, { name: 'Eve' }, keyed('k'))
  await tenant.patch(`/users/${id}`, { name: 'Zoë' })
  const again = await tenant.patch(`/users/${id}`, { name: 'Eve' }, keyed('k'))
  expect([again.text, replayed(again)]).toEqual([first.text, 'true'])
  const read = await tenant.get(`/users/${id}`, keyed('k'))
  expect([read.body.data.name, replayed(read)]).toEqual(['Zoë', null])
  expect((await tenant.delete(`/users/${id}`, keyed('k'))).status).toBe(200)
  expectError(await tenant.delete(`/users/${id}`, keyed('k')), 404, 'not_found')
})

test('while the first is still running, a repeat is told to wait and has no effect', async () => {
  const tenant = await service.newTenant()
  // A row lock of ours makes the first request wait inside its transaction.
  const blocker = new pg.Client({ connectionString: service.databaseUrl })
  await blocker.connect()
  try {
    const { id } = (await tenant.post('/users', { name: 'Ada' })).body.data
    await blocker.query('begin')
    await blocker.query('select 1 from users where id = $1 for update', [id])
    const first = tenant.patch(`/users/${id}`, { name: 'Eve' }, keyed('k'))
    const refused = await eventually('the refusal of the repeat', async () => {
      const waiting = await service.sql(
        `select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock' and query ~ '\\musers\\M'`,
      )
      return waiting.length > 0 && tenant.patch(`/users/${id}`, { name: 'Eve' }, keyed('k'))
    })
    expectError(refused, 409, 'idempotency_in_progress')
    expect(refused.headers.get('retry-after')).toBe('1')
    expect((await tenant.patch('/tenant', { name: 'Other' }, keyed('k'))).status).toBe(200)
    await blocker.query('rollback')
    expect((await first).body.data.name).toBe('Eve')
    const again = await tenant.patch(`/users/${id}`, { name: 'Eve' }, keyed('k'))
    expect([again.text, replayed(again)]).toEqual([(await first).text, 'true'])
  } finally {
    await blocker.end()
  }
})

test('failures are not kept: the same key works once what was wrong is gone', async () => {
  const tenant = await service.newTenant()
  const { id } = (await tenant.post('/users', { email: 'ada@example.com' })).body.data
  const body = { email: 'ADA@example.com' }
  for (let i = 0; i < 2; i += 1) {
    const refused = await tenant.post('/users', body, keyed('k'))
    expectError(refused, 409, 'already_exists')
    expect(replayed(refused)).toBeNull()
  }
  expectRefusal(await tenant.post('/users', { email: 'none' }, keyed('k')), 'validation_failed')
  expectError(await tenant.post('/users', { appId: 'none' }, keyed('k')), 404, 'not_found')
  expectError(
    await tenant.post('/users', body, keyed('k', { key: await tenant.newKey({ scopes: ['users:read'] }) })),
    403,
    'insufficient_scope',
  )
  expect(await kept(tenant)).toEqual([])
  await tenant.delete(`/users/${id}`)
  const made = await tenant.post('/users', body, keyed('k'))
  expect([made.status, replayed(made)]).toEqual([201, null])
  expect(await kept(tenant)).toHaveLength(1)
})

interface KeptRow {
  status: number
  answer: Buffer
  sealed: boolean
}
const kept = (tenant: Tenant) =>
  service.sql<KeptRow>('select status, answer, sealed from idempotency_keys where tenant_id = $1', [tenant.tenantId])

test('the same key on another path, method, API key or tenant is another request', async () => {
  const tenant = await service.newTenant()
  const other = await service.newTenant()
  const first = await tenant.post('/users', { name: 'Ada' }, keyed('k'))
  const second = await tenant.post('/users', { name: 'Ada' }, keyed('k2'))
  const answers = [
    second,
    await tenant.post('/apps', { name: 'Ada' }, keyed('k')),
    await tenant.post('/users', { name: 'Ada' }, keyed('k', { key: await tenant.newKey({ scopes: ['users:write'] }) })),
    await other.post('/users', { name: 'Ada' }, keyed('k')),
    await tenant.patch(`/users/${first.body.data.id}`, { name: 'Ada' }, keyed('k')),
    await tenant.patch(`/users/${second.body.data.id}`, { name: 'Ada' }, keyed('k')),
    await tenant.post('/users', { name: 'Ada' }, keyed('K')),
  ]
  for (const answer of answers) expect([answer.status < 300, replayed(answer)], answer.text).toEqual([true, null])
  expect(new Set([first, ...answers].map((answer) => answer.body.data.id)).size).toBe(answers.length - 1)
})

test('an answer with a secret is kept sealed, and is not to be cached when it is repeated', async () => {
  const tenant = await service.newTenant()
  const apiKey = { name: 'Backend', type: 'secret', scopes: ['users:read'] }
  const calls: [string, object, string][] = [
    ['/api-keys', apiKey, 'key'],
    ['/webhooks', { url: NOWHERE, events: ['*'] }, 'secret'],
  ]
  for (const [path, body, field] of calls) {
    const first = await tenant.post(path, body, keyed('k'))
    const again = await tenant.post(path, body, keyed('k'))
    expect(again.text).toBe(first.text)
    for (const answer of [first, again]) expect(answer.headers.get('cache-control')).toBe('no-store')
    const secret: string = first.body.data[field]
    for (const row of await kept(tenant)) {
      expect(row.sealed).toBe(true)
      expect(row.answer.toString('latin1')).not.toContain(secret)
      expect(row.answer.toString('latin1')).not.toContain('"data"')
    }
  }
  expect(await kept(tenant)).toHaveLength(2)
  const rotated = await tenant.post(
    `/webhooks/${(await tenant.get('/webhooks')).body.data[0].id}/rotate`,
    {},
    keyed('k'),
  )
  expect(rotated.body.data.secret).toMatch(/^whsec_/)
  expect((await kept(tenant)).every((row) => row.sealed)).toBe(true)
})

test('a key that was revoked does not get its old answers', async () => {
  const tenant = await service.newTenant()
  const key = await tenant.newKey({ scopes: ['users:write', 'api_keys:write'] })
  expect((await tenant.post('/users', { name: 'Ada' }, keyed('k', { key }))).status).toBe(201)
  const { data } = (await tenant.get('/api-keys')).body
  await tenant.delete(`/api-keys/${data.find((one: { last4: string }) => key.endsWith(one.last4)).id}`)
  expectError(await tenant.post('/users', { name: 'Ada' }, keyed('k', { key })), 401, 'api_key_invalid')
})

test('an answer is kept for 24 hours, after which the key is new', async () => {
  const tenant = await service.newTenant()
  const first = await tenant.post('/users', { name: 'Ada' }, keyed('k'))
  service.advance(DAY_MS - 60_000)
  expect((await tenant.post('/users', { name: 'Ada' }, keyed('k'))).text).toBe(first.text)
  service.advance(120_000)
  const later = await tenant.post('/users', { name: 'Eve' }, keyed('k'))
  expect([later.status, later.body.data.name, replayed(later)]).toEqual([201, 'Eve', null])
  expect(await total(tenant, '/users')).toBe(2)
})

test('a key is 1 to 255 characters', async () => {
  const tenant = await service.newTenant()
  expect((await tenant.post('/users', {}, keyed('k'.repeat(255)))).status).toBe(201)
  for (const key of ['k'.repeat(256), 'k'.repeat(4_000), '']) {
    const [detail] = expectRefusal(await tenant.post('/users', {}, keyed(key)), 'validation_failed')
    expect(detail.field).toBe('Idempotency-Key')
  }
  expect(await total(tenant, '/users')).toBe(1)
})

test('without the header every request has its effect', async () => {
  const tenant = await service.newTenant()
  for (let i = 0; i < 3; i += 1) expect(replayed(await tenant.post('/users', { name: 'Ada' }))).toBeNull()
  expect(await total(tenant, '/users')).toBe(3)
  expect(await kept(tenant)).toEqual([])
})

test('an answer is kept only once its effect has committed', async () => {
  const tenant = await service.newTenant()
  // The effect's own transaction holds the marker: a commit that fails takes both away.
  await service.sql(
    `create function refuse() returns trigger language plpgsql as $$ begin raise exception 'refused'; end $$`,
  )
  await service.sql(
    'create constraint trigger refuse after insert on users deferrable initially deferred for each row execute function refuse()',
  )
  try {
    expectError(await tenant.post('/users', { name: 'Ada' }, keyed('k')), 500, 'internal_error')
    expect(await kept(tenant)).toEqual([])
    expect(await total(tenant, '/users')).toBe(0)
  } finally {
    await service.sql('drop trigger refuse on users')
  }
  expect(replayed(await tenant.post('/users', { name: 'Ada' }, keyed('k')))).toBeNull()
  expect(await total(tenant, '/users')).toBe(1)
})

test('a repeat is answered although the check before the effect would fail now', async () => {
  const dns = await startDnsServer()
  const host = await startService({ HALFKEY_DNS_SERVERS: dns.address })
  try {
    const tenant = await host.newTenant()
    const body = { url: 'https://hooks.example.test/', events: ['user.created'] }
    dns.set('hooks.example.test', [{ type: 'A', address: '203.0.114.7', ttlSeconds: 0 }])
    const first = await tenant.post('/webhooks', body, keyed('k'))
    expect(first.status, first.text).toBe(201)
    dns.set('hooks.example.test', [{ type: 'A', address: '10.0.0.1', ttlSeconds: 0 }])
    expectRefusal(await tenant.post('/webhooks', body, keyed('k2')), 'webhook_url_blocked')
    const again = await tenant.post('/webhooks', body, keyed('k'))
    expect([again.status, again.text, replayed(again)]).toEqual([201, first.text, 'true'])
    expectError(await tenant.post('/webhooks', { ...body, description: 'x' }, keyed('k')), 409, 'idempotency_conflict')
  } finally {
    await host.stop()
    await dns.close()
  }
})

describe('with a publishable key', () => {
  const asked = async () => {
    const tenant = await service.newTenant()
    const key = await tenant.newKey({ publishable: true })
    const guest = async () =>
      (await tenant.post('/guests', {}, { key })).body.data as { accessToken: string; id: string }
    const as = (who: { accessToken: string }, more: object = {}) =>
      keyed('same', { key, headers: { authorization: `Bearer ${who.accessToken}` }, ...more })
    return { tenant, key, guest, as }
  }

  test('it counts for a current user, and for no other one', async () => {
    const { tenant, guest, as } = await asked()
    const [ada, eve] = [await guest(), await guest()]
    const convert = (who: { accessToken: string; id: string }, email: string) =>
      tenant.post(`/guests/${who.id}/convert`, { email }, as(who))
    const first = await convert(ada, 'ada@example.com')
    expect([first.status, replayed(first)]).toEqual([200, null])
    const again = await convert(ada, 'ada@example.com')
    expect([again.status, again.text, replayed(again)]).toEqual([200, first.text, 'true'])
    expectError(await convert(ada, 'other@example.com'), 409, 'idempotency_conflict')
    const logOuts = [await tenant.post('/auth/logout', {}, as(ada)), await tenant.post('/auth/logout', {}, as(eve))]
    expect(logOuts.map((answer) => [answer.body.data.revoked, replayed(answer)])).toEqual([
      [1, null],
      [1, null],
    ])
  })

  test('and for no other session of the same user, which may not do what the first one might', async () => {
    const tenant = await service.newTenant()
    const [first, second] = [await signIn(service, tenant), await signIn(service, tenant)]
    const setUp = (who: { accessToken: string }) =>
      tenant.post('/mfa/setup', {}, keyed('same', { headers: { authorization: `Bearer ${who.accessToken}` } }))
    const made = await setUp(first)
    expect(made.status).toBe(200)
    service.advance(6 * 60_000)
    expect((await setUp(first)).text).toBe(made.text)
    expectError(await setUp(second), 403, 'reauthentication_required')
  })

  test('an answer is nobody’s any more whose session has ended', async () => {
    const { tenant, guest, as } = await asked()
    const ada = await guest()
    expect((await tenant.post('/mfa/setup', {}, as(ada))).status).toBe(200)
    expect((await tenant.delete(`/guests/${ada.id}`)).status).toBe(200)
    expectError(await tenant.post('/mfa/setup', {}, as(ada)), 410, 'guest_expired')
  })

  test('it is ignored without a current user: strangers share the key', async () => {
    const { tenant, key } = await asked()
    const made = [
      await tenant.post('/guests', {}, keyed('same', { key })),
      await tenant.post('/guests', {}, keyed('same', { key })),
    ]
    expect(made.map((answer) => [answer.status, replayed(answer)])).toEqual([
      [201, null],
      [201, null],
    ])
    expect(made[0]?.body.data.id).not.toBe(made[1]?.body.data.id)
  })
})
