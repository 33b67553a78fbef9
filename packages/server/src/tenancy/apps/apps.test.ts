import { afterAll, beforeAll, expect, test } from 'vitest'
import { eventually, type Service, startService, type Tenant } from '../../../test/harness/harness.ts'
import { newId } from '../../platform/ids.ts'
import { open } from '../../platform/security/crypto.ts'

let service: Service
beforeAll(async () => {
  service = await startService({ HALFKEY_PUBLIC_URL: 'https://id.example.com' })
})
afterAll(() => service.stop())

const BOT_TOKEN = '110201543:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw'

async function newApp(tenant: Tenant, body: object = {}): Promise<string> {
  const answer = await tenant.post('/apps', { name: 'Shop', ...body })
  expect(answer.status).toBe(201)
  return answer.body.data.id as string
}

async function eventsOf(tenant: Tenant, type: string) {
  const rows = await service.sql<{ body: string; app_id: string | null }>(
    'select body, app_id from events where tenant_id = $1 and type = $2 order by id',
    [tenant.tenantId, type],
  )
  return rows.map((row) => ({ appId: row.app_id, data: JSON.parse(row.body).data }))
}

test('an app needs only a name and has every default', async () => {
  const tenant = await service.newTenant()
  const { status, body } = await tenant.post('/apps', { name: '  Shop ' })
  expect(status).toBe(201)
  expect(body.data).toEqual({
    id: expect.stringMatching(/^app_[0-9a-hjkmnp-tv-z]{26}$/),
    name: 'Shop',
    allowedOrigins: [],
    allowedRedirectUrls: [],
    passkey: { rpId: 'id.example.com', rpName: 'Shop', userVerification: 'required' },
    messenger: { provider: 'telegram', botUsername: null, botId: null, configured: false },
    mfa: { policy: 'if_enrolled', enforceForServer: false },
    sessions: { accessTokenSeconds: 900, refreshTokenDays: 30 },
    mpc: { allowServer: false },
    recovery: { serverCombine: false },
    emailRecovery: { enabled: false, waitHours: 72 },
    email: {
      enabled: false,
      signUp: true,
      sender: 'smtp',
      webhookUrl: null,
      webhookSecretSet: false,
      language: 'en',
      testCodes: [],
    },
    budgets: [],
    addressBook: { coolingOffSeconds: 86_400 },
    externalWallets: { types: [], signUp: true, chainIds: [1] },
    openid: { issuer: `https://id.example.com/apps/${body.data.id}`, audiences: [], claims: [] },
    agents: { connect: false },
    signInHook: { url: null, onFailure: 'refuse', secretSet: false },
    branding: {
      name: null,
      accentColor: null,
      cornerRadius: 'rounded',
      colorScheme: 'auto',
      methodOrder: [],
      logo: null,
      termsUrl: null,
      privacyUrl: null,
      supportUrl: null,
    },
    metadata: {},
    createdAt: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
    updatedAt: body.data.createdAt,
  })
  expect((await tenant.get(`/apps/${body.data.id}`)).body).toEqual(body)
  expect((await eventsOf(tenant, 'app.created')).at(-1)).toEqual({
    appId: body.data.id,
    data: { appId: body.data.id, name: 'Shop' },
  })
})

test('lists are newest first, paginated and end with an empty page', async () => {
  const tenant = await service.newTenant()
  const ids = [await newApp(tenant), await newApp(tenant)].toReversed()
  const first = await tenant.get('/apps?page_size=2')
  expect(first.body).toMatchObject({ total: 3, page: 1, pageSize: 2, hasMore: true })
  expect(first.body.data.map((app: { id: string }) => app.id)).toEqual(ids)
  expect((await tenant.get('/apps?page_size=2&page=9')).body).toMatchObject({ data: [], total: 3, hasMore: false })
  for (const query of ['page=0', 'page=1e309', 'page_size=101', 'page=1&page=2', 'name=x']) {
    expect((await tenant.get(`/apps?${query}`)).status).toBe(400)
  }
})

