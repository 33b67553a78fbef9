import { generate } from 'otplib'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { logIn, newAuthenticator, register, signUp } from '../../../test/harness/authenticator.ts'
import { expectError, expectRefusal } from '../../../test/harness/envelope.ts'
import { type Answer, type Service, startService } from '../../../test/harness/harness.ts'
import { forgeCreation, newForger } from './forged.fixture.ts'
import { bearer, newTestApp, type TestApp } from './test-app.fixture.ts'

let service: Service
beforeAll(async () => {
  service = await startService()
})
afterAll(() => service.stop())

const OPTIONS = '/auth/passkey/register-options'
const MINUTE_MS = 60_000

/** Adds a passkey of its own making to whoever the headers say. */
async function add(app: TestApp, headers: Record<string, string>): Promise<Answer> {
  const asked = await app.askToRegister({}, headers)
  return app.register(asked.challengeId, forgeCreation(newForger(), asked.publicKey), headers)
}

test('with a session the passkey is added to its user, whom it signs in anew', async () => {
  const app = await newTestApp(service)
  const ada = await signUp(app.browser, { email: 'ada@example.com', name: 'Ada' })
  const asked = await app.askToRegister({}, bearer(ada))
  const user = { id: Buffer.from(ada.user.id).toString('base64url'), name: 'ada@example.com', displayName: 'Ada' }
  expect(asked.publicKey.user).toEqual(user)
  const second = newAuthenticator({ algorithmIdentifiers: ['EdDSA'] })
  const answer = await app.register(asked.challengeId, second.create(asked.publicKey), bearer(ada))
  expect(answer.status, answer.text).toBe(200)
  expect(answer.body.data).toMatchObject({ isNewUser: false, user: { id: ada.user.id } })
  expect(answer.body.data.sessionId).not.toBe(ada.sessionId)
  expect([await app.count('users'), await app.count('passkeys')]).toEqual([1, 2])
  expect((await app.events()).map(({ type }) => type)).toEqual([
    'user.created',
    'passkey.registered',
    'user.signed_in',
    'passkey.registered',
    'user.signed_in',
  ])
  for (const authenticator of [ada.authenticator, second])
    expect((await logIn(app.browser, authenticator)).user.id).toBe(ada.user.id)
})

test('the options exclude the authenticators that the user has, with this relying party', async () => {
  const app = await newTestApp(service)
  const ada = await signUp(app.browser)
  await signUp(app.browser)
  const { excludeCredentials } = (await app.askToRegister({}, bearer(ada))).publicKey
  const mine = (await app.send('GET', '/auth/passkeys', undefined, bearer(ada))).body.data[0]
  expect(excludeCredentials).toEqual([{ id: mine.credentialId, type: 'public-key', transports: ['usb'] }])
  await app.tenant.patch(`/apps/${app.tenant.appId}`, { passkey: { rpId: 'moved.localhost' } })
  expect((await app.askToRegister({}, bearer(ada))).publicKey.excludeCredentials).toEqual([])
})

test('a server makes the challenge for a user of its own, and a browser answers it without a session', async () => {
  const app = await newTestApp(service)
  const userId = (await app.tenant.post('/users', { email: 'ada@example.com' })).body.data.id
  const headers = { 'x-user-id': userId }
  const asked = (await app.tenant.post(OPTIONS, {}, { headers })).body.data
  const authenticator = newAuthenticator()
  const answer = await app.register(asked.challengeId, authenticator.create(asked.publicKey))
  expect(answer.status, answer.text).toBe(200)
  expect(answer.body.data).toMatchObject({ isNewUser: false, user: { id: userId, email: 'ada@example.com' } })
  expect((await logIn(app.browser, authenticator, { email: 'ada@example.com' })).user.id).toBe(userId)
})

test('a challenge for one user is nobody else’s: not another’s, not one’s who signs up', async () => {
  const app = await newTestApp(service)
  const [ada, eve] = [await signUp(app.browser), await signUp(app.browser)]
  const answers: Answer[] = []
  for (const [asker, answerer] of [
    [bearer(ada), bearer(eve)],
    [{}, bearer(eve)],
  ] as const) {
    const asked = await app.askToRegister({}, asker)
    answers.push(await app.register(asked.challengeId, forgeCreation(newForger(), asked.publicKey), answerer))
  }
  const asked = await app.askToRegister({}, bearer(ada))
  const body = { challengeId: asked.challengeId, credential: forgeCreation(newForger(), asked.publicKey) }
  const headers = { 'x-user-id': eve.user.id }
  answers.push(await app.tenant.post('/auth/passkey/register-verify', body, { headers }))
  for (const answer of answers) {
    expectError(answer, 404, 'not_found')
    expect(answer.body.details[0].field).toBe('challengeId')
  }
  expect(await app.count('passkeys')).toBe(2)
})

