import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { expectError, expectRefusal } from '../../../test/harness/envelope.ts'
import { eventually, refillsNothing, type Service, startService } from '../../../test/harness/harness.ts'
import { eventsOf, initDataOf, type Json, newShop, type Shop, widget } from './messenger.fixture.ts'

let service: Service
beforeAll(async () => {
  service = await startService({ HALFKEY_ROLE: 'api' })
})
afterAll(() => service.stop())

const HOUR_MS = 3_600_000

/** Signs in, and must succeed. */
async function signedIn(shop: Shop, body: object): Promise<Json> {
  const answer = await shop.verify(body)
  expect(answer.status, answer.text).toBe(200)
  return answer.body.data
}

const miniApp = (shop: Shop, user: object, more: Record<string, string | number> = {}) => ({
  initData: initDataOf(shop.token, { auth_date: shop.date(), user: JSON.stringify(user), ...more }),
})

describe('who signs in', () => {
  test('by the widget: a new user the first time, the same one from then on', async () => {
    const shop = await newShop(service)
    const fields = { id: 279058397, first_name: ' Ada  Augusta', last_name: 'Lovelace', username: 'ada' }
    const answer = await shop.verify(widget(shop.token, { ...fields, auth_date: shop.date(9) }))
    expect(answer.status, answer.text).toBe(200)
    expect(answer.headers.get('cache-control')).toBe('no-store')
    const first = answer.body.data
    expect(first).toEqual({
      user: expect.objectContaining({
        name: 'Ada Augusta Lovelace',
        email: null,
        externalId: null,
        metadata: {},
        appId: shop.tenant.appId,
        lastSeenAt: expect.any(String),
      }),
      isNewUser: true,
      accessToken: expect.any(String),
      refreshToken: expect.any(String),
      tokenType: 'Bearer',
      expiresInSeconds: 900,
      sessionId: expect.any(String),
    })
    const again = await signedIn(
      shop,
      widget(shop.token, { ...fields, first_name: 'Countess', auth_date: shop.date(8) }),
    )
    expect(again).toMatchObject({ isNewUser: false, user: { id: first.user.id, name: 'Ada Augusta Lovelace' } })
    expect(again.sessionId).not.toBe(first.sessionId)
    const { tenant } = shop
    const browser = await tenant.newKey({ publishable: true })
    const sessions = await tenant.get('/auth/sessions', {
      key: browser,
      headers: { authorization: `Bearer ${again.accessToken}` },
    })
    expect(sessions.body.data).toMatchObject([{ methods: ['messenger'], current: true }, { methods: ['messenger'] }])
    expect(await eventsOf(service, tenant, 'user.created')).toEqual([
      { userId: first.user.id, email: '', partyId: first.user.partyId },
    ])
    expect(await eventsOf(service, tenant, 'user.signed_in')).toEqual(
      [first, again].map(({ sessionId }) => ({ userId: first.user.id, method: 'messenger', sessionId })),
    )
    expect((await tenant.get('/users')).body.total).toBe(1)
  })

  test('by a Mini App: the same account is the same user, whatever the way in', async () => {
    const shop = await newShop(service)
    const byWidget = await signedIn(shop, widget(shop.token, { id: '77', first_name: 'Ada', auth_date: shop.date() }))
    const user = { id: 77, first_name: 'Ada', is_premium: true, photo_url: 'https://t.me/i.svg' }
    const byMiniApp = await signedIn(
      shop,
      miniApp(shop, user, { query_id: 'AAHd', signature: 'TYJx', chat_type: 'private' }),
    )
    expect(byMiniApp).toMatchObject({ isNewUser: false, user: { id: byWidget.user.id } })
    expect((await signedIn(shop, miniApp(shop, { id: 78, first_name: 'Eve' }))).isNewUser).toBe(true)
  })

  test('from a browser with a publishable key, whoever is signed in there; not with a key that lacks auth:write', async () => {
    const shop = await newShop(service)
    const key = await shop.tenant.newKey({ publishable: true })
    const body = () => widget(shop.token, { id: 5, first_name: 'Ada', auth_date: shop.date() })
    const answer = await shop.verify(body(), { key, headers: { authorization: 'Bearer nonsense' } })
    expect(answer.status, answer.text).toBe(200)
    const weak = await shop.tenant.newKey({ scopes: ['users:write', 'guests:write'] })
    expectError(await shop.verify(body(), { key: weak }), 403, 'insufficient_scope')
  })

  test('accounts of two tenants, and of two apps, are different users', async () => {
    const [shop, other] = [await newShop(service), await newShop(service)]
    const app = (await shop.tenant.post('/apps', { name: 'Two', messenger: { botToken: shop.token } })).body.data.id
    const now = shop.date()
    const fields = (secondsAgo: number) => ({ id: 5, first_name: 'Ada', auth_date: now - secondsAgo })
    const users = [
      (await signedIn(shop, widget(shop.token, fields(0)))).user,
      (await signedIn(shop, { ...widget(shop.token, fields(2)), appId: app })).user,
      (await signedIn(other, widget(other.token, fields(0)))).user,
    ]
    expect(new Set(users.map(({ id }) => id)).size).toBe(3)
    expect(users.map(({ appId }) => appId)).toEqual([shop.tenant.appId, app, other.tenant.appId])
    const used = await shop.verify({ ...widget(shop.token, fields(0)), appId: app })
    expectError(used, 401, 'messenger_signature_invalid', 'used at the other app of the same bot')
    const bound = await shop.tenant.newKey({ publishable: true, appId: app })
    const named = await shop.verify({ ...widget(shop.token, fields(1)), appId: shop.tenant.appId }, { key: bound })
    expectError(named, 404, 'not_found')
    expect(named.body.details[0].field).toBe('appId')
    expectError(await shop.verify({ ...widget(shop.token, fields(1)), appId: other.tenant.appId }), 404, 'not_found')
    expect((await shop.verify(widget(shop.token, fields(1)), { key: bound })).body.data.user.id).toBe(users[1].id)
  })

  test('nobody who exists already, however alike: neither by name nor by external id', async () => {
    const shop = await newShop(service)
    const { body } = await shop.tenant.post('/users', { name: 'Ada', externalId: '99', email: 'ada@example.com' })
    const payload = widget(shop.token, { id: 99, first_name: 'Ada', email: 'ada@example.com', auth_date: shop.date() })
    const { user } = await signedIn(shop, payload)
    expect(user.id).not.toBe(body.data.id)
    expect(user).toMatchObject({ email: null, emailVerified: false, externalId: null })
  })

  test('twenty first sign-ins of one account at once, by different payloads, make one user', async () => {
    const shop = await newShop(service)
    const bodies = Array.from({ length: 20 }, (_, i) => {
      const fields = { id: 4242, first_name: 'Ada' }
      return i % 2 === 0
        ? widget(shop.token, { ...fields, auth_date: shop.date(i) })
        : miniApp(shop, fields, { auth_date: shop.date(i) })
    })
    const answers = await Promise.all(bodies.map((body) => shop.verify(body)))
    expect(answers.map((answer) => answer.status)).toEqual(Array(20).fill(200))
    expect(new Set(answers.map((answer) => answer.body.data.user.id)).size).toBe(1)
    expect(new Set(answers.map((answer) => answer.body.data.sessionId)).size).toBe(20)
    expect(answers.filter((answer) => answer.body.data.isNewUser)).toHaveLength(1)
    expect((await shop.tenant.get('/users')).body.total).toBe(1)
    expect(await eventsOf(service, shop.tenant, 'user.created')).toHaveLength(1)
  })

  test('not one who is suspended, whose payload is not used up by that; one who was deleted begins anew', async () => {
    const shop = await newShop(service)
    const fields = { id: 5, first_name: 'Ada' }
    const { user } = await signedIn(shop, widget(shop.token, { ...fields, auth_date: shop.date(2) }))
    await shop.tenant.patch(`/users/${user.id}`, { status: 'suspended' })
    const next = widget(shop.token, { ...fields, auth_date: shop.date(1) })
    for (let i = 0; i < 2; i += 1) expectError(await shop.verify(next), 403, 'user_suspended')
    await shop.tenant.patch(`/users/${user.id}`, { status: 'active' })
    expect((await signedIn(shop, next)).user.id).toBe(user.id)
    await shop.tenant.delete(`/users/${user.id}`)
    const anew = await signedIn(shop, widget(shop.token, { ...fields, auth_date: shop.date() }))
    expect(anew.isNewUser).toBe(true)
    expect(anew.user.id).not.toBe(user.id)
  })
})

