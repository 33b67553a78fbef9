import { randomBytes } from 'node:crypto'
import { isDeepStrictEqual } from 'node:util'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { logIn, loginOptions, newAuthenticator, ORIGIN, signUp } from '../../../test/harness/authenticator.ts'
import { expectError, expectRefusal } from '../../../test/harness/envelope.ts'
import { type Answer, eventually, refillsNothing, type Service, startService } from '../../../test/harness/harness.ts'
import type { Sql } from '../../platform/db/db.ts'
import { BE, BS, type Forger, forgeAssertion, forgeCreation, type Lies, newForger, UP, UV } from './forged.fixture.ts'
import { bearer, newTestApp, type TestApp } from './test-app.fixture.ts'

let service: Service
beforeAll(async () => {
  service = await startService()
})
afterAll(() => service.stop())

const OPTIONS = '/auth/passkey/login-options'
const VERIFY = '/auth/passkey/login-verify'
const MINUTE_MS = 60_000

/** A user with a passkey that an attacker could make say anything. */
async function forged(
  app: TestApp,
  by: Forger = newForger(),
  body: object = {},
  lies: Lies = {},
): Promise<{ forger: Forger; userId: string; email: string | null }> {
  const asked = await app.askToRegister(body)
  const answer = await app.register(asked.challengeId, forgeCreation(by, asked.publicKey, lies))
  expect(answer.status, answer.text).toBe(200)
  return { forger: by, userId: answer.body.data.user.id, email: answer.body.data.user.email }
}

/** Asks for a login challenge, and takes it for granted. */
async function ask(app: TestApp, query = ''): Promise<Answer['body']> {
  const answer = await app.send('GET', `${OPTIONS}${query}`)
  expect(answer.status, answer.text).toBe(200)
  return answer.body.data
}

const verify = (app: TestApp, challengeId: string, credential: unknown): Promise<Answer> =>
  app.send('POST', VERIFY, { challengeId, credential })

function expectInvalid(answer: Answer, what = ''): void {
  expectError(answer, 401, 'assertion_invalid', what)
  expect(answer.body.details).toEqual([
    {
      field: 'credential',
      code: 'assertion_invalid',
      message: 'Could not be verified.',
      docs: expect.stringMatching(/\/docs\/errors\/assertion_invalid$/),
    },
  ])
}

