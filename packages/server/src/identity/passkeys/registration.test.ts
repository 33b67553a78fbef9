import { randomBytes } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Caller, newAuthenticator, register, signUp } from '../../../test/harness/authenticator.ts'
import { expectError, expectRefusal } from '../../../test/harness/envelope.ts'
import { type Answer, type Service, startService } from '../../../test/harness/harness.ts'
import { forgeCreation, type Lies, newForger, UP } from './forged.fixture.ts'
import { bearer, newTestApp, type TestApp } from './test-app.fixture.ts'

let service: Service
beforeAll(async () => {
  service = await startService()
})
afterAll(() => service.stop())

const MINUTE_MS = 60_000

/** The path of the options, for answers that are not taken for granted. */
const OPTIONS = '/auth/passkey/register-options'
const VERIFY = '/auth/passkey/register-verify'

const counts = async (app: TestApp) => [
  await app.count('users'),
  await app.count('passkeys'),
  await app.count('sessions'),
]

describe('the options', () => {
  test('are those of WebAuthn L3, for a discoverable credential of an offered algorithm', async () => {
    const app = await newTestApp(service)
    const answer = await app.send('POST', OPTIONS, { email: 'ada@example.com', name: 'Ada' })
    expect(answer.status, answer.text).toBe(200)
    expect(answer.headers.get('cache-control')).toBe('no-store')
    const { data } = answer.body
    expect(data).toEqual({
      challengeId: expect.stringMatching(/^chl_[0-9a-hjkmnp-tv-z]{26}$/),
      expiresAt: expect.stringMatching(/Z$/),
      publicKey: {
        rp: { id: 'localhost', name: 'Default' },
        user: { id: expect.stringMatching(/^[\w-]{40}$/), name: 'ada@example.com', displayName: 'Ada' },
        challenge: expect.stringMatching(/^[\w-]{43}$/),
        pubKeyCredParams: [-8, -7, -257].map((alg) => ({ type: 'public-key', alg })),
        timeout: 300_000,
        excludeCredentials: [],
        authenticatorSelection: {
          residentKey: 'required',
          requireResidentKey: true,
          userVerification: 'required',
        },
        attestation: 'none',
        extensions: { credProps: true },
      },
    })
    const other = await app.askToRegister()
    expect(other.publicKey.challenge).not.toBe(data.publicKey.challenge)
    expect(other.publicKey.user).toMatchObject({ name: 'Default', displayName: 'Default' })
  })

  test('follow the app’s settings', async () => {
    const { tenant } = await newTestApp(service)
    const passkey = { rpId: 'shop.example.com', rpName: 'Shop', userVerification: 'preferred' }
    const appId = (await tenant.post('/apps', { name: 'Other', passkey })).body.data.id
    const { publicKey } = (await tenant.post(OPTIONS, { appId })).body.data
    expect(publicKey.rp).toEqual({ id: 'shop.example.com', name: 'Shop' })
    expect(publicKey.authenticatorSelection.userVerification).toBe('preferred')
  })

  test('make no user, and tell nothing of an email but its form', async () => {
    const app = await newTestApp(service)
    await signUp(app.browser, { email: 'ada@example.com' })
    const before = await app.count('users')
    const [taken, free] = [
      await app.send('POST', OPTIONS, { email: 'ADA@example.com' }),
      await app.send('POST', OPTIONS, { email: 'eve@example.com' }),
    ]
    const shape = (answer: Answer) => ({
      status: answer.status,
      ...answer.body.data,
      challengeId: '',
      expiresAt: '',
      publicKey: { ...answer.body.data.publicKey, challenge: '', user: '' },
    })
    expect(shape(taken)).toEqual(shape(free))
    expect(await app.count('users')).toBe(before)
    for (const email of ['ada', 'a b@c.d', '', 7]) {
      const [detail] = expectRefusal(await app.send('POST', OPTIONS, { email }), 'validation_failed', String(email))
      const message = 'Must be an email address, for example ada@example.com.'
      expect(detail).toMatchObject({
        field: 'email',
        code: typeof email === 'string' ? 'invalid_email' : 'wrong_type',
        message,
      })
    }
    for (const name of ['', '  ', 7, 'x'.repeat(201)])
      expectRefusal(await app.send('POST', OPTIONS, { name }), 'validation_failed', String(name))
  })

  test('are of the key’s app, and of no other tenant’s', async () => {
    const app = await newTestApp(service)
    const other = await service.newTenant()
    for (const key of [app.browser.key, app.tenant.key]) {
      const answer = await app.tenant.post(OPTIONS, { appId: other.appId }, { key })
      expectError(answer, 404, 'not_found')
      expect(answer.body.details[0].field).toBe('appId')
    }
  })
})