describe('an account', () => {
  test('is known by all digits of its id, beyond 2^53 too', async () => {
    const shop = await newShop(service)
    const ids = ['9007199254740991', '9007199254740992', '9007199254740993', '18446744073709551615']
    const byWidget = []
    for (const id of ids)
      byWidget.push((await signedIn(shop, widget(shop.token, { id, first_name: 'A', auth_date: shop.date() }))).user.id)
    expect(new Set(byWidget).size).toBe(ids.length)
    const safe = widget(shop.token, { id: Number.MAX_SAFE_INTEGER, first_name: 'A', auth_date: shop.date(60) })
    expect((await signedIn(shop, safe)).user.id).toBe(byWidget[0])
    for (const [i, id] of ids.entries()) {
      const user = `{"id":${id},"first_name":"A","chat":{"id":1}}`
      const initData = initDataOf(shop.token, { auth_date: shop.date(2), user })
      expect((await signedIn(shop, { initData })).user.id).toBe(byWidget[i])
    }
    const raw = `{"id":9007199254740993,"first_name":"A","auth_date":${shop.date()},"hash":"00"}`
    const refused = await shop.tenant.post('/auth/messenger/verify', undefined, { raw })
    expect(expectRefusal(refused, 'validation_failed').map((detail) => detail.field)).toContain('id')
  })

  test.each([
    ['nothing', {}, null],
    ['spaces alone', { first_name: ' \u00a0 ', last_name: '\u3000' }, null],
    ['a first name alone', { first_name: 'Ada' }, 'Ada'],
    ['a last name alone', { last_name: 'Lovelace' }, 'Lovelace'],
    ['decomposed letters', { first_name: 'Zoe\u0308' }, 'Zo\u00eb'],
    ['what turns the text around', { first_name: '\u202eAda\u202c' }, 'Ada'],
    ['a family', { first_name: '👩\u200d👩\u200d👧' }, '👩\u200d👩\u200d👧'],
    [
      'a long one',
      { first_name: '😀'.repeat(150), last_name: 'x'.repeat(150) },
      `${'😀'.repeat(150)} ${'x'.repeat(49)}`,
    ],
    ['markup', { first_name: '<img src=x onerror=alert(1)>' }, '<img src=x onerror=alert(1)>'],
  ])('has as its name %s, cleaned', async (_, names, name) => {
    const shop = await newShop(service)
    const byWidget = await signedIn(shop, widget(shop.token, { id: 1, ...names, auth_date: shop.date() }))
    const byMiniApp = await signedIn(shop, miniApp(shop, { id: 2, ...names }))
    expect([byWidget.user.name, byMiniApp.user.name]).toEqual([name, name])
  })

  test('of a Mini App may have a name with what no database takes, and fields of any type', async () => {
    const shop = await newShop(service)
    const user =
      '{"id":3,"first_name":"A\\u0000d\\na\\ud800","last_name":["x"],"username":{"a":1},"__proto__":{"is_bot":true}}'
    const initData = initDataOf(shop.token, { auth_date: shop.date(), user })
    expect((await signedIn(shop, { initData })).user.name).toBe('A d a\ufffd')
  })
})

