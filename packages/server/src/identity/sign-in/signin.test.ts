import { createHash, randomBytes } from 'node:crypto'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { expectError, expectRefusal } from '../../../test/harness/envelope.ts'
import { type Answer, call, type Service, startService, type Tenant } from '../../../test/harness/harness.ts'
import { signIn } from '../../../test/matrix/requests.ts'

let service: Service
beforeAll(async () => {
  service = await startService()
})
afterAll(() => service.stop())

const REDIRECT = 'https://shop.example.com/signed-in?from=halfkey'
const PARALLEL = 20

const newVerifier = () => randomBytes(32).toString('base64url')
const challengeOf = (verifier: string) => createHash('sha256').update(verifier).digest('base64url')

async function newTenant(): Promise<Tenant> {
  const tenant = await service.newTenant()
  await tenant.patch(`/apps/${tenant.appId}`, { allowedRedirectUrls: [REDIRECT] })
  return tenant
}

/** Calls as the hosted page does. */
function page(tenant: Tenant, path: string, body: unknown, headers: Record<string, string> = {}): Promise<Answer> {
  return call(service.url, 'POST', `/signin/api${path}`, {
    body,
    headers: { 'x-halfkey-app': tenant.appId, ...headers },
  })
}

/** A code of a new session, as the page makes it. */
async function newCode(tenant: Tenant) {
  const session = await signIn(service, tenant)
  const verifier = newVerifier()
  const body = { redirectUri: REDIRECT, codeChallenge: challengeOf(verifier) }
  const answer = await page(tenant, '/code', body, { authorization: `Bearer ${session.accessToken}` })
  expect(answer.status, answer.text).toBe(200)
  const { code } = answer.body.data as { code: string }
  return { ...session, code, exchange: { code, codeVerifier: verifier, redirectUri: REDIRECT } }
}

const isLive = async (tenant: Tenant, accessToken: string) =>
  (await tenant.get('/auth/sessions', { headers: { authorization: `Bearer ${accessToken}` } })).status === 200

test('a code is exchanged for the session that it stands for, with tokens of its own', async () => {
  const tenant = await newTenant()
  const made = await newCode(tenant)
  const answer = await tenant.post('/auth/exchange', made.exchange)
  expect(answer.status, answer.text).toBe(200)
  expect(answer.headers.get('cache-control')).toBe('no-store')
  expect(answer.body.data).toMatchObject({
    user: { id: made.userId },
    isNewUser: false,
    tokenType: 'Bearer',
    sessionId: made.sessionId,
  })
  expect(await isLive(tenant, answer.body.data.accessToken)).toBe(true)
  // The page's refresh token gave way to the app's.
  expect(answer.body.data.refreshToken).not.toBe(made.refreshToken)
  expect((await tenant.post('/auth/refresh', { refreshToken: answer.body.data.refreshToken })).status).toBe(200)
})

test('whether the user is new is for the sign-in to say, not for the page', async () => {
  const tenant = await newTenant()
  const verifier = newVerifier()
  const guest = (await page(tenant, '/guests', {})).body.data
  const authorization = `Bearer ${guest.accessToken}`
  const body = { redirectUri: REDIRECT, codeChallenge: challengeOf(verifier) }
  expectRefusal(await page(tenant, '/code', { ...body, isNewUser: true }, { authorization }), 'validation_failed')
  const { code } = (await page(tenant, '/code', body, { authorization })).body.data
  const answer = await tenant.post('/auth/exchange', { code, codeVerifier: verifier, redirectUri: REDIRECT })
  expect(answer.body.data).toMatchObject({ isNewUser: true, user: { id: guest.userId } })
})

test('a second use of a code ends the session', async () => {
  const tenant = await newTenant()
  const made = await newCode(tenant)
  const first = await tenant.post('/auth/exchange', made.exchange)
  expect(await isLive(tenant, first.body.data.accessToken)).toBe(true)
  expectError(await tenant.post('/auth/exchange', made.exchange), 400, 'code_invalid')
  expect(await isLive(tenant, first.body.data.accessToken)).toBe(false)
  const events = await service.sql('select 1 from events where tenant_id = $1 and type = $2', [
    tenant.tenantId,
    'session.revoked',
  ])
  expect(events).toHaveLength(1)
})

