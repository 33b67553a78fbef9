import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { expectError, expectRefusal } from '../../../test/harness/envelope.ts'
import { type Answer, type Service, startService, type Tenant } from '../../../test/harness/harness.ts'

let service: Service
beforeAll(async () => {
  service = await startService()
})
afterAll(() => service.stop())

test('a created user has its party in the namespace of the tenant and emits exactly one user.created', async () => {
  const tenant = await service.newTenant()
  const made = await tenant.post('/users', { email: ' Ada@Example.com ', name: 'Ada' })
  expect(made.status).toBe(201)
  expect(made.body.data).toMatchObject({
    appId: tenant.appId,
    email: 'Ada@Example.com',
    trustLevel: 'embedded',
    status: 'active',
  })
  expect(made.body.data.partyId).toMatch(new RegExp(`^${made.body.data.id}::1220[0-9a-f]{64}$`))
  const events = await service.sql<{ body: string }>(
    `select body from events where tenant_id = $1 and type = 'user.created'`,
    [tenant.tenantId],
  )
  expect(events.map((event) => JSON.parse(event.body).data)).toEqual([
    { userId: made.body.data.id, email: 'Ada@Example.com', partyId: made.body.data.partyId },
  ])
})

test('fifty creations at once with one email make one user and one event', async () => {
  const tenant = await service.newTenant()
  const answers = await Promise.all(
    Array.from({ length: 50 }, (_, i) =>
      tenant.post('/users', { email: i % 2 === 0 ? 'zoë@example.com' : 'ZOE\u0308@example.com' }),
    ),
  )
  expect(answers.filter((answer) => answer.status === 201)).toHaveLength(1)
  expect(answers.filter((answer) => answer.status === 409 && answer.body.details[0].field === 'email')).toHaveLength(49)
  const events = await service.sql(`select 1 from events where tenant_id = $1 and type = 'user.created'`, [
    tenant.tenantId,
  ])
  expect(events).toHaveLength(1)
})

const eventsOf = async (tenant: Tenant, type: string) =>
  (
    await service.sql<{ body: string }>('select body from events where tenant_id = $1 and type = $2 order by id', [
      tenant.tenantId,
      type,
    ])
  ).map((event) => JSON.parse(event.body).data)

async function newUser(tenant: Tenant, body: object = {}): Promise<Answer['body']> {
  const answer = await tenant.post('/users', body)
  expect(answer.status, answer.text).toBe(201)
  return answer.body.data
}