describe('the widget configuration', () => {
  const path = '/auth/messenger/widget-config'

  test("names the app's bot, and the way to Telegram for the origin that asks", async () => {
    const shop = await newShop(service)
    const { tenant } = shop
    const authUrl = (origin: string) =>
      `https://oauth.telegram.org/auth?bot_id=${shop.botId}&origin=${encodeURIComponent(origin)}&embed=0&request_access=write`
    const own = new URL(`http://localhost:${service.deps.config.port}`).origin
    const config = { provider: 'telegram', botUsername: 'shop_login_bot', botId: shop.botId, requestAccess: 'write' }
    const answer = await tenant.get(path)
    expect(answer.status, answer.text).toBe(200)
    expect(answer.body).toEqual({ data: { ...config, authUrl: authUrl(own) } })
    expect(answer.text).not.toContain(shop.token.split(':')[1])
    await tenant.patch(`/apps/${tenant.appId}`, { allowedOrigins: ['https://shop.example.com'] })
    const key = await tenant.newKey({ publishable: true })
    const from = (origin: string) => tenant.get(path, { key, headers: { origin } })
    expect((await from('https://shop.example.com')).body.data.authUrl).toBe(authUrl('https://shop.example.com'))
    expect((await tenant.get(path, { key })).body.data.authUrl).toBe(authUrl(own))
    expectError(await from('https://evil.example'), 403, 'origin_not_allowed')
    // A server's Origin header is nobody's word.
    const forged = await tenant.get(path, { headers: { origin: 'https://evil.example' } })
    expect(forged.body.data.authUrl).toBe(authUrl(own))
  })

  test('of an app without a bot is a 404 that says so, and so is signing in there; the token can come and go', async () => {
    const shop = await newShop(service)
    const { tenant } = shop
    const app = (await tenant.post('/apps', { name: 'Two', messenger: { botUsername: 'shop_login_bot' } })).body.data.id
    const body = () => ({ ...widget(shop.token, { id: 1, first_name: 'Ada', auth_date: shop.date() }), appId: app })
    expectError(await tenant.get(`${path}?app_id=${app}`), 404, 'messenger_not_configured')
    expectError(await shop.verify(body()), 404, 'messenger_not_configured')
    await tenant.patch(`/apps/${app}`, { messenger: { botToken: shop.token } })
    expect((await tenant.get(`${path}?app_id=${app}`)).body.data.botId).toBe(shop.botId)
    const { user } = await signedIn(shop, body())
    expect(user.appId).toBe(app)
    await tenant.patch(`/apps/${app}`, { messenger: { botToken: null } })
    expectError(await tenant.get(`${path}?app_id=${app}`), 404, 'messenger_not_configured')
  })

  test("is told of the key's own apps alone", async () => {
    const [shop, other] = [await newShop(service), await newShop(service)]
    const app = (await shop.tenant.post('/apps', { name: 'Two' })).body.data.id
    const bound = await shop.tenant.newKey({ publishable: true, appId: app })
    for (const [appId, key] of [
      [other.tenant.appId, shop.tenant.key],
      ['app_none', shop.tenant.key],
      [shop.tenant.appId, bound],
    ] as const) {
      const answer = await shop.tenant.get(`${path}?app_id=${appId}`, { key })
      expectError(answer, 404, 'not_found')
      expect(answer.body.details[0].field).toBe('app_id')
    }
    expectRefusal(await shop.tenant.get(`${path}?appId=${app}`), 'validation_failed')
    const weak = await shop.tenant.newKey({ scopes: ['apps:write'] })
    expectError(await shop.tenant.get(path, { key: weak }), 403, 'insufficient_scope')
  })
})