test('a second use under an Idempotency-Key of its own ends the session all the same', async () => {
  const tenant = await newTenant()
  const made = await newCode(tenant)
  const first = await tenant.post('/auth/exchange', made.exchange, { headers: { 'idempotency-key': 'a' } })
  const again = await tenant.post('/auth/exchange', made.exchange, { headers: { 'idempotency-key': 'a' } })
  expect(again.text).toBe(first.text)
  expect(await isLive(tenant, first.body.data.accessToken)).toBe(true)
  const other = await tenant.post('/auth/exchange', made.exchange, { headers: { 'idempotency-key': 'b' } })
  expectError(other, 400, 'code_invalid')
  expect(await isLive(tenant, first.body.data.accessToken)).toBe(false)
})

test('of many exchanges of one code at once one succeeds', async () => {
  const tenant = await newTenant()
  const { exchange } = await newCode(tenant)
  const answers = await Promise.all(Array.from({ length: PARALLEL }, () => tenant.post('/auth/exchange', exchange)))
  expect(answers.filter((answer) => answer.status === 200)).toHaveLength(1)
  for (const answer of answers) if (answer.status !== 200) expectError(answer, 400, 'code_invalid')
})

test('a wrong verifier or redirect uses the code up, and tells no more than an unknown code', async () => {
  const tenant = await newTenant()
  const bodies = new Set<string>()
  for (const wrong of [
    { codeVerifier: newVerifier() },
    { redirectUri: `${REDIRECT}#` },
    { redirectUri: 'https://x.example' },
  ]) {
    const made = await newCode(tenant)
    const answer = await tenant.post('/auth/exchange', { ...made.exchange, ...wrong })
    expectError(answer, 400, 'code_invalid')
    bodies.add(answer.text)
    expectError(await tenant.post('/auth/exchange', made.exchange), 400, 'code_invalid')
  }
  const unknown = { code: `hk_sc_${newVerifier()}`, codeVerifier: newVerifier(), redirectUri: REDIRECT }
  bodies.add((await tenant.post('/auth/exchange', unknown)).text)
  expect(bodies.size).toBe(1)
})

test("another tenant's or another app's code is unknown, and stays usable", async () => {
  const tenant = await newTenant()
  const { exchange } = await newCode(tenant)
  const app = (await tenant.post('/apps', { name: 'Other' })).body.data
  expectError(await (await newTenant()).post('/auth/exchange', exchange), 400, 'code_invalid')
  for (const key of [
    await tenant.newKey({ scopes: ['*'], appId: app.id }),
    await tenant.newKey({ publishable: true, appId: app.id }),
  ])
    expectError(await tenant.post('/auth/exchange', exchange, { key }), 400, 'code_invalid')
  const key = await tenant.newKey({ publishable: true })
  expect((await tenant.post('/auth/exchange', exchange, { key })).status).toBe(200)
})

test('a code ends after 60 seconds', async () => {
  const tenant = await newTenant()
  const { exchange } = await newCode(tenant)
  service.advance(60_000)
  expectError(await tenant.post('/auth/exchange', exchange), 410, 'code_expired')
})

test('a code is only made for an allowed redirect, compared character by character', async () => {
  const tenant = await newTenant()
  const { accessToken } = await signIn(service, tenant)
  const codeChallenge = challengeOf(newVerifier())
  const ask = (body: object) => page(tenant, '/code', body, { authorization: `Bearer ${accessToken}` })
  for (const redirectUri of [
    `${REDIRECT}&x=1`,
    REDIRECT.toUpperCase(),
    'https://shop.example.com/',
    'javascript:alert(1)',
  ])
    expect(expectRefusal(await ask({ redirectUri, codeChallenge }), 'validation_failed')[0].field).toBe('redirectUri')
  for (const challenge of ['', 'x', `${codeChallenge}=`, codeChallenge.slice(1)])
    expectRefusal(await ask({ redirectUri: REDIRECT, codeChallenge: challenge }), 'validation_failed')
})

test('a code needs a recent sign-in, and is not made for a server or without a session', async () => {
  const tenant = await newTenant()
  const { accessToken, userId } = await signIn(service, tenant)
  const body = { redirectUri: REDIRECT, codeChallenge: challengeOf(newVerifier()) }
  expectError(await page(tenant, '/code', body), 401, 'session_missing')
  expectError(await page(tenant, '/code', body, { 'x-user-id': userId }), 403, 'key_type_not_allowed')
  service.advance(5 * 60_000 + 1)
  const authorization = `Bearer ${accessToken}`
  expectError(await page(tenant, '/code', body, { authorization }), 403, 'reauthentication_required')
  expectError(await tenant.post('/code', body, { headers: { authorization } }), 404, 'not_found')
})

