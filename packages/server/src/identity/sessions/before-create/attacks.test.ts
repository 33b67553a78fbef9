import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { loginOptions, loginVerify, signUp } from '../../../../test/harness/authenticator.ts'
import { expectError, expectRefusal } from '../../../../test/harness/envelope.ts'
import { call, type Tenant } from '../../../../test/harness/harness.ts'
import { answer, startReceiver } from '../../../../test/harness/receiver.ts'
import { latest, newRecoveryApp } from '../../email-recovery/recovery.fixture.ts'
import { type MailingService, newEmailApp, startMailing, wrongFor } from '../../email-sign-in/email.fixture.ts'
import { exchange, newSubject, startIssuer, trust } from '../../foreign-tokens/issuer.fixture.ts'
import { eventsOf, newApp, publishableKey } from '../sessions.fixture.ts'
import { counted, type HookServer, SECRET, setHook, startHookServer } from './hook.fixture.ts'

let mailing: MailingService
let hook: HookServer
let tenant: Tenant
beforeAll(async () => {
  mailing = await startMailing()
  hook = await startHookServer()
})
afterAll(async () => {
  await mailing.stop()
  await hook.close()
})
beforeEach(async () => {
  hook.received.length = 0
  hook.decide({ decision: 'allow' })
  tenant = await mailing.service.newTenant()
})

const newGuest = async (of = tenant) => of.post('/guests', {}, { key: await publishableKey(of) })

describe('an answer', () => {
  test.each([
    ['nothing', ''],
    ['an empty object', '{}'],
    ['a text', '"allow"'],
    ['true', 'true'],
    ['null', 'null'],
    ['a list', '[{"decision":"allow"}]'],
    ['another case', '{"decision":"ALLOW"}'],
    ['a list of a decision', '{"decision":["allow"]}'],
    ['another name', '{"allow":true}'],
    ['more than JSON', '{"decision":"allow"} and more'],
    ['a page', '<html>allow</html>'],
    ['more than 4 KiB', `{"decision":"allow","more":"${'x'.repeat(5_000)}"}`],
  ])('of %s is no permission', async (_, text) => {
    await setHook(tenant, hook)
    hook.behave(answer(200, text))
    expectError(await newGuest(), 500, 'sign_in_hook_failed')
    expect(await counted(mailing.service, tenant)).toEqual({ sessions: 0, users: 0 })
  })

  test.each([201, 204, 301, 302, 307, 400, 403, 500, 503])(
    'with the status %i: only 2xx can permit',
    async (status) => {
      await setHook(tenant, hook)
      const elsewhere = await startReceiver(answer(200, '{"decision":"allow"}'))
      hook.behave((_, response) =>
        response
          .writeHead(status, { location: elsewhere.url })
          .end(status === 204 ? '' : JSON.stringify({ decision: 'allow' })),
      )
      const answered = await newGuest()
      if (status === 201) expect(answered.status, answered.text).toBe(201)
      else expectError(answered, 500, 'sign_in_hook_failed')
      expect(elsewhere.received).toEqual([])
      await elsewhere.close()
    },
  )

  test('that never comes is not waited for', async () => {
    await setHook(tenant, hook)
    const open: (() => void)[] = []
    hook.behave((_, response) => open.push(() => response.end()))
    expectError(await newGuest(), 500, 'sign_in_hook_failed')
    for (const end of open) end()
  })

  test('that refuses says why by a code, and by nothing that a page could show', async () => {
    await setHook(tenant, hook, { onFailure: 'allow' })
    const reasonOf = async (reason: unknown) => {
      hook.decide({ decision: 'refuse', reason })
      const refused = await newGuest()
      expectError(refused, 403, 'sign_in_refused')
      return refused.body.details[0].reason
    }
    expect(await reasonOf('region_blocked')).toBe('region_blocked')
    for (const reason of ['<img src=x>', 'Call 555-0100', 'A', '', 'x'.repeat(65), 7, {}, null, undefined])
      expect(await reasonOf(reason), String(reason)).toBeNull()
    expect(await counted(mailing.service, tenant)).toEqual({ sessions: 0, users: 0 })
  })
})

