import { decodeJwt } from 'jose'
import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  type Authenticator,
  loginOptions,
  loginVerify,
  newAuthenticator,
  ORIGIN,
  register,
  signUp,
} from '../../../test/harness/authenticator.ts'
import { expectError } from '../../../test/harness/envelope.ts'
import { type Answer, type Service, startService, type Tenant } from '../../../test/harness/harness.ts'
import {
  linkBody,
  newSubject,
  startIssuer,
  type TestIssuer,
  trust,
  weakSession,
} from '../foreign-tokens/issuer.fixture.ts'
import { enrol, stepUp } from '../mfa/mfa.fixture.ts'
import { newApp, type Person, personOf, publishableKey } from '../sessions/sessions.fixture.ts'

const MINUTE_MS = 60_000

let service: Service
let tenant: Tenant
let issuer: TestIssuer
beforeAll(async () => {
  service = await startService()
  tenant = await service.newTenant()
  issuer = await startIssuer(service)
  await trust(tenant, issuer)
})
afterAll(async () => {
  await issuer.close()
  await service.stop()
})

const browser = (person: Person) => ({ url: service.url, key: person.key })

/** An account of the issuer's with a passkey, in a weak session. */
async function account(): Promise<{ weak: Person; authenticator: Authenticator; sub: string }> {
  const sub = newSubject()
  const authenticator = newAuthenticator()
  const first = await weakSession(service, tenant, issuer, sub)
  expect((await register(browser(first), {}, { authenticator, headers: first.bearer })).status).toBe(200)
  return { weak: await weakSession(service, tenant, issuer, sub), authenticator, sub }
}

async function answerOf(person: Person, authenticator: Authenticator) {
  const { challengeId, publicKey } = await loginOptions(browser(person))
  return { challengeId, credential: authenticator.get(publicKey) }
}

const prove = (person: Person, body: object): Promise<Answer> =>
  person.post('/auth/passkey/prove', body, { headers: { origin: ORIGIN } })

/** The tokens that the session has next. */
async function refreshed(person: Person): Promise<Person> {
  const answer = await person.post('/auth/refresh', { refreshToken: person.refreshToken })
  expect(answer.status, answer.text).toBe(200)
  return answer.body.data
}

const link = async (person: Person) => person.post('/auth/identities', linkBody(await issuer.token()))

test('a passkey that is shown opens a weak session, this one and no other, also after a refresh', async () => {
  const { weak, authenticator, sub } = await account()
  expectError(await link(weak), 403, 'stronger_sign_in_required')
  const proven = await prove(weak, await answerOf(weak, authenticator))
  expect(proven.status, proven.text).toBe(200)
  expect(proven.headers.get('cache-control')).toBe('no-store')
  expect(proven.body.data).toEqual({ accessToken: expect.any(String), expiresInSeconds: 900 })
  const strong = personOf(service.url, weak.key, weak, { ...weak, ...proven.body.data })
  const [session] = (await strong.get('/auth/sessions')).body.data
  expect([session.id, session.current, session.methods.toSorted()]).toEqual([
    weak.sessionId,
    true,
    ['exchange', 'hwk', 'user'],
  ])
  expect((await link(strong)).status).toBe(201)
  const refreshed = await strong.post('/auth/refresh', { refreshToken: weak.refreshToken })
  expect((await link(personOf(service.url, weak.key, weak, refreshed.body.data))).status).toBe(201)
  const other = await weakSession(service, tenant, issuer, sub)
  expectError(await link(other), 403, 'stronger_sign_in_required')
})

test('it counts as a sign-in for five minutes', async () => {
  const { weak, authenticator } = await account()
  service.advance(6 * MINUTE_MS)
  await prove(weak, await answerOf(weak, authenticator))
  expect((await link(weak)).status).toBe(201)
  service.advance(6 * MINUTE_MS)
  expectError(await link(weak), 403, 'reauthentication_required')
})

test('it is no second factor', async () => {
  const { weak, authenticator } = await account()
  await prove(weak, await answerOf(weak, authenticator))
  const factor = await enrol(service, weak)
  service.advance(6 * MINUTE_MS)
  await prove(weak, await answerOf(weak, authenticator))
  expectError(await link(weak), 403, 'mfa_required')
  await stepUp(service, weak, factor)
  expect((await link(weak)).status).toBe(201)
})