test('email, name and another app are not for who is here already', async () => {
  const app = await newTestApp(service)
  const ada = await signUp(app.browser)
  for (const field of ['email', 'name']) {
    const [detail] = expectRefusal(
      await app.send('POST', OPTIONS, { [field]: 'eve@example.com' }, bearer(ada)),
      'validation_failed',
    )
    expect(detail.field).toBe(field)
  }
  const appId = (await app.tenant.post('/apps', { name: 'Other' })).body.data.id
  const headers = { 'x-user-id': ada.user.id }
  const answer = await app.tenant.post(OPTIONS, { appId }, { headers })
  expectError(answer, 404, 'not_found')
  expect(answer.body.details[0].field).toBe('appId')
  expect((await app.tenant.post(OPTIONS, { appId: app.tenant.appId }, { headers })).status).toBe(200)
})

test('a stolen token adds no passkey: it takes a recent sign-in, or a recent second factor', async () => {
  const app = await newTestApp(service)
  const ada = await signUp(app.browser)
  const ask = (headers: Record<string, string> = bearer(ada)) => app.send('POST', OPTIONS, {}, headers)
  service.advance(5 * MINUTE_MS + 1)
  expectError(await ask(), 403, 'reauthentication_required')
  const fresh = await logIn(app.browser, ada.authenticator)
  expect((await ask(bearer(fresh))).status).toBe(200)
  await service.sql('update users set mfa_enabled = true where id = $1', [ada.user.id])
  await service.recode()
  expectError(await ask(bearer(fresh)), 403, 'mfa_required')
  expect((await app.tenant.post(OPTIONS, {}, { headers: { 'x-user-id': ada.user.id } })).status).toBe(200)
  await app.tenant.patch(`/apps/${app.tenant.appId}`, { mfa: { policy: 'always', enforceForServer: true } })
  const byServer = await app.tenant.post(OPTIONS, {}, { headers: { 'x-user-id': ada.user.id } })
  expectError(byServer, 403, 'mfa_required')
  await service.sql('update users set mfa_enabled = false where id = $1', [ada.user.id])
  await service.recode()
  expectError(await ask(bearer(fresh)), 403, 'mfa_enrollment_required')
})

test('a key without users:act_as adds none, though it may sign users up', async () => {
  const app = await newTestApp(service)
  const ada = await signUp(app.browser)
  const key = await app.tenant.newKey({ scopes: ['auth:write'] })
  const answer = await app.tenant.post(OPTIONS, {}, { key, headers: { 'x-user-id': ada.user.id } })
  expectError(answer, 403, 'insufficient_scope')
  expect((await app.tenant.post(OPTIONS, {}, { key })).status).toBe(200)
})

test('a user who was suspended or deleted meanwhile gets no passkey', async () => {
  const app = await newTestApp(service)
  const userId = (await app.tenant.post('/users', {})).body.data.id
  const headers = { 'x-user-id': userId }
  const challenges = [
    (await app.tenant.post(OPTIONS, {}, { headers })).body.data,
    (await app.tenant.post(OPTIONS, {}, { headers })).body.data,
  ]
  const answer = (index: number) =>
    app.register(challenges[index].challengeId, forgeCreation(newForger(), challenges[index].publicKey))
  await app.tenant.patch(`/users/${userId}`, { status: 'suspended' })
  expectError(await app.tenant.post(OPTIONS, {}, { headers }), 403, 'user_suspended')
  expectError(await answer(0), 403, 'user_suspended')
  await app.tenant.delete(`/users/${userId}`)
  const gone = await answer(1)
  expectError(gone, 404, 'not_found')
  expect(gone.body.details[0].field).toBe('challengeId')
  expect([await app.count('passkeys'), await app.count('sessions')]).toEqual([0, 0])
})

test('a guest may add a passkey; its sessions end with the guest, and no sooner once they are converted', async () => {
  const app = await newTestApp(service)
  const guest = (await app.send('POST', '/guests', { ttlMinutes: 10 })).body.data
  const asked = await app.askToRegister({}, bearer(guest))
  const authenticator = newAuthenticator()
  const added = await app.register(asked.challengeId, authenticator.create(asked.publicKey), bearer(guest))
  expect(added.status, added.text).toBe(200)
  const again = await logIn(app.browser, authenticator)
  for (const { sessionId } of [added.body.data, again]) {
    const [session] = await service.sql<{ ends_at: Date }>('select ends_at from sessions where id = $1', [sessionId])
    expect(session?.ends_at.toISOString()).toBe(guest.expiresAt)
  }
  const other = (await app.send('POST', '/guests', { ttlMinutes: 4 })).body.data
  const late = await app.askToRegister({}, bearer(other))
  service.advance(4 * MINUTE_MS + 1)
  expectError(await app.register(late.challengeId, forgeCreation(newForger(), late.publicKey)), 410, 'guest_expired')
  const converted = await app.send('POST', `/guests/${guest.id}/convert`, { email: 'ada@example.com' }, bearer(guest))
  expect(converted.status, converted.text).toBe(200)
  service.advance(10 * MINUTE_MS)
  const user = await logIn(app.browser, authenticator)
  expect(user.user).toMatchObject({ id: guest.userId, email: 'ada@example.com' })
  const [session] = await service.sql<{ ends_at: Date | null }>('select ends_at from sessions where id = $1', [
    user.sessionId,
  ])
  expect(session?.ends_at).toBeNull()
})

