import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { newAuthenticator, register } from '../../../test/harness/authenticator.ts'
import { expectError } from '../../../test/harness/envelope.ts'
import { type Answer, type Service, startService, type Tenant } from '../../../test/harness/harness.ts'
import { beginDkg } from '../../keys/key-generations/key-generations.fixture.ts'
import { newSharedWallet } from '../../keys/key-shares/key-shares.fixture.ts'
import {
  exchange,
  linkBody,
  weakSession as newSession,
  newSubject,
  startIssuer,
  type TestIssuer,
  trust,
} from '../foreign-tokens/issuer.fixture.ts'
import { codeNow, enrol, stepUp } from '../mfa/mfa.fixture.ts'
import { type Person, personOf, publishableKey, signInAs } from '../sessions/sessions.fixture.ts'

let service: Service
let tenant: Tenant
let issuer: TestIssuer
let issuerId: string

beforeAll(async () => {
  service = await startService()
  tenant = await service.newTenant()
  issuer = await startIssuer(service)
  issuerId = await trust(tenant, issuer)
})
afterAll(async () => {
  await issuer.close()
  await service.stop()
})

const weakSession = (sub: string, claims?: object) => newSession(service, tenant, issuer, sub, claims)

/** Adds a passkey in this session. */
const addPasskey = (person: Person, authenticator = newAuthenticator()) =>
  register({ url: service.url, key: person.key }, {}, { authenticator, headers: person.bearer })

const ANY_NOTE = { allow: [{ templateId: 'Note:Note' }] }

/** What a weak session may not reach, each a call that would otherwise succeed or fail for another reason. */
const GATED: Record<string, (person: Person, walletId: string) => Promise<Answer>> = {
  'shares of the key': (person, id) => person.get(`/mpc/shares/${id}`),
  'deleting shares': (person, id) => person.delete(`/mpc/shares/${id}`),
  'changing wraps': (person, id) => person.call('PATCH', `/mpc/shares/${id}`, { body: { index: 2, wraps: [] } }),
  'storing a share': async (person, walletId) =>
    person.post('/mpc/shares', {
      walletId,
      index: 2,
      holder: 'device',
      scheme: 'FROST-ED25519-SHA512-v1',
      curve: 'ed25519',
      threshold: 2,
      total: 3,
      commitments: ['00'.repeat(32), '00'.repeat(32)],
      sealed: { kid: 'x', enc: 'x'.repeat(43), ct: 'x' },
    }),
  'a challenge for the recovery of the key': (person, walletId) =>
    person.post('/mpc/challenge', { walletId, purpose: 'release' }),
  'an ID token': (person) => person.post('/auth/id-token'),
  'delegated sessions': (person) => person.post('/delegated-sessions', { policy: ANY_NOTE }),
  'adding a passkey': (person) => person.post('/auth/passkey/register-options', {}),
  'removing a passkey': async (person) => {
    const [passkey] = (await person.get('/auth/passkeys')).body.data
    return person.delete(`/auth/passkeys/${passkey.id}`)
  },
  'a second factor': (person) => person.post('/mfa/setup'),
  'linking an identity': async (person) => person.post('/auth/identities', linkBody(await issuer.token())),
  'unlinking an identity': async (person) => {
    const [identity] = (await person.get('/auth/identities')).body.data
    return person.delete(`/auth/identities/${identity.id}`)
  },
}

describe('where the account has a passkey, a session by another issuer’s token does not reach', () => {
  /** An account with a passkey and a wallet, in a weak session and in a strong one. */
  async function account() {
    const sub = newSubject()
    const first = await weakSession(sub)
    const { body } = await addPasskey(first)
    const strong = personOf(service.url, first.key, first, body.data)
    const { walletId } = await newSharedWallet(service, tenant, { person: strong })
    const weak = await weakSession(sub)
    expect(weak.userId).toBe(strong.userId)
    return { weak, strong, walletId }
  }

  test.each(Object.entries(GATED))('%s', async (_, call) => {
    const { weak, strong, walletId } = await account()
    expectError(await call(weak, walletId), 403, 'stronger_sign_in_required')
    // It is the session and nothing else: the same call by the passkey's session is not refused for this.
    expect((await call(strong, walletId)).body.code).not.toBe('stronger_sign_in_required')
  })

  test('it after a refresh either, nor by an access token from before the passkey', async () => {
    const { weak, walletId } = await account()
    const refreshed = await weak.post('/auth/refresh', { refreshToken: weak.refreshToken })
    const later = personOf(service.url, weak.key, weak, refreshed.body.data)
    expectError(await later.get(`/mpc/shares/${walletId}`), 403, 'stronger_sign_in_required')
    const sub = newSubject()
    const early = await weakSession(sub)
    expect((await addPasskey(await weakSession(sub))).status).toBe(200)
    expectError(await early.post('/delegated-sessions', { policy: ANY_NOTE }), 404, 'wallet_not_found')
    expect((await early.post('/users/me/wallet', {})).status).toBe(201)
    expectError(await early.post('/delegated-sessions', { policy: ANY_NOTE }), 403, 'stronger_sign_in_required')
  })

  test('but what protects: reading, logging out, ending other sessions and delegated ones', async () => {
    const { weak, strong } = await account()
    for (const path of [
      '/users/me',
      '/users/me/wallet',
      '/auth/sessions',
      '/auth/passkeys',
      '/auth/identities',
      '/mfa/status',
    ])
      expect((await weak.get(path)).status, path).toBe(200)
    expect((await weak.delete(`/auth/sessions/${strong.sessionId}`)).status).toBe(200)
    const mine = await weakSession(newSubject())
    expect((await mine.post('/auth/logout')).status).toBe(200)
  })
})

