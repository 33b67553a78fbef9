import { createHash, randomBytes } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import {
  cookieOf,
  newLink,
  openAsOperator,
  openPage,
  ownHeaders,
  type Page,
  postSession,
} from '../../../test/harness/dashboard-page.ts'
import { expectError, expectRefusal } from '../../../test/harness/envelope.ts'
import {
  type Answer,
  call,
  eventually,
  refillsNothing,
  type Service,
  startService,
  type Tenant,
} from '../../../test/harness/harness.ts'
import { type RawAnswer, sendBytes } from '../../../test/harness/raw-http.ts'
import { newId } from '../../platform/ids.ts'
import { runCli } from '../cli/cli.ts'
import { createLink, FIRST_LINK_HOURS } from './link.ts'
import { deleteOldSessions } from './service.ts'

const SESSION = '/dashboard/api/session'
const MINUTE_MS = 60_000
const HOUR_MS = 60 * MINUTE_MS
const PARALLEL = 20

let service: Service
/** Another process on the same database. */
let second: Service
beforeAll(async () => {
  service = await startService()
  const { kekFile } = service.deps.config
  second = await startService({ DATABASE_URL: service.databaseUrl, HALFKEY_KEK_FILE: kekFile as string })
})
afterAll(async () => {
  await second.stop()
  await service.stop()
})

const sha256 = (text: string) => createHash('sha256').update(text).digest()
const tokenIn = (cookie: string) => cookie.slice(cookie.indexOf('=') + 1)
const getSession = (cookie: string, headers: Record<string, string> = {}) =>
  call(service.url, 'GET', SESSION, { headers: { cookie, ...headers } })
const sessionRows = (cookie: string) =>
  service.sql('select * from dashboard_sessions where hash = $1', [sha256(tokenIn(cookie))])
const newAppOf = async (tenant: Tenant) => (await tenant.post('/apps', { name: 'Other' })).body.data.id as string
/** A tenant's page, by a key of it that is made with these limits. */
async function pageBy(tenant: Tenant, limits: object = {}): Promise<{ page: Page; id: string; key: string }> {
  const made = await tenant.post('/api-keys', { name: 'Page', type: 'secret', scopes: ['*'], ...limits })
  expect(made.status, made.text).toBe(201)
  const { id, key } = made.body.data
  return { page: await openPage(service, { key }), id, key }
}
/** A process whose clock the test may move: the others keep theirs. */
async function withOwnClock(body: (own: Service) => Promise<void>): Promise<void> {
  const own = await startService()
  try {
    await body(own)
  } finally {
    await own.stop()
  }
}

/** A request as it is written: `fetch` puts a Host, a fetch mode and a path of its own. */
async function rawAsk(url: string, target: string, headers: Record<string, string>, body = ''): Promise<RawAnswer> {
  const all = {
    host: new URL(url).host,
    ...headers,
    'content-length': String(Buffer.byteLength(body)),
    connection: 'close',
  }
  const head = [`${target} HTTP/1.1`, ...Object.entries(all).map(([name, value]) => `${name}: ${value}`)].join('\r\n')
  const [answer] = await sendBytes(url, [`${head}\r\n\r\n${body}`], (answers) => answers.length === 1)
  return answer as RawAnswer
}
const codeOf = ({ status, body }: RawAnswer) => `${status} ${JSON.parse(body).code}`