describe('creating a user', () => {
  test('nothing is required, and every field is there, null where there is none', async () => {
    const tenant = await service.newTenant()
    const user = await newUser(tenant)
    expect(user).toEqual({
      id: expect.stringMatching(/^usr_[0-9a-hjkmnp-tv-z]{26}$/),
      appId: tenant.appId,
      email: null,
      emailVerified: false,
      name: null,
      externalId: null,
      partyId: expect.any(String),
      trustLevel: 'embedded',
      status: 'active',
      mfaEnabled: false,
      metadata: {},
      lastSeenAt: null,
      createdAt: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
      updatedAt: user.createdAt,
    })
    expect((await tenant.get(`/users/${user.id}`)).body).toEqual({ data: user })
    expect(await eventsOf(tenant, 'user.created')).toEqual([{ userId: user.id, email: '', partyId: user.partyId }])
  })

  test.each([
    'x',
    'nope',
    'ada@',
    '@example.com',
    'ada@example..com',
    'ada lovelace@example.com',
    'ada@exa mple.com',
    '',
  ])('a malformed email is reported together with the other invalid fields: %j', async (email) => {
    const tenant = await service.newTenant()
    const answer = await tenant.post('/users', { email, name: '', externalId: 7, role: 'admin' })
    expectError(answer, 400, 'validation_failed', email)
    const { details } = answer.body
    expect(details.map(({ field }: { field: string }) => field).sort()).toEqual(['email', 'externalId', 'name', 'role'])
    expect(details.find(({ field }: { field: string }) => field === 'email')).toMatchObject({
      code: 'invalid_email',
      message: 'Must be an email address, for example ada@example.com.',
    })
  })

  test('null means the same as absent', async () => {
    const tenant = await service.newTenant()
    expect(await newUser(tenant, { email: null, name: null, externalId: null })).toMatchObject({
      email: null,
      name: null,
      externalId: null,
    })
  })

  test('parties of one tenant share a namespace, those of two do not, and none holds personal data', async () => {
    const tenant = await service.newTenant()
    const namespaceOf = (user: { partyId: string }) => user.partyId.split('::')[1]
    const [ada, eve] = [await newUser(tenant, { email: 'ada@example.com' }), await newUser(tenant, { name: 'Eve' })]
    const other = await newUser(await service.newTenant())
    expect(namespaceOf(ada)).toBe(namespaceOf(eve))
    expect(namespaceOf(other)).not.toBe(namespaceOf(ada))
    expect(ada.partyId).toBe(`${ada.id}::${namespaceOf(ada)}`)
  })

  test('an email is one whatever its case, its Unicode form and the spaces around it', async () => {
    const tenant = await service.newTenant()
    await newUser(tenant, { email: 'zoë.straße@Example.com' })
    const variants = [
      'zoë.straße@example.com',
      ' ZOË.STRASSE@EXAMPLE.COM\t',
      'zoe\u0308.straße@example.com',
      'ZOE\u0308.STRAẞE@example.com',
      '\u00a0zoë.straße@example.com\ufeff',
    ]
    for (const email of variants) {
      const answer = await tenant.post('/users', { email })
      expectError(answer, 409, 'already_exists', email)
      expect(answer.body.details[0]).toMatchObject({ field: 'email', code: 'already_exists' })
    }
    expect(await eventsOf(tenant, 'user.created')).toHaveLength(1)
  })

  test('an email is shown as it came, trimmed and composed', async () => {
    const tenant = await service.newTenant()
    expect((await newUser(tenant, { email: '  Zoe\u0308@Example.com ' })).email).toBe('Zo\u00eb@Example.com')
    expect((await newUser(tenant, { name: '  Zoe\u0308 ' })).name).toBe('Zo\u00eb')
  })

  test('what is no address is refused', async () => {
    const tenant = await service.newTenant()
    const wrong = [
      '',
      'a@',
      '@b',
      'ab',
      'a b@c.d',
      'a@b@c.d',
      'a@b c',
      '.a@b.c',
      'a.@b.c',
      'a..b@c.d',
      'a@b..c',
      'a@.b',
      'a@b.',
      'a\n@b.c',
      '<a@b.c>',
      'a,b@c.d',
      '   ',
      `${'a'.repeat(65)}@b.c`,
      `a@${'b'.repeat(256)}`,
      'x'.repeat(400),
      'a@b\u200b.c',
    ]
    for (const email of wrong) {
      const [detail] = expectRefusal(await tenant.post('/users', { email }), 'validation_failed', JSON.stringify(email))
      expect(detail.field).toBe('email')
    }
    for (const email of [7, true, {}, ['a@b.c']])
      expectRefusal(await tenant.post('/users', { email }), 'validation_failed', JSON.stringify(email))
    expect((await tenant.get('/users')).body.total).toBe(0)
    expect(await eventsOf(tenant, 'user.created')).toEqual([])
  })

  test('unusual addresses that are some are taken', async () => {
    const tenant = await service.newTenant()
    for (const email of [
      "o'hara+x/y=z@example.com",
      '用户@例え.テスト',
      'a@localhost',
      'a.b.c@d-e.f',
      `${'a'.repeat(64)}@b.c`,
    ])
      expect((await newUser(tenant, { email })).email).toBe(email)
  })

  test('an external id is unique to the character, and kept as it came', async () => {
    const tenant = await service.newTenant()
    for (const externalId of ['a', 'A', ' a', 'x'.repeat(255)])
      expect((await newUser(tenant, { externalId })).externalId).toBe(externalId)
    const answer = await tenant.post('/users', { externalId: 'a' })
    expectError(answer, 409, 'already_exists')
    expect(answer.body.details[0].field).toBe('externalId')
    for (const externalId of ['', 'x'.repeat(256), 7])
      expectRefusal(await tenant.post('/users', { externalId }), 'validation_failed')
  })

  test('twenty creations at once with one external id make one user', async () => {
    const tenant = await service.newTenant()
    const answers = await Promise.all(Array.from({ length: 20 }, () => tenant.post('/users', { externalId: 'a' })))
    expect(answers.map((answer) => answer.status).sort()).toEqual([201, ...Array(19).fill(409)])
    expect(await eventsOf(tenant, 'user.created')).toHaveLength(1)
    expect((await tenant.get('/users')).body.total).toBe(1)
  })

  test('email and external id are unique in an app, not across apps and tenants', async () => {
    const tenant = await service.newTenant()
    const body = { email: 'ada@example.com', externalId: '1' }
    const appId = (await tenant.post('/apps', { name: 'Other' })).body.data.id
    await newUser(tenant, body)
    expect((await newUser(tenant, { ...body, appId })).appId).toBe(appId)
    await newUser(await service.newTenant(), body)
    expectError(await tenant.post('/users', { ...body, appId }), 409, 'already_exists')
  })

  test('a name has something in it', async () => {
    const tenant = await service.newTenant()
    for (const name of ['', '   ', '\u00a0\t', 'x'.repeat(201), 7]) {
      const [detail] = expectRefusal(await tenant.post('/users', { name }), 'validation_failed', JSON.stringify(name))
      expect(detail.field).toBe('name')
    }
    expect((await newUser(tenant, { name: '<img src=x onerror=alert(1)>' })).name).toBe('<img src=x onerror=alert(1)>')
  })

  test('metadata are at most 50 strings and 16 KiB', async () => {
    const tenant = await service.newTenant()
    const keys = (n: number) => Object.fromEntries(Array.from({ length: n }, (_, i) => [`k${i}`, '']))
    const fits = { a: 'x'.repeat(16 * 1024 - '{"a":""}'.length) }
    for (const metadata of [{}, keys(50), fits, { 'a b.c/d': '"\\', '': 'empty', é: '😀' }])
      expect((await newUser(tenant, { metadata })).metadata).toEqual(metadata)
    const wrong = [
      keys(51),
      { a: `${fits.a}x` },
      { a: 'é'.repeat(9_000) },
      { a: 1 },
      { a: null },
      { a: {} },
      { ['k'.repeat(201)]: '' },
      [],
      'x',
      null,
    ]
    for (const metadata of wrong) {
      const [detail] = expectRefusal(
        await tenant.post('/users', { metadata }),
        'validation_failed',
        JSON.stringify(metadata).slice(0, 40),
      )
      expect(detail.field).toMatch(/^metadata/)
    }
  })

  test('an app is named by one of the tenant, a bound key makes users of its own', async () => {
    const tenant = await service.newTenant()
    const other = await service.newTenant()
    const appId = (await tenant.post('/apps', { name: 'Other' })).body.data.id
    for (const wrong of [other.appId, 'app_0', tenant.tenantId, "' OR 1=1", ''])
      await expectUnknownApp(tenant.post('/users', { appId: wrong }), 'appId')
    const key = await tenant.newKey({ scopes: ['users:write'], appId })
    expect((await tenant.post('/users', {}, { key })).body.data.appId).toBe(appId)
    expect((await tenant.post('/users', { appId }, { key })).body.data.appId).toBe(appId)
    await expectUnknownApp(tenant.post('/users', { appId: tenant.appId }, { key }), 'appId')
    expect((await tenant.get('/users')).body.total).toBe(2)
  })

  test('without an app the user belongs to the default one, as it is now', async () => {
    const tenant = await service.newTenant()
    expect((await newUser(tenant)).appId).toBe(tenant.appId)
    const appId = (await tenant.post('/apps', { name: 'Other' })).body.data.id
    await tenant.patch('/tenant', { settings: { defaultAppId: appId } })
    expect((await newUser(tenant)).appId).toBe(appId)
  })
})

async function expectUnknownApp(answer: Promise<Answer>, field: string): Promise<void> {
  expectError(await answer, 404, 'not_found')
  expect((await answer).body.details).toEqual([
    { field, code: 'not_found', message: expect.any(String), docs: expect.any(String) },
  ])
}
