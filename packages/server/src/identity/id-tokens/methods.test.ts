import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { loginOptions, newAuthenticator, ORIGIN, register } from '../../../test/harness/authenticator.ts'
import { expectError } from '../../../test/harness/envelope.ts'
import { call, type Service, startService, type Tenant } from '../../../test/harness/harness.ts'
import { weakSession as newSession, startIssuer, type TestIssuer, trust } from '../foreign-tokens/issuer.fixture.ts'
import { answerWith, codeNow, enrol } from '../mfa/mfa.fixture.ts'
import { type Person, personOf, publishableKey, signInAs } from '../sessions/sessions.fixture.ts'
import { idTokenOf, partOf } from './id-tokens.fixture.ts'

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

const weakSession = () => newSession(service, tenant, issuer)

const amrOf = async (person: Person): Promise<string[]> => partOf(await idTokenOf(person), 1).amr

/** The person with the access token that a call gave. */
const withToken = (person: Person, accessToken: string): Person =>
  personOf(service.url, person.key, person, { ...person, accessToken })

/** A guest who made themselves a user, in the session of the guest. */
async function convertedGuest(): Promise<Person> {
  const key = await publishableKey(tenant)
  const guest = (await call(service.url, 'POST', '/v1/guests', { key, body: {} })).body.data
  const converted = await call(service.url, 'POST', `/v1/guests/${guest.id}/convert`, {
    key,
    headers: { authorization: `Bearer ${guest.accessToken}` },
    body: { externalId: guest.id },
  })
  expect(converted.status, converted.text).toBe(200)
  const { data } = converted.body
  return personOf(service.url, key, { userId: data.user.id, appId: tenant.appId }, data)
}

const setAmr = (person: Person, amr: string[]) =>
  service.sql('update sessions set amr = $2 where id = $1', [person.sessionId, amr])

describe('a session by a way in that somebody else controls', () => {
  test('gets no token for an account with a passkey or a second factor, until it shows one of them', async () => {
    const ada = await weakSession()
    expect(await amrOf(ada)).toEqual(['exchange'])
    const strong = await signInAs(service, tenant, { userId: ada.userId })
    const { secret } = await enrol(service, strong)
    expectError(await ada.post('/auth/id-token'), 403, 'stronger_sign_in_required')
    const shown = await answerWith(ada, { code: await codeNow(service, secret) })
    expect(shown.status, shown.text).toBe(200)
    expect(await amrOf(withToken(ada, shown.body.data.accessToken))).toEqual(['exchange', 'otp', 'mfa'])

    const bob = await weakSession()
    await register({ url: service.url, key: bob.key }, {}, { authenticator: newAuthenticator(), headers: bob.bearer })
    expectError(await (await signInAgain(bob)).post('/auth/id-token'), 403, 'stronger_sign_in_required')
  })
})

/** Another weak session of the same account. */
async function signInAgain({ userId }: Person): Promise<Person> {
  const [identity] = await service.sql<{ subject: string }>('select subject from identities where user_id = $1', [
    userId,
  ])
  return newSession(service, tenant, issuer, identity?.subject)
}

describe('a session that began as a guest', () => {
  test('gets no token until somebody has signed in there, whatever external id the guest chose', async () => {
    const guest = await convertedGuest()
    expectError(await guest.post('/auth/id-token'), 403, 'guest_not_allowed')
    // A second factor that the guest set up shows nobody, and is no second one.
    await enrol(service, guest)
    expectError(await guest.post('/auth/id-token'), 403, 'guest_not_allowed')
    const at = { url: service.url, key: guest.key }
    const authenticator = newAuthenticator()
    const added = await register(at, {}, { authenticator, headers: guest.bearer })
    expect(added.status, added.text).toBe(200)
    const { challengeId, publicKey } = await loginOptions(at)
    const shown = await guest.post(
      '/auth/passkey/prove',
      { challengeId, credential: authenticator.get(publicKey) },
      { headers: { origin: ORIGIN } },
    )
    expect(shown.status, shown.text).toBe(200)
    expect(await amrOf(withToken(guest, shown.body.data.accessToken))).toEqual(['otp', 'mfa', 'hwk', 'user'])
  })
})

describe('a second factor that was deleted', () => {
  test('is in no later token of a session that had shown it', async () => {
    const ada = await signInAs(service, tenant)
    await enrol(service, ada)
    expect(await amrOf(ada)).toEqual(['hwk', 'user', 'otp', 'mfa'])
    const disabled = await ada.delete('/mfa')
    expect(disabled.status, disabled.text).toBe(200)
    expect(await amrOf(ada)).toEqual(['hwk', 'user'])
    const refreshed = await call(service.url, 'POST', '/v1/auth/refresh', {
      key: ada.key,
      body: { refreshToken: ada.refreshToken },
    })
    expect(partOf(refreshed.body.data.accessToken, 1).amr).toEqual(['hwk', 'user'])
    const guest = await convertedGuest()
    await enrol(service, guest)
    expect((await guest.delete('/mfa')).status).toBe(200)
    expectError(await guest.post('/auth/id-token'), 403, 'guest_not_allowed')
  })
})

describe('somebody who writes the database', () => {
  test('names no method in a token that the session did not show', async () => {
    const everything = ['hwk', 'user', 'otp', 'kba', 'mfa', 'pwd', 'email', 'exchange', 'provider', 'guest']
    const weak = await weakSession()
    await setAmr(weak, [...everything, 'messenger'])
    expect(await amrOf(weak)).toEqual(['email', 'exchange', 'provider'])
    const guest = await convertedGuest()
    await setAmr(guest, everything)
    expectError(await guest.post('/auth/id-token'), 403, 'guest_not_allowed')
    const ada = await signInAs(service, tenant)
    await setAmr(ada, everything)
    expect(await amrOf(ada)).toEqual(['hwk', 'user'])
    for (const column of ['passkey_at', 'mfa_at']) {
      await service.sql(`update sessions set ${column} = now() where id = $1`, [guest.sessionId])
      expectError(await guest.post('/auth/id-token'), 500, 'record_tampered')
    }
  })

  test('a session that the release before began with a passkey shows it once more', async () => {
    const ada = await signInAs(service, tenant)
    await service.sql('update sessions set passkey_at = null where id = $1', [ada.sessionId])
    await service.recode(tenant.tenantId)
    expectError(await ada.post('/auth/id-token'), 403, 'stronger_sign_in_required')
    await enrol(service, ada)
    expectError(await ada.post('/auth/id-token'), 403, 'stronger_sign_in_required')
  })
})