test.each([
  [{}, 'name'],
  [{ name: '' }, 'name'],
  [{ name: ' ' }, 'name'],
  [{ name: null }, 'name'],
  [{ name: 'x', id: 'app_1' }, 'id'],
  [{ name: 'x', tenantId: 'ten_1' }, 'tenantId'],
  [{ name: 'x', allowedOrigins: ['https://a.example/'] }, 'allowedOrigins.0'],
  [{ name: 'x', allowedOrigins: ['https://a.example', 'https://*.example.com'] }, 'allowedOrigins.1'],
  [{ name: 'x', allowedOrigins: ['https://a.example', 'https://a.example'] }, 'allowedOrigins'],
  [{ name: 'x', allowedOrigins: Array.from({ length: 101 }, (_, i) => `https://a${i}.example`) }, 'allowedOrigins'],
  [{ name: 'x', allowedRedirectUrls: ['javascript:alert(1)'] }, 'allowedRedirectUrls.0'],
  [{ name: 'x', passkey: { rpId: 'https://a.example' } }, 'passkey.rpId'],
  [{ name: 'x', passkey: { rpId: '127.0.0.1' } }, 'passkey.rpId'],
  [{ name: 'x', passkey: { rpId: null } }, 'passkey.rpId'],
  [{ name: 'x', messenger: { botToken: 'nonsense' } }, 'messenger.botToken'],
  [{ name: 'x', messenger: { botId: '1' } }, 'messenger.botId'],
  [{ name: 'x', messenger: { configured: true } }, 'messenger.configured'],
  [{ name: 'x', mfa: { policy: 'sometimes' } }, 'mfa.policy'],
  [{ name: 'x', mfa: { enforceForServer: 'true' } }, 'mfa.enforceForServer'],
  [{ name: 'x', sessions: { accessTokenSeconds: 59 } }, 'sessions.accessTokenSeconds'],
  [{ name: 'x', sessions: { accessTokenSeconds: 3601 } }, 'sessions.accessTokenSeconds'],
  [{ name: 'x', sessions: { accessTokenSeconds: 90.5 } }, 'sessions.accessTokenSeconds'],
  [{ name: 'x', sessions: { refreshTokenDays: 366 } }, 'sessions.refreshTokenDays'],
  [{ name: 'x', mpc: { allowServer: null } }, 'mpc.allowServer'],
  [{ name: 'x', metadata: { a: 1 } }, 'metadata.a'],
])('POST /apps with %j is a 400 that names %s', async (body, field) => {
  const answer = await service.admin.post('/apps', body)
  expect(answer.status).toBe(400)
  expect(answer.body).toMatchObject({ code: 'validation_failed' })
  expect(answer.body.details[0].field).toBe(field)
})

test('PATCH merges objects field by field and metadata by key, and replaces arrays', async () => {
  const tenant = await service.newTenant()
  const id = await newApp(tenant, {
    allowedOrigins: ['https://a.example', 'https://b.example'],
    mfa: { policy: 'always' },
    metadata: { kept: '1', gone: '2' },
  })
  const answer = await tenant.patch(`/apps/${id}`, {
    allowedOrigins: ['https://c.example'],
    mfa: { enforceForServer: true },
    metadata: { gone: null, added: '3' },
  })
  expect(answer.status).toBe(200)
  expect(answer.body.data).toMatchObject({
    name: 'Shop',
    allowedOrigins: ['https://c.example'],
    mfa: { policy: 'always', enforceForServer: true },
  })
  expect(answer.body.data.metadata).toEqual({ kept: '1', added: '3' })
  const [event, ...more] = await eventsOf(tenant, 'app.updated')
  expect(event?.data).toEqual({
    appId: id,
    name: 'Shop',
    changed: ['allowedOrigins', 'mfa.enforceForServer', 'metadata'],
  })
  expect(more).toEqual([])
})