test('twenty additions at once to one user make twenty passkeys, and fifty are the most', async () => {
  const app = await newTestApp(service)
  const userId = (await app.tenant.post('/users', {})).body.data.id
  const headers = { 'x-user-id': userId }
  const ask = async () => (await app.tenant.post(OPTIONS, {}, { headers })).body.data
  const challenges = await Promise.all(Array.from({ length: 60 }, ask))
  const answer = (asked: Answer['body']) => app.register(asked.challengeId, forgeCreation(newForger(), asked.publicKey))
  const first = await Promise.all(challenges.slice(0, 20).map(answer))
  expect(first.map(({ status }) => status)).toEqual(Array(20).fill(200))
  const others: Answer[] = []
  for (let from = 20; from < 60; from += 10)
    others.push(...(await Promise.all(challenges.slice(from, from + 10).map(answer))))
  expect(others.filter(({ status }) => status === 200)).toHaveLength(30)
  for (const refused of others.filter(({ status }) => status !== 200)) expectError(refused, 409, 'passkey_limit')
  expect(await app.count('passkeys')).toBe(50)
  expectError(await app.tenant.post(OPTIONS, {}, { headers }), 409, 'passkey_limit')
})

test('a session that has ended adds none, and is not taken for nobody', async () => {
  const app = await newTestApp(service)
  const ada = await signUp(app.browser)
  await app.send('POST', '/auth/logout', {}, bearer(ada))
  expectError(await app.send('POST', OPTIONS, {}, bearer(ada)), 401, 'session_revoked')
  expectError(await app.send('POST', OPTIONS, {}, { authorization: 'Bearer x' }), 401, 'session_invalid')
  const asked = await app.askToRegister()
  const credential = forgeCreation(newForger(), asked.publicKey)
  expectError(await app.register(asked.challengeId, credential, bearer(ada)), 401, 'session_revoked')
  expect((await app.register(asked.challengeId, credential)).status).toBe(200)
})

test('a passkey added at once with the deletion of its user leaves nothing of either', async () => {
  const app = await newTestApp(service)
  for (let round = 0; round < 5; round += 1) {
    const userId = (await app.tenant.post('/users', {})).body.data.id
    const asked = (await app.tenant.post(OPTIONS, {}, { headers: { 'x-user-id': userId } })).body.data
    const credential = forgeCreation(newForger(), asked.publicKey)
    const [added, deleted] = await Promise.all([
      app.register(asked.challengeId, credential),
      app.tenant.delete(`/users/${userId}`),
    ])
    expect(deleted.status).toBe(200)
    expect([200, 404], added.text).toContain(added.status)
  }
  expect([await app.count('users'), await app.count('passkeys'), await app.count('sessions')]).toEqual([0, 0, 0])
})

test('registered by a secret key, a passkey is named by what the server knows of the device', async () => {
  const app = await newTestApp(service)
  const answer = await register(app.tenant, { email: 'ada@example.com' }, { deviceName: ' Zoe\u0308’s phone ' })
  expect(answer.status, answer.text).toBe(200)
  const listed = await app.send('GET', '/auth/passkeys', undefined, bearer(answer.body.data))
  expect(listed.body.data[0].name).toBe('Zo\u00eb’s phone')
  await add(app, bearer(answer.body.data))
  const [newest] = (await app.send('GET', '/auth/passkeys', undefined, bearer(answer.body.data))).body.data
  expect(newest.name).toBeNull()
})

describe('a challenge that a session asked for', () => {
  const asked = async () => {
    const app = await newTestApp(service)
    const ada = await signUp(app.browser, { email: 'ada@example.com' })
    const { challengeId, publicKey } = await app.askToRegister({}, bearer(ada))
    const complete = () => app.register(challengeId, forgeCreation(newForger(), publicKey))
    return { app, ada, complete }
  }

  test('is void once the session has ended: a thief who asked in time comes too late', async () => {
    const { app, ada, complete } = await asked()
    expect((await app.send('POST', '/auth/logout', { everywhere: true }, bearer(ada))).status).toBe(200)
    expectError(await complete(), 401, 'session_revoked')
    expect(await app.count('passkeys')).toBe(1)
  })

  test('is void for a session that has not verified the second factor which the user has by now', async () => {
    const { app, ada, complete } = await asked()
    const other = await logIn(app.browser, ada.authenticator)
    const { secret } = (await app.send('POST', '/mfa/setup', {}, bearer(other))).body.data
    const epoch = Math.floor(service.deps.now().getTime() / 1000)
    const code = await generate({ secret, epoch })
    expect((await app.send('POST', '/mfa/verify-setup', { code }, bearer(other))).status).toBe(200)
    expectError(await complete(), 403, 'mfa_required')
    expect(await app.count('passkeys')).toBe(1)
  })
})