describe('the options', () => {
  test('without an email are for whatever passkey there is', async () => {
    const app = await newTestApp(service)
    const answer = await app.send('GET', OPTIONS)
    expect(answer.headers.get('cache-control')).toBe('no-store')
    expect(answer.body.data).toEqual({
      challengeId: expect.stringMatching(/^chl_/),
      expiresAt: expect.stringMatching(/Z$/),
      publicKey: {
        challenge: expect.stringMatching(/^[\w-]{43}$/),
        timeout: 300_000,
        rpId: 'localhost',
        allowCredentials: [],
        userVerification: 'required',
      },
    })
  })

  test('for an email that nobody has look like those for one that somebody has, at each asking', async () => {
    const app = await newTestApp(service)
    await forged(app, newForger(), { email: 'ada@example.com' })
    await app.tenant.post('/users', { email: 'no-passkey@example.com' })
    const shape = ({ publicKey, ...rest }: Answer['body']) => [
      Object.keys(rest),
      Object.entries(publicKey).map(([name, value]) => (name === 'challenge' ? name : [name, value])),
    ]
    const descriptors: string[] = []
    for (const email of ['ada@example.com', 'eve@example.com', 'no-passkey@example.com']) {
      const [first, again] = [await ask(app, `?email=${email}`), await ask(app, `?email=${email.toUpperCase()}`)]
      expect(first.publicKey.allowCredentials).toEqual(again.publicKey.allowCredentials)
      const [descriptor, ...others] = first.publicKey.allowCredentials
      expect(others).toEqual([])
      expect(Object.keys(descriptor)).toEqual(['id', 'type', 'transports'])
      expect(descriptor).toMatchObject({ id: expect.stringMatching(/^[\w-]{43}$/), type: 'public-key' })
      descriptors.push(descriptor.id)
      const bare = (asked: Answer['body']) =>
        shape({ ...asked, publicKey: { ...asked.publicKey, allowCredentials: [] } })
      expect(bare(first)).toEqual(bare(await ask(app, '?email=ada@example.com')))
    }
    expect(new Set(descriptors).size).toBe(3)
    const elsewhere = await newTestApp(service)
    const [there] = (await ask(elsewhere, '?email=eve@example.com')).publicKey.allowCredentials
    expect(there.id, 'an app’s decoys are its own').not.toBe(descriptors[1])
  })

  // How long both take is measured by `npm run bench -- accounts`.
  test('cost the same statements and the same cryptography for an email that nobody has', async () => {
    const app = await newTestApp(service)
    await forged(app, newForger(), { email: 'ada@example.com' })
    const work = async (email: string) => {
      const done: string[] = []
      const { db, signingKeys } = service.deps
      const watched = (['query', 'one', 'count', 'run'] as const).map((way) => {
        const before = db[way].bind(db) as (statement: Sql) => Promise<never>
        return vi.spyOn(db, way).mockImplementation((statement) => {
          done.push(statement.text)
          return before(statement)
        })
      })
      const decoys = vi.spyOn(signingKeys, 'oldest')
      await ask(app, `?email=${email}`)
      const keys = decoys.mock.calls.length
      for (const each of [...watched, decoys]) each.mockRestore()
      return { done, keys }
    }
    // Once before: what the first call leaves in memory is no other's work.
    await ask(app, '?email=warm@example.com')
    const known = await work('ada@example.com')
    expect(known.done.length).toBeGreaterThan(2)
    expect(known.keys).toBe(1)
    // Now and then, a statement of the service's own comes in between.
    await eventually('the same work', async () =>
      isDeepStrictEqual(await work('ada@example.com'), await work('eve@example.com')),
    )
  })

  test('refuse what is no email, another tenant’s app and what is given twice', async () => {
    const app = await newTestApp(service)
    const other = await service.newTenant()
    for (const query of ['email=ada', 'email=', 'email=a@b.c&email=a@b.c', 'mail=a@b.c'])
      expectRefusal(await app.send('GET', `${OPTIONS}?${query}`), 'validation_failed', query)
    for (const key of [app.browser.key, app.tenant.key]) {
      const answer = await app.tenant.get(`${OPTIONS}?app_id=${other.appId}`, { key })
      expectError(answer, 404, 'not_found')
      expect(answer.body.details[0].field).toBe('app_id')
    }
  })

  test('and wrong answers from elsewhere keep no owner out, and are limited alike for passkeys and decoys', async () => {
    const limited = await startService({ HALFKEY_RATE_LIMITS: 'on', HALFKEY_TRUSTED_PROXIES: '127.0.0.1' })
    refillsNothing(limited, 'rateLimitAccount')
    try {
      const app = await newTestApp(limited)
      const ada = await signUp(app.browser, { email: 'ada@example.com' })
      const stranger = { 'x-forwarded-for': '198.51.100.7' }
      for (const email of ['ada@example.com', 'nobody@example.com']) {
        const named = await loginOptions(app.tenant, { email })
        const forger = newForger()
        const statuses: number[] = []
        for (let count = 0; count < 24; count += 1) {
          const asked = await loginOptions(app.tenant, {})
          const credential = forgeAssertion(forger, asked.publicKey, null)
          const id = named.publicKey.allowCredentials[0].id
          const body = { challengeId: asked.challengeId, credential: { ...credential, id, rawId: id } }
          const headers = stranger
          statuses.push((await app.tenant.post('/auth/passkey/login-verify', body, { headers })).status)
        }
        expect(statuses.slice(0, 20), email).toEqual(Array(20).fill(401))
        expect(statuses.slice(20), email).toContain(429)
      }
      expect((await logIn(app.browser, ada.authenticator)).user.id).toBe(ada.user.id)
    } finally {
      await limited.stop()
    }
  })

  test('are limited for each account, known or not', async () => {
    const limited = await startService({ HALFKEY_RATE_LIMITS: 'on' })
    refillsNothing(limited, 'rateLimitAccount')
    try {
      const app = await newTestApp(limited)
      for (const email of ['ada@example.com', 'eve@example.com']) {
        if (email.startsWith('ada')) await app.tenant.post('/users', { email })
        const answers = []
        for (let count = 0; count < 23; count += 1) answers.push(await app.tenant.get(`${OPTIONS}?email=${email}`))
        const refused = answers.filter(({ status }) => status === 429)
        expect(refused.length).toBeGreaterThan(0)
        expectError(refused[0] as Answer, 429, 'rate_limited')
        expect(refused[0]?.headers.get('retry-after')).toMatch(/^\d+$/)
      }
    } finally {
      await limited.stop()
    }
  })
})