test('an account without passkey and second factor reaches its own things, and adds the first passkey', async () => {
  const ada = await weakSession(newSubject())
  const { walletId } = await newSharedWallet(service, tenant, { person: ada })
  expect((await ada.get(`/mpc/shares/${walletId}`)).status).toBe(200)
  expect((await ada.post('/delegated-sessions', { policy: ANY_NOTE })).status).toBe(201)
  const added = await addPasskey(ada)
  expect(added.status, added.text).toBe(200)
  // From then on the old session is weak; the one that the passkey began is not.
  expectError(await ada.get(`/mpc/shares/${walletId}`), 403, 'stronger_sign_in_required')
  const strong = personOf(service.url, ada.key, ada, added.body.data)
  expect((await strong.get(`/mpc/shares/${walletId}`)).status).toBe(200)
})

test('the second factor, shown in the session, opens it for good, and is asked for again after five minutes', async () => {
  const sub = newSubject()
  const first = await weakSession(sub)
  const factor = await enrol(service, first)
  const weak = await weakSession(sub)
  const { walletId } = await newSharedWallet(service, tenant, { person: first })
  expectError(await weak.get(`/mpc/shares/${walletId}`), 403, 'stronger_sign_in_required')
  expectError(await weak.delete('/mfa'), 403, 'mfa_required')
  await stepUp(service, weak, factor)
  expect((await weak.get(`/mpc/shares/${walletId}`)).status).toBe(200)
  service.advance(6 * 60_000)
  expectError(await weak.get(`/mpc/shares/${walletId}`), 403, 'mfa_required')
  // The proof was of a factor that is gone: with a passkey left, the session is weak again.
  const byPasskey = await signInAs(service, tenant, { userId: weak.userId })
  await stepUp(service, byPasskey, factor)
  expect((await addPasskey(byPasskey)).status).toBe(200)
  expect((await byPasskey.delete('/mfa')).status).toBe(200)
  expectError(await weak.get(`/mpc/shares/${walletId}`), 403, 'stronger_sign_in_required')
})

test('what a weak session began before the account had a passkey, it does not complete after', async () => {
  const sub = newSubject()
  const [eve, ada] = [await weakSession(sub), await weakSession(sub)]
  const authenticator = newAuthenticator()
  const asked = await eve.post('/auth/passkey/register-options', {})
  const credential = authenticator.create(asked.body.data.publicKey)
  const { secret } = (await eve.post('/mfa/setup')).body.data
  const dkg = await beginDkg(eve)
  expect((await addPasskey(ada)).status).toBe(200)
  const answer = { challengeId: asked.body.data.challengeId, credential }
  expectError(await eve.post('/auth/passkey/register-verify', answer), 403, 'stronger_sign_in_required')
  const code = await codeNow(service, secret)
  expectError(await eve.post('/mfa/verify-setup', { code }), 403, 'stronger_sign_in_required')
  expectError(await eve.get(`/mpc/dkg/${dkg.dkgId}`), 403, 'stronger_sign_in_required')
  expect((await eve.get('/auth/passkeys')).body.total).toBe(1)
})

test('of two weak sessions that add the first passkey at once, one does', async () => {
  for (let round = 0; round < 3; round += 1) {
    const sub = newSubject()
    const people = [await weakSession(sub), await weakSession(sub)]
    const made = people.map(async (person) => {
      const { challengeId, publicKey } = (await person.post('/auth/passkey/register-options', {})).body.data
      return { person, body: { challengeId, credential: newAuthenticator().create(publicKey) } }
    })
    const completed = (await Promise.all(made)).map(({ person, body }) =>
      person.post('/auth/passkey/register-verify', body),
    )
    const answers = await Promise.all(completed)
    expect(answers.map(({ status }) => status).toSorted()).toEqual([200, 403])
  }
})