describe('a link', () => {
  test('signs in once, as the operator, and tells the page all that it needs', async () => {
    const link = await newLink(service)
    const answer = await postSession(service, { link })
    expect(answer.status, answer.text).toBe(200)
    const [oldest] = await service.sql<{ id: string; name: string; default_app_id: string }>(
      'select id, name, default_app_id from tenants order by id limit 1',
    )
    const { data } = answer.body
    expect(data).toEqual({
      via: 'link',
      member: null,
      apps: null,
      keyId: null,
      keyName: null,
      scopes: ['*'],
      appId: null,
      tenant: { id: oldest?.id, name: oldest?.name },
      tenants: expect.arrayContaining([{ id: oldest?.id, name: oldest?.name }]),
      csrfToken: expect.stringMatching(/^[\w-]{43}$/),
      createdAt: expect.any(String),
      expiresAt: expect.any(String),
      environment: 'development',
      publicUrl: `http://localhost:${new URL(service.url).port}`,
      version: expect.stringMatching(/^\d+\.\d+\.\d+/),
      defaultAppId: oldest?.default_app_id,
    })
    expect(Date.parse(data.expiresAt) - Date.parse(data.createdAt)).toBe(12 * HOUR_MS)
    const shown = await getSession(cookieOf(answer))
    expect(shown.body.data).toEqual(data)
    const used = await postSession(service, { link })
    expectError(used, 401, 'dashboard_link_invalid')
    expect(used.headers.get('set-cookie')).toBeNull()
    expect(used.body.error).toContain('halfkey dashboard link')
  })

  test('unknown, used, over or none at all is one identical answer', async () => {
    await withOwnClock(async (own) => {
      const [used, over] = [await newLink(own), await newLink(own)]
      expect((await postSession(own, { link: used })).status).toBe(200)
      own.advance(30 * MINUTE_MS)
      const wrong = [used, over, `hk_dl_${randomBytes(32).toString('base64url')}`, 'x', `${over} `, over.slice(0, -1)]
      const answers = await Promise.all(wrong.map((link) => postSession(own, { link })))
      for (const answer of answers) expectError(answer, 401, 'dashboard_link_invalid')
      expect(new Set(answers.map((answer) => answer.text)).size).toBe(1)
    })
  })

  test('claimed by many at once, in two processes, signs in one of them', async () => {
    const link = await newLink(service)
    const claims = Array.from({ length: PARALLEL }, (_, at) => postSession(at % 2 ? service : second, { link }))
    const statuses = (await Promise.all(claims)).map((answer) => answer.status)
    expect(statuses.filter((status) => status === 200)).toHaveLength(1)
    expect(statuses.filter((status) => status === 401)).toHaveLength(PARALLEL - 1)
  })

  test('that is opened, previewed or asked for with HEAD is not used up', async () => {
    const link = await newLink(service)
    for (const method of ['GET', 'HEAD'])
      for (const path of ['/dashboard', `/dashboard?link=${link}`, `${SESSION}?link=${link}`])
        await call(service.url, method, path, { headers: { host: 'localhost' } })
    expect((await postSession(service, { link })).status).toBe(200)
  })

  test('of one tenant shows that tenant alone', async () => {
    const [tenant, other] = [await service.newTenant(), await service.newTenant()]
    const page = await openPage(service, { link: await newLink(service, tenant.tenantId) })
    expect(page.session).toMatchObject({ tenant: { id: tenant.tenantId }, appId: null, defaultAppId: tenant.appId })
    expect(page.session.tenants).toEqual([page.session.tenant])
    expect((await page.call('GET', '/tenant')).body.data.id).toBe(tenant.tenantId)
    const own = { 'x-halfkey-tenant': tenant.tenantId }
    expect((await page.call('GET', '/tenant', { headers: own })).body.data.id).toBe(tenant.tenantId)
    for (const id of [other.tenantId, newId('ten'), 'none', '']) {
      const headers = { 'x-halfkey-tenant': id }
      for (const path of ['/session', '/tenant', '/users'])
        expectError(await page.call('GET', path, { headers }), 404, 'not_found', `${path} ${id}`)
    }
    expect((await other.get('/users')).body.total).toBe(0)
  })

  test('of the operator that names an unknown tenant is not used up by that', async () => {
    const link = await newLink(service)
    expectError(await postSession(service, { link }, { 'x-halfkey-tenant': newId('ten') }), 404, 'not_found')
    expect((await postSession(service, { link })).status).toBe(200)
  })

  test('is made at the first start, for a day, and at no later one', async () => {
    await withOwnClock(async (own) => {
      const { dashboardLink } = own.running
      expect(dashboardLink).toMatch(/^http:\/\/localhost:\d+\/dashboard#link=hk_dl_[\w-]{43}$/)
      own.advance(FIRST_LINK_HOURS * HOUR_MS - MINUTE_MS)
      const link = dashboardLink?.split('#link=')[1]
      expect((await postSession(own, { link })).status).toBe(200)
    })
    expect(second.running.dashboardLink).toBeNull()
  })

  test('and a cookie leave no more than a hash in the database, and nothing in the log', async () => {
    const link = await newLink(service)
    const answer = await postSession(service, { link })
    const token = tokenIn(cookieOf(answer))
    await call(service.url, 'GET', `/dashboard/x-${link}?link=${link}`, { headers: { 'x-request-id': link } })
    const rows = await service.sql<{ row: string }>(
      'select row_to_json(l)::text as row from dashboard_links l union all select row_to_json(s)::text from dashboard_sessions s',
    )
    const dump = JSON.stringify(rows)
    for (const secret of [link, token, answer.body.data.csrfToken]) {
      expect(dump).not.toContain(secret)
      expect(dump).not.toContain(Buffer.from(secret).toString('hex'))
      expect(service.logs()).not.toContain(secret)
    }
    expect(dump).toContain(sha256(link).toString('hex'))
    expect(dump).toContain(sha256(token).toString('hex'))
  })
})

describe('an API key', () => {
  test('signs in as itself: with its scopes, its app and its name', async () => {
    const tenant = await service.newTenant()
    const appId = await newAppOf(tenant)
    await tenant.post('/users', { name: 'Hidden' })
    const mine = await tenant.post('/users', { name: 'Mine', appId })
    const { page, id } = await pageBy(tenant, { scopes: ['users:read'], appId })
    expect(page.session).toMatchObject({
      via: 'key',
      keyId: id,
      keyName: 'Page',
      scopes: ['users:read'],
      appId,
      defaultAppId: appId,
      tenants: [page.session.tenant],
    })
    const users = await page.call('GET', '/users')
    expect(users.body.data.map((user: { id: string }) => user.id)).toEqual([mine.body.data.id])
    expectError(await page.call('POST', '/users', { body: {} }), 403, 'insufficient_scope')
    expectError(await page.call('GET', '/webhooks'), 403, 'insufficient_scope')
    expectError(await page.call('PATCH', '/tenant', { body: {} }), 403, 'insufficient_scope')
    expectError(await page.call('GET', `/users?app_id=${tenant.appId}`), 404, 'not_found')
  })

  test('that is none, or has ended, is one identical 401; one for browsers is refused', async () => {
    const tenant = await service.newTenant()
    const { id, key } = await pageBy(tenant)
    await tenant.delete(`/api-keys/${id}`)
    const texts = new Set<string>()
    for (const wrong of [key, tenant.key.slice(0, -1), tenant.key.replace('hk_sk_', 'hk_pk_'), 'x', `${tenant.key} `]) {
      const answer = await postSession(service, { key: wrong })
      expectError(answer, 401, 'api_key_invalid', wrong.slice(0, 10))
      texts.add(answer.text)
    }
    expect(texts.size).toBe(1)
    const publishable = await tenant.newKey({ publishable: true })
    expectError(await postSession(service, { key: publishable }), 403, 'key_type_not_allowed')
  })

  test('is used from its own addresses only, at sign-in and ever after', async () => {
    const own = await startService({ HALFKEY_TRUSTED_PROXIES: '127.0.0.1' })
    try {
      const headers = { 'x-forwarded-for': '203.0.113.7' }
      const limits = { name: 'Office', type: 'secret', scopes: ['*'], allowedIps: ['203.0.113.0/24'] }
      const { key } = (await own.admin.post('/api-keys', limits)).body.data
      expectError(await postSession(own, { key }), 403, 'ip_not_allowed')
      const page = await openPage(own, { key }, headers)
      expect((await page.call('GET', '/tenant', { headers })).status).toBe(200)
      expectError(await page.call('GET', '/tenant'), 403, 'ip_not_allowed')
      const elsewhere = { 'x-forwarded-for': '203.0.114.7' }
      expectError(await page.call('GET', '/session', { headers: elsewhere }), 403, 'ip_not_allowed')
    } finally {
      await own.stop()
    }
  })

  test('that is revoked ends its sessions at the next call, in every process', async () => {
    const tenant = await service.newTenant()
    const { page, id } = await pageBy(tenant)
    expect((await page.call('GET', '/tenant')).status).toBe(200)
    expect((await tenant.delete(`/api-keys/${id}`)).status).toBe(200)
    for (const path of ['/tenant', '/session']) expectError(await page.call('GET', path), 401, 'session_invalid')
    const elsewhere = await call(second.url, 'GET', '/dashboard/api/tenant', { headers: { cookie: page.cookie } })
    expectError(elsewhere, 401, 'session_invalid')
    expectError(await page.call('POST', '/users', { body: { name: 'Late' } }), 401, 'session_invalid')
    expect((await tenant.get('/users')).body.total).toBe(0)
  })

  test('that gets another value ends the sessions of the old one, once its grace is over', async () => {
    await withOwnClock(async (own) => {
      const made = await own.admin.post('/api-keys', { name: 'Page', type: 'secret', scopes: ['*'] })
      const { id, key } = made.body.data
      const page = await openPage(own, { key })
      const rotated = await own.admin.post(`/api-keys/${id}/rotate`, { graceSeconds: 600 })
      expect((await page.call('GET', '/tenant')).status).toBe(200)
      own.advance(600_000)
      expectError(await page.call('GET', '/tenant'), 401, 'session_invalid')
      const again = await openPage(own, { key: rotated.body.data.key })
      await own.admin.post(`/api-keys/${id}/rotate`, {})
      expectError(await again.call('GET', '/tenant'), 401, 'session_invalid')
    })
  })

  test('that expires, or whose app is deleted, ends its sessions', async () => {
    await withOwnClock(async (own) => {
      const inAnHour = new Date(Date.now() + HOUR_MS).toISOString()
      const body = { name: 'Page', type: 'secret', scopes: ['*'] }
      const short = (await own.admin.post('/api-keys', { ...body, expiresAt: inAnHour })).body.data.key
      const appId = await newAppOf(own.admin)
      const bound = (await own.admin.post('/api-keys', { ...body, appId })).body.data.key
      const [shortPage, boundPage] = [await openPage(own, { key: short }), await openPage(own, { key: bound })]
      expect((await own.admin.delete(`/apps/${appId}`)).status).toBe(200)
      expectError(await boundPage.call('GET', '/tenant'), 401, 'session_invalid')
      expect((await shortPage.call('GET', '/tenant')).status).toBe(200)
      own.advance(HOUR_MS)
      expectError(await shortPage.call('GET', '/tenant'), 401, 'session_invalid')
    })
  })

  test('cannot look at another tenant, whatever the header says', async () => {
    const [tenant, other] = [await service.newTenant(), await service.newTenant()]
    const { page } = await pageBy(tenant)
    const answers: Answer[] = []
    for (const id of [other.tenantId, newId('ten')]) {
      const headers = { 'x-halfkey-tenant': id }
      answers.push(await page.call('GET', '/users', { headers }))
      answers.push(await page.call('POST', '/users', { headers, body: { name: 'Intruder' } }))
    }
    for (const answer of answers) expectError(answer, 404, 'not_found')
    expect(new Set(answers.map((answer) => answer.text)).size).toBe(1)
    expect((await other.get('/users')).body.total).toBe(0)
  })
})

describe('the operator', () => {
  test('changes between tenants by a header, and sees only the one that it names', async () => {
    const [one, two] = [await service.newTenant(), await service.newTenant()]
    const page = await openAsOperator(service)
    for (const tenant of [one, two]) {
      const headers = { 'x-halfkey-tenant': tenant.tenantId }
      const made = await page.call('POST', '/users', { headers, body: { name: tenant.tenantId } })
      expect(made.status, made.text).toBe(201)
      expect((await page.call('GET', '/session', { headers })).body.data.tenant.id).toBe(tenant.tenantId)
      const users = (await tenant.get('/users')).body
      expect([users.total, users.data[0].name]).toEqual([1, tenant.tenantId])
    }
    const foreign = (await one.get('/users')).body.data[0].id
    const answer = await page.call('GET', `/users/${foreign}`, { headers: { 'x-halfkey-tenant': two.tenantId } })
    expectError(answer, 404, 'not_found')
    for (const id of [newId('ten'), 'none', `${one.tenantId}, ${two.tenantId}`, "' or '1'='1"])
      expectError(await page.call('GET', '/users', { headers: { 'x-halfkey-tenant': id } }), 404, 'not_found', id)
    const names = page.session.tenants.map((tenant: { name: string }) => tenant.name)
    expect(names).toEqual([...names].sort())
  })

  test('stands in the audit log as dashboard, a key’s session as the key; both sign in and out there', async () => {
    const tenant = await service.newTenant()
    const entries = async (action: string) =>
      (await tenant.get(`/audit-log?action=${action}`)).body.data as Record<string, unknown>[]
    const operator = await openAsOperator(service, tenant.tenantId)
    const headers = { 'x-halfkey-tenant': tenant.tenantId }
    await operator.call('POST', '/users', { headers, body: { name: 'Ada' } })
    const { page, id } = await pageBy(tenant)
    await page.call('POST', '/users', { body: { name: 'Bob' } })
    expect((await operator.call('DELETE', '/session', { headers })).status).toBe(200)
    expect((await page.call('DELETE', '/session')).status).toBe(200)
    // What is noted and what is an event come into the log by ways of their own.
    const twoOf = (action: string) =>
      eventually(`two of ${action} are in the log`, async () => {
        const found = await entries(action)
        return found.length === 2 && found
      })
    const out = await twoOf('dashboard.signed_out')
    const both = [
      { actor: id, keyId: id, target: id, address: '127.0.0.1' },
      { actor: 'dashboard', keyId: null, target: tenant.tenantId, address: '127.0.0.1' },
    ]
    expect(out).toMatchObject(both)
    expect(await twoOf('dashboard.signed_in')).toMatchObject(both)
    expect(await twoOf('user.created')).toMatchObject([
      { actor: id, keyId: id },
      { actor: 'dashboard', keyId: null },
    ])
    expect((await tenant.get('/audit-log?actor=dashboard')).body.total).toBe(3)
  })

  test('steps up and repeats requests by the session, not for all operators at once', async () => {
    const tenant = await service.newTenant()
    const headers = { 'x-halfkey-tenant': tenant.tenantId, 'idempotency-key': 'one' }
    const [first, other] = [await openAsOperator(service), await openAsOperator(service)]
    const made = await first.call('POST', '/users', { headers, body: { name: 'Ada' } })
    const repeat = await first.call('POST', '/users', { headers, body: { name: 'Ada' } })
    expect([repeat.headers.get('idempotency-replayed'), repeat.text]).toEqual(['true', made.text])
    expect((await other.call('POST', '/users', { headers, body: { name: 'Bob' } })).status).toBe(201)
  })
})

describe('a session', () => {
  test('is a cookie that scripts, other sites and other paths do not get', async () => {
    const answer = await postSession(service, { link: await newLink(service) })
    expect(answer.headers.get('set-cookie')).toMatch(
      /^halfkey_dashboard=[\w-]{43}; Path=\/dashboard; HttpOnly; SameSite=Strict; Max-Age=43200$/,
    )
    expect(answer.headers.get('cache-control')).toBe('no-store')
    const secure = await startService({ HALFKEY_PUBLIC_URL: 'https://id.example.com' })
    try {
      const headers = { origin: 'https://id.example.com' }
      const made = await postSession(secure, { link: await newLink(secure) }, headers)
      expect(made.headers.get('set-cookie')).toMatch(/; Max-Age=43200; Secure$/)
    } finally {
      await secure.stop()
    }
  })

  test('ends two hours after its last use, and twelve hours after its beginning', async () => {
    await withOwnClock(async (own) => {
      const [idle, busy] = [await openAsOperator(own), await openAsOperator(own)]
      for (let hours = 1; hours < 12; hours += 1) {
        own.advance(HOUR_MS)
        expect((await busy.call('GET', '/tenant')).status, `${hours} h`).toBe(200)
        if (hours === 2) expectError(await idle.call('GET', '/tenant'), 401, 'session_invalid')
      }
      own.advance(HOUR_MS)
      expectError(await busy.call('GET', '/tenant'), 401, 'session_invalid')
    })
  })

  test('that is over is deleted with links that are', async () => {
    await withOwnClock(async (own) => {
      await openAsOperator(own)
      await newLink(own)
      own.advance(25 * HOUR_MS)
      const live = await openAsOperator(own)
      expect(await deleteOldSessions(own.deps)).toBe(false)
      expect(await own.sql('select from dashboard_sessions')).toHaveLength(1)
      expect(await own.sql('select from dashboard_links')).toHaveLength(1)
      expect((await live.call('GET', '/session')).status).toBe(200)
    })
  })

  test('ends when its page signs out: cookie, row, and what the browser kept', async () => {
    const page = await openAsOperator(service)
    const bare = await page.call('DELETE', '/session', { headers: { 'x-halfkey-csrf': undefined } })
    expectError(bare, 403, 'csrf_token_invalid')
    const out = await page.call('DELETE', '/session')
    expect([out.status, out.body]).toEqual([200, { data: {} }])
    expect(out.headers.get('set-cookie')).toBe(
      'halfkey_dashboard=; Path=/dashboard; HttpOnly; SameSite=Strict; Max-Age=0',
    )
    expect(out.headers.get('clear-site-data')).toBe('"cache", "storage"')
    expect(await sessionRows(page.cookie)).toEqual([])
    for (const [method, path] of [
      ['GET', '/session'],
      ['GET', '/tenant'],
      ['DELETE', '/session'],
    ] as const)
      expectError(await page.call(method, path), 401, 'session_invalid')
  })

  test('that ends while its call waits for events gets none of those that come after', async () => {
    const tenant = await service.newTenant()
    const pages = [await openAsOperator(service, tenant.tenantId), await openPage(service, { key: tenant.key })]
    for (const [before, page] of pages.entries()) {
      // The events of the tenant's own app, and of the one before, are not among those that come after.
      await eventually('the events of the apps so far', async () => {
        const { events } = (await tenant.get('/events?type=app.created')).body.data
        return events.length === 1 + before
      })
      const headers = { 'x-halfkey-tenant': tenant.tenantId }
      const { nextCursor } = (await page.call('GET', '/events?last=0', { headers })).body.data
      const wait = (type: string, seconds: number) =>
        page.call('GET', `/events?after=${nextCursor}&wait=${seconds}&type=${type}`, { headers })
      const waiting = wait('app.created', 25)
      // Waits for sure once a second one, asked for later, is answered.
      expect((await wait('user.created', 1)).body.data.events).toEqual([])
      expect((await page.call('DELETE', '/session', { headers })).status).toBe(200)
      await tenant.post('/apps', { name: 'After' })
      expectError(await waiting, 401, 'session_invalid')
    }
  })

  test('signed out by many at once is noted once', async () => {
    const tenant = await service.newTenant()
    const { page } = await pageBy(tenant)
    const answers = await Promise.all(Array.from({ length: PARALLEL }, () => page.call('DELETE', '/session')))
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(1)
    for (const answer of answers) if (answer.status !== 200) expectError(answer, 401, 'session_invalid')
    const total = async (action: string) => (await tenant.get(`/audit-log?action=${action}`)).body.total
    await eventually('it is in the log', async () => (await total('dashboard.signed_out')) > 0)
    // Whatever the others may have noted was there before they answered, and comes in with the next thing noted.
    await tenant.post('/webhooks', { url: 'http://127.0.0.1:3999/hook', events: ['*'] })
    await eventually('the next thing is in the log', async () => (await total('webhook.created')) === 1)
    expect(await total('dashboard.signed_out')).toBe(1)
  })

  test('begins anew at every sign-in and ends the one that the browser had: none can be planted', async () => {
    const planted = `halfkey_dashboard=${randomBytes(32).toString('base64url')}`
    const first = await openPage(service, { link: await newLink(service) }, { cookie: planted })
    expect(first.cookie).not.toBe(planted)
    expectError(await getSession(planted), 401, 'session_invalid')
    const next = await openPage(service, { link: await newLink(service) }, { cookie: first.cookie })
    expect(next.session.csrfToken).not.toBe(first.session.csrfToken)
    expectError(await getSession(first.cookie), 401, 'session_invalid')
    expect((await getSession(next.cookie)).status).toBe(200)
    const refused = await postSession(service, { link: 'x' }, { cookie: next.cookie })
    expectError(refused, 401, 'dashboard_link_invalid')
    expect((await getSession(next.cookie)).status).toBe(200)
  })

  test('is asked for in so many words: no cookie, a strange one, two of them', async () => {
    const { cookie } = await openAsOperator(service)
    const token = tokenIn(cookie)
    expectError(await call(service.url, 'GET', SESSION), 401, 'session_missing')
    for (const missing of ['', 'a=b', 'halfkey_dashboard=', `x_${cookie}`, `HALFKEY_DASHBOARD=${token}`])
      expectError(await getSession(missing), 401, 'session_missing', missing)
    const strange = [
      `${cookie}x`,
      cookie.slice(0, -1),
      `${cookie}%00`,
      `halfkey_dashboard="${token}"`,
      `${cookie}; ${cookie}`,
    ]
    for (const wrong of [...strange, `halfkey_dashboard=' or '1'='1`, `halfkey_dashboard=${'x'.repeat(8_000)}`])
      expectError(await getSession(wrong), 401, 'session_invalid', wrong.slice(0, 80))
    expect((await getSession(`a=b; ${cookie}; c=d`)).status).toBe(200)
  })

  test('of all ends by the command line, and with them the links that are left', async () => {
    await withOwnClock(async (own) => {
      const halfkey = async (...args: string[]) => {
        const out: string[] = []
        const openDeps = async () => ({ deps: own.deps, close: async () => {} })
        const exitCode = await runCli(args, {
          openDeps,
          out: (line) => void out.push(line),
          err: (line) => void out.push(line),
        })
        return { exitCode, out }
      }
      const made = await halfkey('dashboard', 'link')
      expect(made.out[0]).toMatch(/\/dashboard#link=hk_dl_/)
      expect(made.out[1]).toContain('30 minutes')
      const page = await openPage(own, { link: made.out[0]?.split('#link=')[1] as string })
      const ofTenant = await halfkey('dashboard', 'link', '--tenant', own.admin.tenantId, '--json')
      const told = JSON.parse(ofTenant.out[0] as string)
      expect(told).toEqual({ url: expect.any(String), tenantId: own.admin.tenantId, expiresAt: expect.any(String) })
      const unknown = await halfkey('dashboard', 'link', '--tenant', newId('ten'))
      expect([unknown.exitCode, unknown.out.join()]).toEqual([1, expect.stringContaining(own.admin.tenantId)])
      // The first start's own link is unused, too.
      expect(JSON.parse((await halfkey('dashboard', 'sign-out-everyone', '--json')).out[0] as string)).toEqual({
        sessions: 1,
        links: 2,
      })
      expectError(await page.call('GET', '/tenant'), 401, 'session_invalid')
      expectError(await postSession(own, { link: told.url.split('#link=')[1] }), 401, 'dashboard_link_invalid')
    })
  })
})

describe('a request for a session', () => {
  test('needs one of link and key, as JSON, and nothing else', async () => {
    const link = await newLink(service)
    for (const body of [
      {},
      { link, key: 'x' },
      { link: '' },
      { link: 1 },
      { key: null },
      { link, x: 1 },
      [],
      { key: 'x'.repeat(201) },
    ])
      expectRefusal(await postSession(service, body), 'validation_failed', JSON.stringify(body).slice(0, 80))
    const raw = (text: string | Buffer, type: string) =>
      call(service.url, 'POST', SESSION, { raw: text, headers: { ...ownHeaders(service), 'content-type': type } })
    const json = JSON.stringify({ link })
    for (const type of [
      'text/plain',
      'application/x-www-form-urlencoded',
      'application/jsonx',
      'text/plain; application/json',
    ])
      expectRefusal(await raw(json, type), 'unsupported_media_type', type)
    for (const text of ['{', '', `{"link":"a","link":"b"}`, '{"__proto__":{}}', `${'['.repeat(10_000)}`]) {
      const answer = await raw(text, 'application/json')
      expect([answer.status, answer.body.code], text.slice(0, 30)).toEqual([
        400,
        expect.stringMatching(/malformed_json|validation_failed/),
      ])
    }
    expectRefusal(await raw(Buffer.alloc(2 * 1024 * 1024, 32), 'application/json'), 'payload_too_large')
    expect((await raw(json, 'application/json; charset=utf-8')).status).toBe(200)
  })

  test('comes from the dashboard’s own page, or from no browser', async () => {
    const link = await newLink(service)
    const { port } = new URL(service.url)
    const foreign: Record<string, string | undefined>[] = [
      { origin: 'https://evil.example' },
      { origin: 'null' },
      { origin: `http://localhost:${Number(port) + 1}` },
      { origin: `https://localhost:${port}` },
      { origin: `http://localhost:${port}.evil.example` },
      { 'sec-fetch-site': 'cross-site', origin: undefined },
      { 'sec-fetch-site': 'same-site' },
      { 'sec-fetch-site': 'none' },
      { 'sec-fetch-site': 'none', 'sec-fetch-mode': 'navigate' },
      { 'sec-fetch-site': 'same-origin, same-origin' },
    ]
    for (const headers of foreign)
      expectError(await postSession(service, { link }, headers), 403, 'origin_not_allowed', JSON.stringify(headers))
    const nobody = { origin: undefined, 'sec-fetch-site': undefined, 'sec-fetch-mode': undefined }
    expect((await postSession(service, { link }, nobody)).status).toBe(200)
  })

  test('in development may come from the loopback name that it was called under, in production not', async () => {
    const { host } = new URL(service.url)
    const here = { origin: `http://${host}` }
    expect((await postSession(service, { link: await newLink(service) }, here)).status).toBe(200)
    const { config } = service.deps
    config.env = 'production'
    try {
      expectError(await postSession(service, { link: await newLink(service) }, here), 403, 'origin_not_allowed')
    } finally {
      config.env = 'development'
    }
  })

  test('is not made under a host that is not this server’s', async () => {
    const evil = { host: 'evil.example', origin: 'http://evil.example', 'content-type': 'application/json' }
    const post = async (own: Service, headers: object) =>
      rawAsk(own.url, `POST ${SESSION}`, { ...evil, ...headers }, JSON.stringify({ link: await newLink(own) }))
    const { port } = new URL(service.url)
    expect(JSON.parse((await post(service, {})).body).details[0].code).toBe('wrong_host')
    for (const [host, origin] of [
      [`localhost:${port}`, `http://127.0.0.1:${port}`],
      [`127.0.0.1:${port}`, 'http://127.0.0.1'],
      [`localhost:${port}`, `http://localhost:${Number(port) + 1}`],
      [`localhost:${Number(port) + 1}`, `http://evil.example:${port}`],
    ] as const)
      expect(codeOf(await post(service, { host, origin })), `${host} ${origin}`).toBe('403 origin_not_allowed')
    const open = await startService({ HALFKEY_INSECURE_DEV: '1' })
    try {
      expect(codeOf(await post(open, {}))).toBe('403 origin_not_allowed')
    } finally {
      await open.stop()
    }
  })

  test('is counted for its address like every guess', async () => {
    const limited = await startService({ HALFKEY_RATE_LIMITS: 'on', HALFKEY_RATE_LIMIT_SIGN_IN: '1/3' })
    try {
      const guesses = await Promise.all(Array.from({ length: PARALLEL }, () => postSession(limited, { link: 'x' })))
      const refused = guesses.filter(({ status }) => status === 429)
      expect(refused.length).toBeGreaterThan(0)
      for (const answer of refused) expectError(answer, 429, 'rate_limited')
      expect(refused[0]?.headers.get('retry-after')).toMatch(/^\d+$/)
    } finally {
      await limited.stop()
    }
  })
})

describe('a call of the page', () => {
  test('needs the token of this very session, except for reading', async () => {
    const [page, other] = [await openAsOperator(service), await openAsOperator(service)]
    const tenant = await service.newTenant()
    const headers = { 'x-halfkey-tenant': tenant.tenantId }
    const { csrfToken } = page.session
    const wrong = [undefined, '', 'x', other.session.csrfToken, `${csrfToken}x`, csrfToken.slice(0, -1), 'é'.repeat(22)]
    for (const csrf of wrong) {
      const answer = await page.call('POST', '/users', { body: {}, headers: { ...headers, 'x-halfkey-csrf': csrf } })
      expectError(answer, 403, 'csrf_token_invalid', csrf)
    }
    expect((await tenant.get('/users')).body.total).toBe(0)
    expect((await page.call('GET', '/users', { headers })).status).toBe(200)
    expect((await page.call('POST', '/users', { body: {}, headers })).status).toBe(201)
  })

  test('is read by nobody else: a navigation may, another page may not', async () => {
    const page = await openAsOperator(service)
    const typed = { cookie: page.cookie, 'sec-fetch-site': 'none', 'sec-fetch-mode': 'navigate' }
    expect((await rawAsk(service.url, 'GET /dashboard/api/tenant', typed)).status).toBe(200)
    const posted = { ...typed, 'content-type': 'application/json', 'x-halfkey-csrf': page.session.csrfToken }
    expect(codeOf(await rawAsk(service.url, 'POST /dashboard/api/users', posted, '{}'))).toBe('403 origin_not_allowed')
    for (const headers of [
      { 'sec-fetch-site': 'none' },
      { 'sec-fetch-site': 'same-site', 'sec-fetch-mode': 'no-cors' },
      { 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'navigate' },
      { 'sec-fetch-site': 'anything' },
    ])
      expectError(await page.call('GET', '/tenant', { headers }), 403, 'origin_not_allowed', JSON.stringify(headers))
    const preflight = await page.call('OPTIONS', '/tenant', { headers: { origin: 'https://evil.example' } })
    expectError(preflight, 404, 'not_found')
    expect(preflight.headers.get('access-control-allow-origin')).toBeNull()
  })

  test('leads to the endpoints of /v1 and nowhere else', async () => {
    const page = await openAsOperator(service)
    const { cookie } = page
    for (const path of [
      '/nothing',
      '/session/x',
      '/users/',
      '/',
      '/v1/users',
      '/../v1/users',
      '/%2e%2e/v1/users',
      '//users',
      '/..%2f',
    ])
      expect(codeOf(await rawAsk(service.url, `GET /dashboard/api${path}`, { cookie })), path).toBe('404 not_found')
    for (const method of ['PATCH', 'PUT'])
      expectError(await page.call(method, '/session', { body: {} }), 404, 'not_found', method)
    const encoded = await call(service.url, 'GET', '/dashboard/%61pi/tenant')
    expectError(encoded, 401, 'session_missing')
  })

  test('has limits of its own for each address, wide enough for a page and asked before the database', async () => {
    const limited = await startService({ HALFKEY_RATE_LIMITS: 'on', HALFKEY_RATE_LIMIT_SECRET: '1/5' })
    try {
      const answers = await Promise.all(
        Array.from({ length: PARALLEL }, () => call(limited.url, 'GET', '/dashboard/api/tenant')),
      )
      expect(answers.filter(({ status }) => status === 401).length).toBeGreaterThanOrEqual(5)
      expect(answers.filter(({ status }) => status === 429).length).toBeGreaterThan(0)
      for (const answer of answers) expect(answer.headers.get('ratelimit-policy')).toBe('"secret";q=5;w=5')
    } finally {
      await limited.stop()
    }
  })

  test('by a key’s session takes from the key’s own limit: there is no second one to be had', async () => {
    const limited = await startService({
      HALFKEY_RATE_LIMITS: 'on',
      HALFKEY_RATE_LIMIT_SECRET: '1/10',
      HALFKEY_TRUSTED_PROXIES: '127.0.0.1',
    })
    try {
      refillsNothing(limited, 'rateLimitSecret')
      const tenant = await limited.newTenant()
      const other = await limited.newTenant()
      const own = await openPage(limited, { key: tenant.key })
      const others = await openPage(limited, { key: other.key })
      const fromEverywhere = await Promise.all(
        Array.from({ length: PARALLEL }, (_, at) =>
          own.call('GET', '/tenant', { headers: { 'x-forwarded-for': `203.0.113.${at + 1}` } }),
        ),
      )
      expect(fromEverywhere.filter(({ status }) => status === 429).length).toBeGreaterThan(0)
      // As many as a bucket of its own would let through.
      const direct = await Promise.all(Array.from({ length: 10 }, () => tenant.get('/tenant')))
      expect(direct.map(({ status }) => status)).toContain(429)
      expect((await others.call('GET', '/tenant', { headers: { 'x-forwarded-for': '203.0.113.99' } })).status).toBe(200)
    } finally {
      await limited.stop()
    }
  })

  test('is not there in a process that only delivers events', async () => {
    const { kekFile } = service.deps.config
    const worker = await startService({
      DATABASE_URL: service.databaseUrl,
      HALFKEY_KEK_FILE: kekFile as string,
      HALFKEY_ROLE: 'worker',
    })
    try {
      const { url } = await createLink(worker.deps, null)
      const headers = { origin: url.slice(0, url.indexOf('/dashboard')) }
      for (const path of [SESSION, '/dashboard', '/dashboard/api/tenant'])
        expectError(await call(worker.url, 'GET', path, { headers }), 404, 'not_found', path)
      const body = { link: url.split('#link=')[1] }
      expectError(await call(worker.url, 'POST', SESSION, { body, headers }), 404, 'not_found')
    } finally {
      await worker.stop()
    }
  })
})