test('a PATCH that changes nothing answers 200, without an event or a new updatedAt', async () => {
  const tenant = await service.newTenant()
  const id = await newApp(tenant, { metadata: { a: '1' } })
  const before = await tenant.get(`/apps/${id}`)
  for (const body of [{}, { name: 'Shop', mfa: { policy: 'if_enrolled' }, metadata: { a: '1', b: null } }]) {
    const answer = await tenant.patch(`/apps/${id}`, body)
    expect(answer.status).toBe(200)
    expect(answer.body).toEqual(before.body)
  }
  expect(await eventsOf(tenant, 'app.updated')).toEqual([])
})

test('the relying party name follows the app, until it is set', async () => {
  const tenant = await service.newTenant()
  const id = await newApp(tenant)
  expect((await tenant.patch(`/apps/${id}`, { name: 'Store' })).body.data.passkey.rpName).toBe('Store')
  expect(
    (await tenant.patch(`/apps/${id}`, { passkey: { rpName: 'Mine', rpId: 'example.com' } })).body.data.passkey,
  ).toEqual({
    rpId: 'example.com',
    rpName: 'Mine',
    userVerification: 'required',
  })
})

test('a bot token is sealed for its app, never answered, and gives the bot id', async () => {
  const tenant = await service.newTenant()
  const id = await newApp(tenant, { messenger: { botToken: BOT_TOKEN, botUsername: 'shop_bot' } })
  const shown = await tenant.get(`/apps/${id}`)
  expect(shown.body.data.messenger).toEqual({
    provider: 'telegram',
    botUsername: 'shop_bot',
    botId: '110201543',
    configured: true,
  })
  expect(shown.text).not.toContain(BOT_TOKEN)
  const [row] = await service.sql<{ bot_token_sealed: Buffer; dump: string }>(
    'select bot_token_sealed, a::text as dump from apps a where id = $1',
    [id],
  )
  expect(row?.dump).not.toContain(BOT_TOKEN.slice(10))
  const sealed = row?.bot_token_sealed as Buffer
  expect((await open(service.deps.keys, sealed, ['bot token', tenant.tenantId, id])).toString()).toBe(BOT_TOKEN)
  await expect(open(service.deps.keys, sealed, ['bot token', tenant.tenantId, tenant.appId])).rejects.toThrow()
  const removed = await tenant.patch(`/apps/${id}`, { messenger: { botToken: null } })
  expect(removed.body.data.messenger).toEqual({
    provider: 'telegram',
    botUsername: 'shop_bot',
    botId: null,
    configured: false,
  })
  expect(service.logs()).not.toContain(BOT_TOKEN.slice(10))
})

test("another tenant's app is the same 404 as none, and nothing happens to it", async () => {
  const [mine, other] = [await service.newTenant(), await service.newTenant()]
  const id = await newApp(other)
  for (const [method, body] of [
    ['GET', undefined],
    ['PATCH', { name: 'x' }],
    ['DELETE', undefined],
  ] as const) {
    const theirs = await mine.call(method, `/apps/${id}`, body === undefined ? {} : { body })
    expect(theirs.status).toBe(404)
    for (const none of [newId('app'), 'nonsense', "'%20OR%201=1", '%F0%9F%92%A9'.repeat(100)]) {
      const nothing = await mine.call(method, `/apps/${none}`, body === undefined ? {} : { body })
      expect([nothing.status, nothing.text]).toEqual([404, theirs.text])
    }
  }
  expect((await other.get(`/apps/${id}`)).body.data.name).toBe('Shop')
})