describe('signing in', () => {
  test.each(['ES256', 'EdDSA', 'RS256'] as const)('with %s begins a session, in both flows', async (algorithm) => {
    const app = await newTestApp(service)
    const authenticator = newAuthenticator({ algorithmIdentifiers: [algorithm] })
    const ada = await signUp(app.browser, { email: 'ada@example.com' }, { authenticator })
    for (const query of [{}, { email: 'ADA@example.com' }]) {
      const asked = await loginOptions(app.browser, query)
      const answer = await verify(app, asked.challengeId, authenticator.get(asked.publicKey))
      expect(answer.status, answer.text).toBe(200)
      expect(answer.headers.get('cache-control')).toBe('no-store')
      const { data } = answer.body
      const record = (await app.tenant.get(`/users/${ada.user.id}`)).body.data
      expect(data).toMatchObject({ user: record, isNewUser: false, tokenType: 'Bearer', expiresInSeconds: 900 })
      const [session] = (await app.send('GET', '/auth/sessions', undefined, bearer(data))).body.data
      expect(session).toMatchObject({ id: data.sessionId, current: true, methods: ['hwk', 'user'] })
      const [event] = (await app.events()).slice(-1)
      expect([event.type, event.data]).toEqual([
        'user.signed_in',
        { userId: ada.user.id, method: 'passkey', sessionId: data.sessionId },
      ])
      const [passkey] = (await app.send('GET', '/auth/passkeys', undefined, bearer(data))).body.data
      expect(passkey.lastUsedAt).toBe(record.lastSeenAt)
    }
  })

  test('by a secret key, with or without an Idempotency-Key, and whatever session is sent along', async () => {
    const app = await newTestApp(service)
    const { forger, userId } = await forged(app)
    for (const headers of [{}, { 'idempotency-key': 'once' }, { authorization: 'Bearer nonsense' }]) {
      const asked = (await app.tenant.get(OPTIONS)).body.data
      const body = { challengeId: asked.challengeId, credential: forgeAssertion(forger, asked.publicKey, userId) }
      const answer = await app.tenant.post(VERIFY, body, { headers })
      expect(answer.status, answer.text).toBe(200)
      if (!('idempotency-key' in headers)) continue
      expect((await app.tenant.post(VERIFY, body, { headers })).text).toBe(answer.text)
    }
    expect(await app.count('sessions')).toBe(4)
  })

  test('twenty answers at once to one challenge begin one session', async () => {
    const app = await newTestApp(service)
    const { forger, userId } = await forged(app)
    const asked = await ask(app)
    const credential = forgeAssertion(forger, asked.publicKey, userId)
    const answers = await Promise.all(Array.from({ length: 20 }, () => verify(app, asked.challengeId, credential)))
    expect(answers.map(({ status }) => status).sort()).toEqual([200, ...Array(19).fill(410)])
    expect(await app.count('sessions')).toBe(2)
  })

  test('twenty assertions at once with one counter begin one session', async () => {
    const app = await newTestApp(service)
    const { forger, userId } = await forged(app, newForger(), {}, { signCount: 7 })
    const challenges = await Promise.all(Array.from({ length: 20 }, () => ask(app)))
    const answers = await Promise.all(
      challenges.map((asked) =>
        verify(app, asked.challengeId, forgeAssertion(forger, asked.publicKey, userId, { signCount: 8 })),
      ),
    )
    expect(answers.map(({ status }) => status).sort()).toEqual([200, ...Array(19).fill(401)])
    for (const answer of answers.filter(({ status }) => status === 401)) expectInvalid(answer)
    expect(await app.count('sessions')).toBe(2)
  })

  test('twenty sign-ins at once by twenty challenges of an authenticator without a counter all succeed', async () => {
    const app = await newTestApp(service)
    const { forger, userId } = await forged(app)
    const challenges = await Promise.all(Array.from({ length: 20 }, () => ask(app)))
    const answers = await Promise.all(
      challenges.map((asked) => verify(app, asked.challengeId, forgeAssertion(forger, asked.publicKey, userId))),
    )
    expect(answers.map(({ status }) => status)).toEqual(Array(20).fill(200))
  })

  test('the counter must rise once it counts, and whether the passkey is backed up is noted', async () => {
    const app = await newTestApp(service)
    const { forger, userId } = await forged(app, newForger(), {}, { flags: UP | UV | BE })
    const attempt = async (lies: Lies) => {
      const asked = await ask(app)
      return verify(app, asked.challengeId, forgeAssertion(forger, asked.publicKey, userId, lies))
    }
    const flags = UP | UV | BE | BS
    expect((await attempt({ signCount: 0, flags })).status).toBe(200)
    expect((await attempt({ signCount: 4_294_967_295, flags })).status).toBe(200)
    for (const signCount of [0, 1, 4_294_967_294, 4_294_967_295]) expectInvalid(await attempt({ signCount, flags }))
    const [row] = await service.sql('select sign_count, backed_up from passkeys where user_id = $1', [userId])
    expect(row).toEqual({ sign_count: '4294967295', backed_up: true })
  })

  test('a challenge counts once, right or wrong, and for five minutes', async () => {
    const app = await newTestApp(service)
    const { forger, userId } = await forged(app)
    const [late, replayed, wrong] = [await ask(app), await ask(app), await ask(app)]
    const answer = (asked: Answer['body'], lies: Lies = {}) =>
      verify(app, asked.challengeId, forgeAssertion(forger, asked.publicKey, userId, lies))
    expect((await answer(replayed)).status).toBe(200)
    expectError(await answer(replayed), 410, 'challenge_expired')
    expectInvalid(await answer(wrong, { signature: randomBytes(70) }))
    expectError(await answer(wrong), 410, 'challenge_expired')
    const other = await ask(app)
    const replay = forgeAssertion(forger, replayed.publicKey, userId)
    expectInvalid(await verify(app, other.challengeId, replay), 'an assertion of another challenge')
    service.advance(5 * MINUTE_MS)
    expectError(await answer(late), 410, 'challenge_expired')
  })

  test('…under an Idempotency-Key too', async () => {
    const app = await newTestApp(service)
    const { forger, userId } = await forged(app)
    const asked = (await app.tenant.get(OPTIONS)).body.data
    const send = (lies: Lies) =>
      app.tenant.post(
        VERIFY,
        { challengeId: asked.challengeId, credential: forgeAssertion(forger, asked.publicKey, userId, lies) },
        { headers: { 'idempotency-key': randomBytes(8).toString('hex') } },
      )
    expectInvalid(await send({ origin: 'https://evil.example' }))
    expectError(await send({}), 410, 'challenge_expired')
  })

  test('a challenge of another tenant, another app, another ceremony or none is one 404', async () => {
    const app = await newTestApp(service)
    const other = await newTestApp(service)
    const { forger, userId } = await forged(app)
    const appId = (await app.tenant.post('/apps', { name: 'Other' })).body.data.id
    const sibling = await app.tenant.newKey({ publishable: true, appId })
    const asked = await ask(app)
    const { challengeId } = asked
    const registration = await app.askToRegister()
    const credential = forgeAssertion(forger, asked.publicKey, userId)
    const answers = [
      await other.tenant.post(VERIFY, { challengeId, credential }),
      await verify(other, challengeId, credential),
      await app.tenant.post(VERIFY, { challengeId, credential }, { key: sibling }),
      await verify(app, registration.challengeId, credential),
      await verify(app, 'chl_0', credential),
      await verify(
        app,
        asked.challengeId.replace(/.$/, (last: string) => (last === '0' ? '1' : '0')),
        credential,
      ),
    ]
    for (const answer of answers) {
      expectError(answer, 404, 'not_found')
      expect(answer.body).toEqual(answers[0]?.body)
      expect(answer.body.details[0].field).toBe('challengeId')
    }
    expect((await verify(app, challengeId, credential)).status, 'it is still there').toBe(200)
  })

  test('a suspended user is refused, once they have shown that they are the user', async () => {
    const app = await newTestApp(service)
    const { forger, userId } = await forged(app)
    await app.tenant.patch(`/users/${userId}`, { status: 'suspended' })
    const [asked, other] = [await ask(app), await ask(app)]
    expectError(
      await verify(app, asked.challengeId, forgeAssertion(forger, asked.publicKey, userId)),
      403,
      'user_suspended',
    )
    expectInvalid(await verify(app, other.challengeId, forgeAssertion(forger, other.publicKey, userId, { flags: UP })))
    expect(await app.count('sessions')).toBe(1)
  })

  test('an ended guest is refused', async () => {
    const app = await newTestApp(service)
    for (const end of ['time', 'deletion']) {
      const guest = (await app.send('POST', '/guests', { ttlMinutes: 10 })).body.data
      const forger = newForger()
      const asked = await app.askToRegister({}, bearer(guest))
      await app.register(asked.challengeId, forgeCreation(forger, asked.publicKey), bearer(guest))
      if (end === 'deletion') expect((await app.tenant.delete(`/guests/${guest.id}`)).status).toBe(200)
      else service.advance(10 * MINUTE_MS + 1)
      const login = await ask(app)
      const answer = await verify(app, login.challengeId, forgeAssertion(forger, login.publicKey, guest.userId))
      expectError(answer, 410, 'guest_expired', end)
    }
  })

  test('a passkey goes on at the relying party that it was made for, when the app has moved to another', async () => {
    const app = await newTestApp(service)
    const { authenticator } = await signUp(app.browser, { email: 'ada@example.com' })
    const { forger, userId } = await forged(app)
    await app.tenant.patch(`/apps/${app.tenant.appId}`, { passkey: { rpId: 'moved.localhost' } })
    expect((await ask(app, '?email=ada@example.com')).publicKey.rpId).toBe('localhost')
    await logIn(app.browser, authenticator, { email: 'ada@example.com' })
    expect((await ask(app, '?email=eve@example.com')).publicKey.rpId).toBe('moved.localhost')
    const asked = await ask(app)
    expect(asked.publicKey.rpId).toBe('moved.localhost')
    for (const rpId of ['localhost', 'moved.localhost']) {
      const other = await ask(app)
      expectInvalid(
        await verify(app, other.challengeId, forgeAssertion(forger, other.publicKey, userId, { rpId })),
        rpId,
      )
    }
  })

  test('where the page is must be allowed, and the same as where the challenge was asked for', async () => {
    const app = await newTestApp(service)
    const { forger, userId } = await forged(app)
    const allowedOrigins = ['https://shop.example.com', 'https://pay.example.com']
    await app.tenant.patch(`/apps/${app.tenant.appId}`, { allowedOrigins })
    const attempt = async (askedAt: string | null, answeredAt: string) => {
      const options = askedAt === null ? {} : { key: app.browser.key, headers: { origin: askedAt } }
      const asked = (await app.tenant.get(OPTIONS, options)).body.data
      const credential = forgeAssertion(forger, asked.publicKey, userId, { origin: answeredAt })
      return app.tenant.post(VERIFY, { challengeId: asked.challengeId, credential })
    }
    expect((await attempt(allowedOrigins[0] as string, allowedOrigins[0] as string)).status).toBe(200)
    expectInvalid(await attempt(allowedOrigins[0] as string, allowedOrigins[1] as string))
    expect((await attempt(null, allowedOrigins[1] as string)).status, 'asked for by a server').toBe(200)
    for (const origin of [ORIGIN, 'http://shop.example.com', 'https://shop.example.com:444', 'null', ''])
      expectInvalid(await attempt(null, origin), origin)
  })
})