test('only the page itself may call as the page', async () => {
  const tenant = await newTenant()
  const refresh = { refreshToken: 'x' }
  const own = new URL(service.deps.config.publicUrl ?? `http://localhost:${service.deps.config.port}`).origin
  for (const headers of [
    { origin: 'https://evil.example' },
    { origin: 'null' },
    { 'sec-fetch-site': 'cross-site' },
    { 'sec-fetch-site': 'same-site' },
  ])
    expectError(
      await page(tenant, '/auth/refresh', refresh, headers as Record<string, string>),
      403,
      'origin_not_allowed',
    )
  const same = { origin: own, 'sec-fetch-site': 'same-origin' }
  const answer = await page(tenant, '/auth/refresh', refresh, same)
  expectError(answer, 401, 'session_invalid')
  expect(answer.headers.get('access-control-allow-origin')).toBeNull()
  expectError(await call(service.url, 'POST', '/signin/api/auth/refresh', { body: refresh }), 404, 'not_found')
  expectError(await page({ ...tenant, appId: 'app_x' }, '/auth/refresh', refresh), 404, 'not_found')
  expectError(await page(tenant, '/users', {}), 404, 'not_found')
  expectError(await page(tenant, '/auth/token/exchange', {}), 404, 'not_found')
  expectError(await page(tenant, '/guests/cleanup', {}), 404, 'not_found')
  const preflight = await call(service.url, 'OPTIONS', '/signin/api/auth/refresh', {
    headers: { origin: 'https://evil.example' },
  })
  expect(preflight.headers.get('access-control-allow-origin')).toBeNull()
})

const link = (query: Record<string, string>) =>
  call(service.url, 'GET', `/signin?${new URLSearchParams(query)}`, { headers: { host: new URL(service.url).host } })

/** The page under the name in the public URL, which in development is localhost. */
const linkByName = (query: Record<string, string>) =>
  call(service.url.replace('127.0.0.1', 'localhost'), 'GET', `/signin?${new URLSearchParams(query)}`)

test('the page is for an app, says nothing to frames, and loads nothing from elsewhere', async () => {
  const tenant = await newTenant()
  const answer = await linkByName({ app: tenant.appId })
  expect(answer.status).toBe(200)
  expect(answer.headers.get('content-type')).toContain('text/html')
  const policy = answer.headers.get('content-security-policy')
  expect(policy).toContain("frame-ancestors 'none'")
  expect(policy).toContain("default-src 'none'")
  expect(policy).not.toContain('unsafe')
  expect(answer.text).not.toMatch(/(?:src|href)="(?:https?:)?\/\//)
  expect((await link({ app: tenant.appId })).headers.get('location')).toMatch(
    /^http:\/\/localhost:\d+\/signin\?app=app_/,
  )
})

test('a link to no app, to a redirect that is not allowed, or without PKCE leads to no page and to no redirect', async () => {
  const tenant = await newTenant()
  const codeChallenge = challengeOf(newVerifier())
  const good = {
    app: tenant.appId,
    redirect_uri: REDIRECT,
    state: 's',
    code_challenge: codeChallenge,
    code_challenge_method: 'S256',
  }
  expect((await linkByName(good)).status).toBe(200)
  const wrong: [Record<string, string>, number][] = [
    [{ app: 'none' }, 404],
    [{ ...good, redirect_uri: `${REDIRECT}x` }, 400],
    [{ ...good, redirect_uri: 'javascript:alert(1)' }, 400],
    [{ ...good, code_challenge: 'short' }, 400],
    [{ ...good, code_challenge_method: 'plain' }, 400],
    [{ ...good, state: 'x'.repeat(2_001) }, 400],
  ]
  for (const [query, status] of wrong) {
    const answer = await linkByName(query)
    expect(answer.status, JSON.stringify(query)).toBe(status)
    expect(answer.headers.get('location')).toBeNull()
    expect(answer.text).not.toContain('id="config"')
  }
})

test('what a link or an app is called stays text on the page', async () => {
  const tenant = await newTenant()
  const hostile = '</script><img src=x onerror=alert(1)>\u2028&"!'
  await tenant.patch(`/apps/${tenant.appId}`, { name: hostile })
  const answer = await linkByName({
    app: tenant.appId,
    redirect_uri: REDIRECT,
    state: hostile,
    code_challenge: challengeOf(newVerifier()),
    code_challenge_method: 'S256',
  })
  expect(answer.status).toBe(200)
  expect(answer.text).not.toContain('<img')
  const [, json] = /<script type="application\/json" id="config">([^<]*)<\/script>/.exec(answer.text) as unknown as [
    string,
    string,
  ]
  expect(JSON.parse(json)).toMatchObject({ appName: hostile, redirect: { state: hostile } })
})