test('a key that is bound to an app sees and changes that app alone', async () => {
  const tenant = await service.newTenant()
  const appId = await newApp(tenant)
  const key = await tenant.newKey({ scopes: ['apps:write'], appId })
  expect((await tenant.get('/apps', { key })).body).toMatchObject({ total: 1, data: [{ id: appId }] })
  expect((await tenant.patch(`/apps/${appId}`, { name: 'Mine' }, { key })).body.data.name).toBe('Mine')
  expect((await tenant.get(`/apps/${tenant.appId}`, { key })).status).toBe(404)
  expect((await tenant.patch(`/apps/${tenant.appId}`, { name: 'x' }, { key })).status).toBe(404)
  for (const answer of [
    await tenant.post('/apps', { name: 'x' }, { key }),
    await tenant.delete(`/apps/${appId}`, { key }),
  ]) {
    expect([answer.status, answer.body.code]).toEqual([403, 'insufficient_scope'])
  }
})

test('apps:read reads and no more; a publishable key does neither', async () => {
  const tenant = await service.newTenant()
  const reader = await tenant.newKey({ scopes: ['apps:read'] })
  expect((await tenant.get('/apps', { key: reader })).status).toBe(200)
  expect((await tenant.post('/apps', { name: 'x' }, { key: reader })).body.code).toBe('insufficient_scope')
  expect((await tenant.delete(`/apps/${tenant.appId}`, { key: reader })).body.code).toBe('insufficient_scope')
  const publishable = await tenant.newKey({ publishable: true })
  expect((await tenant.get('/apps', { key: publishable })).body.code).toBe('key_type_not_allowed')
})

test('a changed list of origins counts on the next request', async () => {
  const tenant = await service.newTenant()
  const appId = await newApp(tenant, { allowedOrigins: ['https://a.example'] })
  const key = await tenant.newKey({ publishable: true, appId })
  const from = async (origin: string) => (await tenant.get('/healthz', { key, headers: { origin } })).status
  expect([await from('https://a.example'), await from('https://b.example')]).toEqual([200, 403])
  await tenant.patch(`/apps/${appId}`, { allowedOrigins: ['https://b.example'] })
  expect([
    await from('https://a.example'),
    await from('https://b.example'),
    await from('https://id.example.com'),
  ]).toEqual([403, 200, 200])
})

test('the default app is not deleted, forced or not', async () => {
  const tenant = await service.newTenant()
  for (const query of ['', '?force=true']) {
    const answer = await tenant.delete(`/apps/${tenant.appId}${query}`)
    expect([answer.status, answer.body.code]).toEqual([409, 'default_app'])
  }
})

test('an app that goes with its users takes their emails out of the events that told of them, and their challenges', async () => {
  const tenant = await service.newTenant()
  const appId = await newApp(tenant)
  const email = 'erased-with-the-app@example.com'
  const user = await tenant.post('/users', { appId, email })
  const asked = await tenant.post('/auth/passkey/register-options', { appId, email: `second-${email}` })
  expect([user.status, asked.status]).toEqual([201, 200])
  expect((await tenant.delete(`/apps/${appId}?force=true`)).status).toBe(200)
  expect(await service.sql('select 1 from challenges where app_id = $1', [appId])).toEqual([])
  await eventually('the email is gone', async () => {
    await service.sql('update erasures set due_at = now()')
    const [event] = await eventsOf(tenant, 'user.created')
    return event?.data.email === ''
  })
})

test('an app without users goes, its keys stop at once, and its id is gone', async () => {
  const tenant = await service.newTenant()
  const appId = await newApp(tenant)
  const keys = [await tenant.newKey({ scopes: ['*'], appId }), await tenant.newKey({ publishable: true, appId })]
  for (const key of keys) expect((await tenant.get('/healthz', { key })).status).toBe(200)
  const answer = await tenant.delete(`/apps/${appId}`)
  expect([answer.status, answer.body.data.id, answer.body.data.name]).toEqual([200, appId, 'Shop'])
  for (const key of keys) expect((await tenant.get('/healthz', { key })).body.code).toBe('api_key_invalid')
  expect((await tenant.get(`/apps/${appId}`)).status).toBe(404)
  expect((await tenant.delete(`/apps/${appId}`)).status).toBe(404)
  const user = await tenant.post('/users', { appId })
  expect([user.status, user.body.details[0].field]).toEqual([404, 'appId'])
  expect((await eventsOf(tenant, 'app.deleted')).map((event) => event.data)).toEqual([{ appId, name: 'Shop' }])
})