describe('what the server is told', () => {
  test('of a new user, who is nobody yet, and of a known one', async () => {
    const browser = { url: mailing.service.url, key: await publishableKey(tenant) }
    await setHook(tenant, hook)
    const { user, authenticator } = await signUp(browser, { email: 'Ada@example.com', name: 'Ada' })
    await tenant.patch(`/users/${user.id}`, { metadata: { plan: 'gold' } })
    const asked = await loginOptions(browser)
    const loggedIn = await loginVerify(browser, asked.challengeId, authenticator.get(asked.publicKey))
    expect(loggedIn.status, loggedIn.text).toBe(200)
    const [first, second] = hook.received.map(({ event }) => event)
    const told = { email: 'Ada@example.com', emailVerified: false, name: 'Ada', externalId: null }
    expect(first).toEqual({
      id: expect.stringMatching(/^evt_/),
      type: 'session.before_create',
      created_at: expect.any(String),
      api_version: '2026-11-01',
      data: {
        appId: tenant.appId,
        method: 'passkey',
        methods: ['hwk', 'user'],
        isNewUser: true,
        user: { id: null, ...told, metadata: {} },
        address: '127.0.0.1',
        userAgent: expect.anything(),
      },
    })
    expect(second.data).toMatchObject({ isNewUser: false, user: { id: user.id, ...told, metadata: { plan: 'gold' } } })
    expect(second.id).not.toBe(first.id)
    expect(await eventsOf(mailing.service, tenant, 'session.before_create')).toEqual([])
  })

  test('nothing of somebody who did not prove who they are, or is suspended', async () => {
    const app = await newEmailApp(mailing)
    const { challengeId, code } = await app.ask('ada@example.com')
    await setHook(app.tenant, hook)
    expect((await app.verify(challengeId, wrongFor(code))).body.code).toBe('invalid_code')
    expect(hook.received).toEqual([])
    const { user } = (await app.verify(challengeId, code)).body.data
    expect(hook.received).toHaveLength(1)
    await app.tenant.patch(`/users/${user.id}`, { status: 'suspended' })
    const again = await app.ask('ada@example.com')
    expectError(await app.verify(again.challengeId, again.code), 403, 'user_suspended')
    expect(hook.received).toHaveLength(1)
  })

  test('nothing where no session begins: a refresh, a proof of a passkey, a code of the hosted page', async () => {
    const browser = { url: mailing.service.url, key: await publishableKey(tenant) }
    const { authenticator, ...tokens } = await signUp(browser)
    await setHook(tenant, hook)
    hook.decide({ decision: 'refuse' })
    const { key } = browser
    const refreshed = await tenant.post('/auth/refresh', { refreshToken: tokens.refreshToken }, { key })
    expect(refreshed.status, refreshed.text).toBe(200)
    const asked = await loginOptions(browser)
    const body = { challengeId: asked.challengeId, credential: authenticator.get(asked.publicKey) }
    const headers = { authorization: `Bearer ${refreshed.body.data.accessToken}`, origin: 'http://localhost:3000' }
    const proven = await tenant.post('/auth/passkey/prove', body, { key, headers })
    expect(proven.status, proven.text).toBe(200)
    expect(hook.received).toEqual([])
  })
})