describe('signing up', () => {
  test.each(['ES256', 'EdDSA', 'RS256'] as const)(
    'with %s makes the user, the passkey, a session and the events, in this order',
    async (algorithm) => {
      const app = await newTestApp(service)
      const authenticator = newAuthenticator({ algorithmIdentifiers: [algorithm] })
      const answer = await register(
        app.browser,
        { email: ' Ada@Example.com ', name: ' Ada ' },
        { authenticator, deviceName: ' Phone ' },
      )
      expect(answer.status, answer.text).toBe(200)
      expect(answer.headers.get('cache-control')).toBe('no-store')
      const { data } = answer.body
      expect(data).toMatchObject({ isNewUser: true, tokenType: 'Bearer', expiresInSeconds: 900 })
      expect(data.user).toMatchObject({ email: 'Ada@Example.com', name: 'Ada', emailVerified: false, status: 'active' })
      expect(data.user.lastSeenAt).not.toBeNull()
      const listed = await app.send('GET', '/auth/passkeys', undefined, bearer(data))
      expect(listed.body.data).toEqual([
        {
          id: expect.stringMatching(/^pky_/),
          userId: data.user.id,
          name: 'Phone',
          credentialId: expect.stringMatching(/^[\w-]{20,}$/),
          rpId: 'localhost',
          deviceType: 'multiDevice',
          backedUp: true,
          transports: ['usb'],
          aaguid: expect.stringMatching(/^[0-9a-f-]{36}$/),
          lastUsedAt: null,
          createdAt: expect.any(String),
          updatedAt: expect.any(String),
        },
      ])
      const events = await app.events()
      expect(events.map((event) => [event.type, event.data])).toEqual([
        ['user.created', { userId: data.user.id, email: 'Ada@Example.com', partyId: data.user.partyId }],
        ['passkey.registered', { passkeyId: listed.body.data[0].id, userId: data.user.id }],
        ['user.signed_in', { userId: data.user.id, method: 'passkey', sessionId: data.sessionId }],
      ])
      const sessions = await app.send('GET', '/auth/sessions', undefined, bearer(data))
      expect(sessions.body.data[0].methods).toEqual(['hwk', 'user'])
    },
  )

  test('a user handle holds the id that the user gets', async () => {
    const app = await newTestApp(service)
    const asked = await app.askToRegister()
    const credential = newAuthenticator().create(asked.publicKey)
    const { data } = (await app.register(asked.challengeId, credential)).body
    expect(Buffer.from(asked.publicKey.user.id, 'base64url').toString()).toBe(data.user.id)
    expect(data.user.email).toBeNull()
  })

  test('an email that is taken by then is 409, and leaves nothing behind', async () => {
    const app = await newTestApp(service)
    await signUp(app.browser, { email: 'ada@example.com' })
    const before = [await counts(app), await app.events()]
    for (const headers of [{}, { 'idempotency-key': 'a' }]) {
      for (const by of [app.browser, app.tenant] as Caller[]) {
        const answer = await register(by, { email: 'ADA@example.com' }, { headers })
        expectError(answer, 409, 'already_exists')
        expect(answer.body.details[0].field).toBe('email')
      }
    }
    const after = [await counts(app), await app.events()]
    expect(after).toEqual(before)
  })

  test('twenty at once with one email make one user', async () => {
    const app = await newTestApp(service)
    const answers = await Promise.all(
      Array.from({ length: 20 }, () => register(app.browser, { email: 'ada@example.com' })),
    )
    expect(answers.map(({ status }) => status).sort()).toEqual([200, ...Array(19).fill(409)])
    expect(await counts(app)).toEqual([1, 1, 1])
  })

  test('twenty answers at once to one challenge make one user', async () => {
    const app = await newTestApp(service)
    const asked = await app.askToRegister()
    const credential = newAuthenticator().create(asked.publicKey)
    const body = { challengeId: asked.challengeId, credential }
    const answers = await Promise.all(Array.from({ length: 20 }, () => app.send('POST', VERIFY, body)))
    expect(answers.map(({ status }) => status).sort()).toEqual([200, ...Array(19).fill(410)])
    for (const answer of answers.filter(({ status }) => status === 410)) expectError(answer, 410, 'challenge_expired')
    expect(await counts(app)).toEqual([1, 1, 1])
  })

  test('a secret key’s repeat under one Idempotency-Key gets the same session, and no second one', async () => {
    const app = await newTestApp(service)
    const { tenant } = app
    const asked = (await tenant.post(OPTIONS, {})).body.data
    const body = { challengeId: asked.challengeId, credential: newAuthenticator().create(asked.publicKey) }
    const headers = { 'idempotency-key': 'once' }
    const [first, again] = [await tenant.post(VERIFY, body, { headers }), await tenant.post(VERIFY, body, { headers })]
    expect(first.status, first.text).toBe(200)
    expect(again.text).toBe(first.text)
    expect(again.headers.get('idempotency-replayed')).toBe('true')
    expect(await app.count('sessions')).toBe(1)
  })
})