test('an app with users goes by force only, with its users, counts and webhooks; other apps keep theirs', async () => {
  const tenant = await service.newTenant()
  const appId = await newApp(tenant)
  for (const app of [appId, appId, tenant.appId]) expect((await tenant.post('/users', { appId: app })).status).toBe(201)
  const hook = await tenant.post('/webhooks', { url: 'https://hooks.example.com/', events: ['*'], appId })
  expect(hook.status).toBe(201)
  for (const query of ['', '?force=false']) {
    const refused = await tenant.delete(`/apps/${appId}${query}`)
    expect([refused.status, refused.body.code]).toEqual([409, 'app_not_empty'])
  }
  expect((await tenant.delete(`/apps/${appId}?force=yes`)).status).toBe(400)
  expect((await tenant.get('/users')).body.total).toBe(3)
  expect((await tenant.delete(`/apps/${appId}?force=true`)).status).toBe(200)
  expect((await tenant.get('/users')).body).toMatchObject({ total: 1, data: [{ appId: tenant.appId }] })
  expect((await tenant.get(`/webhooks/${hook.body.data.id}`)).status).toBe(404)
  const lanes = await service.sql<{ held: boolean }>('select held from lanes where webhook_id = $1', [
    hook.body.data.id,
  ])
  expect(lanes.every((lane) => lane.held)).toBe(true)
  expect(await service.sql('select 1 from user_counts where app_id = $1', [appId])).toEqual([])
})

test('a guest counts as a user of the app', async () => {
  const tenant = await service.newTenant()
  const appId = await newApp(tenant)
  await tenant.post('/users', { appId })
  await service.sql('update users set guest = true where app_id = $1', [appId])
  expect((await tenant.delete(`/apps/${appId}`)).body.code).toBe('app_not_empty')
})

test('a user created while its app is deleted is refused or deleted with it, never left behind', async () => {
  const tenant = await service.newTenant()
  for (const query of ['', '?force=true', '', '?force=true']) {
    const appId = await newApp(tenant)
    const create = (from: number) =>
      Array.from({ length: 20 }, (_, i) => tenant.post('/users', { appId, externalId: String(from + i) }))
    const early = query === '' ? [] : create(0)
    const [deleted, ...made] = await Promise.all([tenant.delete(`/apps/${appId}${query}`), ...early, ...create(100)])
    const users = await service.sql<{ id: string }>('select id from users where app_id = $1', [appId])
    if (deleted.status === 200) expect(users).toEqual([])
    else expect(users.length).toBe(made.filter((answer) => answer.status === 201).length)
    const [counted] = await service.sql<{ n: string }>(
      'select coalesce(sum(n), 0) as n from user_counts where app_id = $1',
      [appId],
    )
    expect(Number(counted?.n)).toBe(users.length)
    expect(
      made.filter((answer) => answer.status !== 201 && answer.status !== 404).map((answer) => answer.text),
    ).toEqual([])
    if (deleted.status !== 200) expect((await tenant.delete(`/apps/${appId}?force=true`)).status).toBe(200)
  }
})

test('another process of the service learns of a deleted app within a second', async () => {
  const tenant = await service.newTenant()
  const appId = await newApp(tenant)
  const key = await tenant.newKey({ publishable: true, appId })
  const other = await startService({
    DATABASE_URL: service.databaseUrl,
    HALFKEY_KEK_FILE: `${service.dataDir}/kek.key`,
  })
  try {
    const there = async () => (await fetch(`${other.url}/v1/healthz`, { headers: { 'x-api-key': key } })).status
    expect(await there()).toBe(200)
    expect((await tenant.delete(`/apps/${appId}`)).status).toBe(200)
    await eventually('the key stops there too', async () => (await there()) === 401, 1_000)
  } finally {
    await other.stop()
  }
})