describe('a refusal', () => {
  test('uses up neither an assertion nor a code', async () => {
    const app = await newEmailApp(mailing)
    const browser = { url: mailing.service.url, key: app.key }
    const { authenticator } = await signUp(browser)
    const asked = await loginOptions(browser)
    const credential = authenticator.get(asked.publicKey)
    const { challengeId, code } = await app.ask('ada@example.com')
    await setHook(app.tenant, hook)
    hook.decide({ decision: 'refuse' })
    expectError(await loginVerify(browser, asked.challengeId, credential), 403, 'sign_in_refused')
    expectError(await app.verify(challengeId, code), 403, 'sign_in_refused')
    hook.decide({ decision: 'allow' })
    expect((await loginVerify(browser, asked.challengeId, credential)).status).toBe(200)
    expect((await app.verify(challengeId, code)).status).toBe(200)
  })

  test('is not kept for an Idempotency-Key, and a permission is asked for once', async () => {
    await setHook(tenant, hook)
    const headers = { 'idempotency-key': 'once' }
    hook.decide({ decision: 'refuse' })
    expectError(await tenant.post('/guests', {}, { headers }), 403, 'sign_in_refused')
    hook.decide({ decision: 'allow' })
    const first = await tenant.post('/guests', {}, { headers })
    expect(first.status, first.text).toBe(201)
    const asked = hook.received.length
    hook.decide({ decision: 'refuse' })
    const again = await tenant.post('/guests', {}, { headers })
    expect(again.text).toBe(first.text)
    expect(hook.received).toHaveLength(asked)
    expect(await counted(mailing.service, tenant)).toEqual({ sessions: 1, users: 1 })
  })
})

test('a pending recovery ends once a session has begun, not by a sign-in that is refused', async () => {
  const app = await newRecoveryApp(mailing)
  const { authenticator, person } = await app.requested('ada@example.com')
  const browser = { url: mailing.service.url, key: app.key }
  await setHook(app.tenant, hook)
  const signIn = async () => {
    const asked = await loginOptions(browser)
    return loginVerify(browser, asked.challengeId, authenticator.get(asked.publicKey))
  }
  hook.decide({ decision: 'refuse' })
  expectError(await signIn(), 403, 'sign_in_refused')
  expect((await latest(app, person.userId)).status).toBe('pending')
  hook.decide({ decision: 'allow' })
  expect((await signIn()).status).toBe(200)
  expect((await latest(app, person.userId)).status).toBe('canceled')
})

test('a URL without a secret asks nobody, and lets nobody in', async () => {
  await setHook(tenant, hook, { onFailure: 'allow' })
  await mailing.service.sql('update apps set sign_in_hook_secret_sealed = null where tenant_id = $1', [tenant.tenantId])
  await mailing.service.recode()
  expectError(await newGuest(), 500, 'sign_in_hook_failed')
  expect(hook.received).toEqual([])
  expect(await counted(mailing.service, tenant)).toEqual({ sessions: 0, users: 0 })
})

test('what this process cannot ask is refused, also where a failure would let it pass', async () => {
  const own = await startMailing()
  const app = await own.service.newTenant()
  await setHook(app, hook, { onFailure: 'allow' })
  await own.service.deps.egress.close()
  const refused = await newGuest(app)
  expectError(refused, 429, 'rate_limited')
  expect(refused.headers.get('retry-after')).toBe('1')
  expect(await counted(own.service, app)).toEqual({ sessions: 0, users: 0 })
  await own.stop()
})

test('of parallel answers with one code, one begins a session', async () => {
  const app = await newEmailApp(mailing)
  const { challengeId, code } = await app.ask('ada@example.com')
  await setHook(app.tenant, hook)
  const answers = await Promise.all(Array.from({ length: 8 }, () => app.verify(challengeId, code)))
  expect(answers.filter(({ status }) => status === 200)).toHaveLength(1)
  expect(await counted(mailing.service, app.tenant)).toEqual({ sessions: 1, users: 1 })
})