test('an answer counts once, of many at once too, and not as a sign-in besides', async () => {
  const { weak, authenticator } = await account()
  const answer = await answerOf(weak, authenticator)
  const answers = await Promise.all(Array.from({ length: 6 }, () => prove(weak, answer)))
  expect(answers.filter(({ status }) => status === 200).length).toBe(1)
  for (const one of answers.filter(({ status }) => status !== 200)) expectError(one, 410, 'challenge_expired')
  expectError(await loginVerify(browser(weak), answer.challengeId, answer.credential), 410, 'challenge_expired')
})

test('a removed passkey is shown no more: by no session of its user, and every one of other users', async () => {
  const { weak, authenticator, sub } = await account()
  const other = await account()
  const second = newAuthenticator()
  const proven = async (person: Person, by: Authenticator) => {
    const answer = await prove(person, await answerOf(person, by))
    expect(answer.status, answer.text).toBe(200)
    return personOf(service.url, person.key, person, { ...person, ...answer.body.data })
  }
  const [ada, bob] = [await proven(weak, authenticator), await proven(other.weak, other.authenticator)]
  const added = await register(browser(ada), {}, { authenticator: second, headers: ada.bearer })
  expect(added.status, added.text).toBe(200)
  const strong = personOf(service.url, ada.key, { userId: ada.userId, appId: ada.appId }, added.body.data)
  const elsewhere = await weakSession(service, tenant, issuer, sub)
  await proven(elsewhere, second)
  const amr = async (person: Person) => decodeJwt((await refreshed(person)).accessToken).amr
  expect((await strong.post('/auth/id-token')).status).toBe(200)

  const { data } = (await strong.get('/auth/passkeys')).body
  const removed = await strong.delete(`/auth/passkeys/${data[1].id}`)
  expect(removed.status, removed.text).toBe(200)
  for (const session of [ada, elsewhere]) {
    expectError(await link(session), 403, 'stronger_sign_in_required')
    expectError(await session.post('/auth/id-token'), 403, 'stronger_sign_in_required')
    expect(await amr(session)).toEqual(['exchange'])
  }
  // Nor does the one that removed it say which passkey it began with.
  expectError(await strong.post('/auth/id-token'), 403, 'stronger_sign_in_required')
  expect(await amr(strong)).toEqual([])
  const { data: shown } = (await strong.get('/auth/sessions')).body
  for (const { methods } of shown) for (const method of methods) expect(['hwk', 'user']).not.toContain(method)
  expect((await link(bob)).status).toBe(201)
  expect(await amr(bob)).toEqual(['exchange', 'hwk', 'user'])
  // The one that is left opens them again.
  expect((await link(await proven(elsewhere, second))).status).toBe(201)
  expect((await (await proven(strong, second)).post('/auth/id-token')).status).toBe(200)
  expectError(await prove(ada, await answerOf(ada, authenticator)), 401, 'assertion_invalid')
})

test('another user’s passkey, another app’s challenge and a spoilt answer prove nothing', async () => {
  const { weak, authenticator } = await account()
  const eve = newAuthenticator()
  await signUp(browser(weak), {}, { authenticator: eve })
  expectError(await prove(weak, await answerOf(weak, eve)), 401, 'assertion_invalid')
  const spoilt = await answerOf(weak, authenticator)
  spoilt.credential.response.signature = `${spoilt.credential.response.signature.slice(0, -6)}AAAAAA`
  expectError(await prove(weak, spoilt), 401, 'assertion_invalid')
  // Used up by the wrong answer.
  expectError(await prove(weak, spoilt), 410, 'challenge_expired')
  const key = await publishableKey(tenant, await newApp(tenant))
  const elsewhere = await loginOptions({ url: service.url, key })
  const credential = authenticator.get(elsewhere.publicKey)
  expectError(await prove(weak, { challengeId: elsewhere.challengeId, credential }), 404, 'not_found')
  const byTenantKey = { challengeId: elsewhere.challengeId, credential }
  const answer = await tenant.post('/auth/passkey/prove', byTenantKey, { headers: weak.bearer })
  expectError(answer, 404, 'not_found')
  expectError(await link(weak), 403, 'stronger_sign_in_required')
})

test('a session that has ended, and a server that acts for the user, prove nothing', async () => {
  const { weak, authenticator } = await account()
  const answer = await answerOf(weak, authenticator)
  const headers = { 'x-user-id': weak.userId }
  expectError(await tenant.post('/auth/passkey/prove', answer, { headers }), 401, 'session_missing')
  await weak.post('/auth/logout')
  expectError(await prove(weak, answer), 401, 'session_revoked')
})