test('attempts are limited for each address, whoever makes them', async () => {
  const limited = await startService({
    HALFKEY_ROLE: 'api',
    HALFKEY_RATE_LIMITS: 'on',
    HALFKEY_RATE_LIMIT_SIGN_IN: '1/10',
  })
  refillsNothing(limited, 'rateLimitSignIn')
  try {
    const [shop, other] = [await newShop(limited), await newShop(limited)]
    const forged = { id: 1, first_name: 'Ada', auth_date: shop.date(), hash: '0'.repeat(64) }
    const answers = await Promise.all(Array.from({ length: 30 }, () => shop.verify(forged)))
    expect(answers.filter((answer) => answer.status === 401).length).toBeLessThan(15)
    const refused = await other.verify(forged)
    expectError(refused, 429, 'rate_limited')
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0)
    expectError(await other.tenant.post('/guests'), 429, 'rate_limited')
    expect((await other.tenant.get('/auth/messenger/widget-config')).status).toBe(200)
  } finally {
    await limited.stop()
  }
})

test('no log line and no table holds a bot token, a hash or a payload', async () => {
  const shop = await newShop(service)
  const secret = shop.token.split(':')[1] as string
  const body = widget(shop.token, { id: 6, first_name: 'Zaphod', username: 'beeblebrox42', auth_date: shop.date() })
  const initData = miniApp(shop, { id: 6, first_name: 'Zaphod' })
  const forged = { ...body, hash: body.hash.replace(/^./, (digit) => (digit === '0' ? '1' : '0')) }
  for (const one of [body, initData, forged, { ...body, id: 7 }]) await shop.verify(one)
  for (const text of [secret, body.hash, 'Zaphod', 'beeblebrox42']) expect(service.logs()).not.toContain(text)
  const rows = await service.sql('select * from messenger_payloads where tenant_id = $1', [shop.tenant.tenantId])
  const apps = await service.sql('select * from apps where tenant_id = $1', [shop.tenant.tenantId])
  expect(rows).toHaveLength(2)
  expect(JSON.stringify(rows)).not.toContain('Zaphod')
  for (const row of apps) for (const value of Object.values(row)) expect(String(value)).not.toContain(secret)
})

test('a worker forgets used payloads once they are too old to be accepted, and no sooner', async () => {
  const shop = await newShop(service)
  await signedIn(shop, widget(shop.token, { id: 6, first_name: 'Ada', auth_date: shop.date(86_390) }))
  await service.sql(
    `insert into messenger_payloads select $1, sha256(n::text::bytea), now() - interval '1 second' from generate_series(1, 5100) as n`,
    [shop.tenant.tenantId],
  )
  const worker = await startService({
    HALFKEY_ROLE: 'worker',
    DATABASE_URL: service.databaseUrl,
    HALFKEY_KEK_FILE: `${service.dataDir}/kek.key`,
  })
  try {
    const left = () =>
      service.sql<{ expires_at: Date }>('select expires_at from messenger_payloads where tenant_id = $1', [
        shop.tenant.tenantId,
      ])
    await eventually('old payloads are gone', async () => (await left()).length === 1)
    const [kept] = await left()
    expect(kept?.expires_at.getTime()).toBeGreaterThan(Date.now() + HOUR_MS / 2)
  } finally {
    await worker.stop()
  }
})