test('a permission for a new user is none for a known one: whoever comes second is asked about as who they are', async () => {
  const issuer = await startIssuer(mailing.service)
  await trust(tenant, issuer)
  await setHook(tenant, hook)
  const allow = answer(200, JSON.stringify({ decision: 'allow' }))
  const held: (() => void)[] = []
  // Both are asked about before either is answered, so both are new.
  hook.behave((received, response, request) => {
    held.push(() => allow(received, response, request))
    if (held.length < 2) return
    hook.behave(allow)
    for (const release of held) release()
  })
  const claims = { sub: newSubject() }
  const tokens = [await issuer.token({ claims }), await issuer.token({ claims })]
  const answers = await Promise.all(tokens.map((token) => exchange(mailing.service, tenant, token)))
  const [first, second] = answers.map(({ body }) => body.data)
  expect(first.user.id).toBe(second.user.id)
  expect([first.isNewUser, second.isNewUser].toSorted()).toEqual([false, true])
  expect(hook.received.map(({ event }) => event.data.user.id)).toEqual([null, null, first.user.id])
  expect(await counted(mailing.service, tenant)).toEqual({ sessions: 2, users: 1 })
  await issuer.close()
})

describe('the setting', () => {
  test('needs a secret, which no answer and no event has', async () => {
    const patch = (signInHook: object) => tenant.patch(`/apps/${tenant.appId}`, { signInHook })
    const [missing] = expectRefusal(await patch({ url: hook.url }), 'validation_failed')
    expect(missing.field).toBe('signInHook.secret')
    const set = await patch({ url: hook.url, secret: SECRET })
    expect(set.body.data.signInHook).toEqual({ url: hook.url, onFailure: 'refuse', secretSet: true })
    expect(set.text).not.toContain(SECRET)
    const [changed] = await eventsOf(mailing.service, tenant, 'app.updated')
    expect(changed).toMatchObject({ changed: ['signInHook.url', 'signInHook.secret'] })
    expect(expectRefusal(await patch({ secret: null }), 'validation_failed')[0].field).toBe('signInHook.secret')
    const gone = await patch({ url: null, secret: null })
    expect(gone.body.data.signInHook).toEqual({ url: null, onFailure: 'refuse', secretSet: false })
    expect((await newGuest()).status).toBe(201)
    expect(hook.received).toEqual([])
  })

  test.each([
    ['https://169.254.169.254/latest', 'sign_in_hook_url_blocked'],
    ['https://10.0.0.1/', 'sign_in_hook_url_blocked'],
    ['https://[fd00::1]/', 'sign_in_hook_url_blocked'],
    ['http://shop.example.com/', 'validation_failed'],
    ['ftp://shop.example.com/', 'validation_failed'],
    ['javascript:alert(1)', 'validation_failed'],
    ['https://user:secret@shop.example.com/', 'validation_failed'],
    ['not a URL', 'validation_failed'],
  ])('is not %s', async (url, code) => {
    const answered = await tenant.patch(`/apps/${tenant.appId}`, { signInHook: { url, secret: SECRET } })
    expect(expectRefusal(answered, code)[0].field).toBe('signInHook.url')
    expectRefusal(await tenant.post('/apps', { name: 'Other', signInHook: { url, secret: SECRET } }), code)
  })

  test('is of one app: others begin sessions without it', async () => {
    await setHook(tenant, hook)
    hook.decide({ decision: 'refuse' })
    const other = await newApp(tenant)
    const beside = await tenant.post('/guests', {}, { key: await publishableKey(tenant, other) })
    expect(beside.status, beside.text).toBe(201)
    expect((await newGuest(await mailing.service.newTenant())).status).toBe(201)
    expectError(await newGuest(), 403, 'sign_in_refused')
  })

  test('cannot be taken away by who writes the database', async () => {
    await setHook(tenant, hook)
    await mailing.service.sql(
      `update apps set sign_in_hook = '{"url": null, "onFailure": "refuse"}' where tenant_id = $1`,
      [tenant.tenantId],
    )
    expectError(await newGuest(), 500, 'record_tampered')
    expect(await counted(mailing.service, tenant)).toEqual({ sessions: 0, users: 0 })
  })

  test('holds on the hosted page, whoever calls it', async () => {
    await setHook(tenant, hook)
    hook.decide({ decision: 'refuse' })
    const headers = { 'x-halfkey-app': tenant.appId }
    expectError(
      await call(mailing.service.url, 'POST', '/signin/api/guests', { headers, body: {} }),
      403,
      'sign_in_refused',
    )
  })
})