describe('an issuer’s second factor', () => {
  const mfaClaim = { claim: 'amr', values: ['mfa', 'otp'] }
  let strict: Tenant
  let strictIssuer: string
  beforeAll(async () => {
    strict = await service.newTenant()
    strictIssuer = await trust(strict, issuer, { mfaClaim })
    await strict.patch(`/apps/${strict.appId}`, { mfa: { policy: 'always' } })
  })

  async function session(claims: object = {}): Promise<Person> {
    const answer = await exchange(service, strict, await issuer.token({ claims: { ...claims } }))
    const { data } = answer.body
    return personOf(service.url, await publishableKey(strict), { userId: data.user.id, appId: strict.appId }, data)
  }
  const delegate = async (person: Person) => {
    await person.post('/users/me/wallet', {})
    return person.post('/delegated-sessions', { policy: ANY_NOTE })
  }

  test('counts for what needs one, for five minutes from when it was verified, and never for shares', async () => {
    const plain = await session({ amr: ['pwd'] })
    expectError(await delegate(plain), 403, 'mfa_enrollment_required')
    const ada = await session({ amr: ['pwd', 'mfa'] })
    expect((await delegate(ada)).status).toBe(201)
    const bob = await session({ amr: 'otp' })
    const { walletId } = await newSharedWallet(service, strict, { person: bob })
    expectError(await bob.get(`/mpc/shares/${walletId}`), 403, 'mfa_enrollment_required')
    const now = Math.floor(service.deps.now().getTime() / 1000)
    expectError(await delegate(await session({ amr: ['mfa'], auth_time: now - 301 })), 403, 'mfa_enrollment_required')
    expect((await delegate(await session({ amr: ['mfa'], auth_time: now + 86_400 }))).status).toBe(201)
    service.advance(6 * 60_000)
    expectError(await delegate(ada), 403, 'mfa_enrollment_required')
  })

  test('is what the issuer’s record says, and nothing that looks like it', async () => {
    for (const amr of ['mfa ', ['MFA'], { mfa: true }, true, [['mfa']], undefined])
      expectError(await delegate(await session({ amr })), 403, 'mfa_enrollment_required', JSON.stringify(amr))
    await strict.patch(`/apps/${strict.appId}/issuers/${strictIssuer}`, { mfaClaim: null })
    expectError(await delegate(await session({ amr: ['mfa'] })), 403, 'mfa_enrollment_required')
    await strict.patch(`/apps/${strict.appId}/issuers/${strictIssuer}`, { mfaClaim })
  })

  test('does not make a weak session strong', async () => {
    await tenant.patch(`/apps/${tenant.appId}/issuers/${issuerId}`, { mfaClaim })
    const sub = newSubject()
    expect((await addPasskey(await weakSession(sub))).status).toBe(200)
    const weak = await weakSession(sub, { amr: ['mfa'] })
    expectError(await weak.post('/mfa/setup'), 403, 'stronger_sign_in_required')
    expectError(await weak.post('/auth/identities', linkBody(await issuer.token())), 403, 'stronger_sign_in_required')
  })
})

test('the custody report names the issuers that could sign in, and whether that reaches the key', async () => {
  const sub = newSubject()
  const ada = await weakSession(sub)
  const { walletId } = await newSharedWallet(service, tenant, { person: ada })
  const report = async () => (await tenant.get(`/wallets/${walletId}/custody`)).body.data.canSignIn
  const byIssuer = { who: 'issuer', issuer: issuer.url, how: expect.stringContaining(issuer.url) }
  // Named once, however many of its accounts are the user's.
  expect((await ada.post('/auth/identities', linkBody(await issuer.token()))).status).toBe(201)
  expect(await report()).toEqual([{ ...byIssuer, reachesKey: true }])
  await addPasskey(ada)
  const passkey = { who: 'passkey', issuer: null, reachesKey: true, how: expect.any(String) }
  expect(await report()).toEqual([passkey, { ...byIssuer, reachesKey: false }])
})

test('a server that acts for the user is not a weak session: its own rules hold', async () => {
  const sub = newSubject()
  const ada = await weakSession(sub)
  expect((await addPasskey(ada)).status).toBe(200)
  const headers = { 'x-user-id': ada.userId }
  expect((await tenant.post('/auth/identities', linkBody(await issuer.token()), { headers })).status).toBe(201)
})