describe('a challenge', () => {
  test('is over after five minutes, and after one answer, right or wrong', async () => {
    const app = await newTestApp(service)
    const [late, wrong] = [await app.askToRegister(), await app.askToRegister()]
    const forger = newForger()
    const answer = (asked: Answer['body'], lies: Lies = {}) =>
      app.register(asked.challengeId, forgeCreation(forger, asked.publicKey, lies))
    expectRefusal(await answer(wrong, { flags: UP }), 'attestation_invalid')
    expectError(await answer(wrong), 410, 'challenge_expired')
    service.advance(5 * MINUTE_MS)
    expectError(await answer(late), 410, 'challenge_expired')
    expect(await app.count('users')).toBe(0)
  })

  test('stays answered under an Idempotency-Key too', async () => {
    const { tenant } = await newTestApp(service)
    const asked = (await tenant.post(OPTIONS, {})).body.data
    const send = (lies: Lies) =>
      tenant.post(
        '/auth/passkey/register-verify',
        { challengeId: asked.challengeId, credential: forgeCreation(newForger(), asked.publicKey, lies) },
        { headers: { 'idempotency-key': randomBytes(8).toString('hex') } },
      )
    expectRefusal(await send({ origin: 'https://evil.example' }), 'attestation_invalid')
    expectError(await send({}), 410, 'challenge_expired')
  })

  test('of another tenant, another app, another ceremony or none is one 404 that names it', async () => {
    const app = await newTestApp(service)
    const other = await newTestApp(service)
    const { tenant } = app
    const appId = (await tenant.post('/apps', { name: 'Other' })).body.data.id
    const sibling = await tenant.newKey({ publishable: true, appId })
    const { publicKey, challengeId } = await app.askToRegister()
    const login = (await tenant.get('/auth/passkey/login-options')).body.data
    const credential = forgeCreation(newForger(), publicKey)
    const answers = [
      await other.tenant.post(VERIFY, { challengeId, credential }),
      await other.register(challengeId, credential),
      await tenant.post(VERIFY, { challengeId, credential }, { key: sibling }),
      await app.register(login.challengeId, credential),
      await app.register(
        challengeId.replace(/.$/, (last: string) => (last === '0' ? '1' : '0')),
        credential,
      ),
      await app.register("' or 1=1", credential),
    ]
    for (const answer of answers) {
      expectError(answer, 404, 'not_found')
      expect(answer.body).toEqual(answers[0]?.body)
      expect(answer.body.details[0].field).toBe('challengeId')
    }
    // None of them has used it up.
    expect((await app.register(challengeId, credential)).status).toBe(200)
  })
})

test('a user who was not verified, where the app does not ask for it, has one method less', async () => {
  const app = await newTestApp(service)
  await app.tenant.patch(`/apps/${app.tenant.appId}`, { passkey: { userVerification: 'preferred' } })
  const asked = await app.askToRegister()
  const credential = forgeCreation(newForger(), asked.publicKey, { flags: UP })
  const { data } = (await app.register(asked.challengeId, credential)).body
  const sessions = await app.send('GET', '/auth/sessions', undefined, bearer(data))
  expect(sessions.body.data[0].methods).toEqual(['hwk'])
})

test('one credential is one passkey of an app: for another user, and for the same one again, it is 409', async () => {
  const app = await newTestApp(service)
  const forger = newForger()
  const registered = async (headers: Record<string, string> = {}, body: object = {}) => {
    const asked = await app.askToRegister(body, headers)
    const credential = forgeCreation(forger, asked.publicKey)
    return app.register(asked.challengeId, credential, headers)
  }
  const first = await registered()
  expect(first.status).toBe(200)
  const before = await app.count('users')
  for (const again of [await registered({}, { email: 'eve@example.com' }), await registered(bearer(first.body.data))]) {
    expectError(again, 409, 'already_exists')
    expect(again.body.details[0].field).toBe('credential')
  }
  expect([await app.count('users'), await app.count('passkeys')]).toEqual([before, 1])
  const elsewhere = await newTestApp(service)
  const asked = await elsewhere.askToRegister()
  const credential = forgeCreation(forger, asked.publicKey)
  const answer = await elsewhere.register(asked.challengeId, credential)
  expect(answer.status, 'another tenant has its own').toBe(200)
})

test('twenty registrations of one credential at once make one user', async () => {
  const app = await newTestApp(service)
  const forger = newForger()
  const bodies = await Promise.all(
    Array.from({ length: 20 }, async () => {
      const asked = await app.askToRegister()
      return { challengeId: asked.challengeId, credential: forgeCreation(forger, asked.publicKey) }
    }),
  )
  const answers = await Promise.all(bodies.map((body) => app.send('POST', VERIFY, body)))
  expect(answers.map(({ status }) => status).sort()).toEqual([200, ...Array(19).fill(409)])
  expect([await app.count('users'), await app.count('passkeys')]).toEqual([1, 1])
})
