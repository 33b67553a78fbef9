import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { newAuthenticator, register } from '../../../test/harness/authenticator.ts'
import { expectError } from '../../../test/harness/envelope.ts'
import { type Service, startService, type Tenant } from '../../../test/harness/harness.ts'
import { newId } from '../../platform/ids.ts'
import {
  exchange,
  linkBody,
  newSubject,
  refusalOf,
  startIssuer,
  type TestIssuer,
  trust,
  weakSession,
} from '../foreign-tokens/issuer.fixture.ts'
import { newShop, widget } from '../messenger/messenger.fixture.ts'
import { eventsOf, type Person, personOf, signInAs } from '../sessions/sessions.fixture.ts'

const MINUTE_MS = 60_000

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

/** Somebody who signs in by the issuer. */
const byIssuer = (sub?: string): Promise<Person> => weakSession(service, tenant, issuer, sub)

const link = async (person: Person, parts: Parameters<TestIssuer['token']>[0] = {}) =>
  person.post('/auth/identities', linkBody(await issuer.token(parts)))

const identitiesOf = async (person: Pick<Person, 'get'>) => (await person.get('/auth/identities')).body.data

describe('linking', () => {
  test('makes a token of that account sign in the user who linked it', async () => {
    const ada = await signInAs(service, tenant)
    const sub = newSubject()
    const linked = await link(ada, { claims: { sub, email: 'not-ada@example.com', email_verified: true } })
    expect(linked.status, linked.text).toBe(201)
    expect(linked.body.data).toMatchObject({ userId: ada.userId, provider: 'issuer', subject: sub })
    expect(await identitiesOf(ada)).toEqual([linked.body.data])
    expect((await tenant.get(`/users/${ada.userId}/identities`)).body).toMatchObject({
      data: [linked.body.data],
      total: 1,
    })
    expect((await byIssuer(sub)).userId).toBe(ada.userId)
    // Nothing else of the token is taken over.
    expect((await tenant.get(`/users/${ada.userId}`)).body.data).toMatchObject({ email: null, emailVerified: false })
    const event = { identityId: linked.body.data.id, userId: ada.userId, provider: 'issuer', issuer: issuer.url }
    expect(await eventsOf(service, tenant, 'identity.linked')).toContainEqual(event)
  })

  test('gives an account to one user, of many who ask for it at once', async () => {
    const people = await Promise.all(Array.from({ length: 6 }, () => signInAs(service, tenant)))
    const claims = { sub: newSubject() }
    const answers = await Promise.all(people.map((person) => link(person, { claims })))
    expect(answers.map(({ status }) => status).toSorted()).toEqual([201, 409, 409, 409, 409, 409])
    const winner = people[answers.findIndex(({ status }) => status === 201)] as Person
    expect((await byIssuer(claims.sub)).userId).toBe(winner.userId)
  })

  test('and a first sign-in by the same account at once end in one user', async () => {
    const ada = await signInAs(service, tenant)
    const sub = newSubject()
    const [linked, signedIn] = await Promise.all([link(ada, { claims: { sub } }), byIssuer(sub)])
    expect(signedIn.userId === ada.userId).toBe(linked.status === 201)
    expect((await byIssuer(sub)).userId).toBe(signedIn.userId)
  })

  test('never takes an account from the user who has it, nor says who that is', async () => {
    const sub = newSubject()
    const owner = await byIssuer(sub)
    const eve = await signInAs(service, tenant)
    const refused = await link(eve, { claims: { sub } })
    expectError(refused, 409, 'already_exists')
    expect(refused.text).not.toContain(owner.userId)
    expectError(await link(owner, { claims: { sub } }), 409, 'already_exists')
    expect((await byIssuer(sub)).userId).toBe(owner.userId)
  })

  test('uses a token up: what linked signs nobody in, and the other way round', async () => {
    const ada = await signInAs(service, tenant)
    const token = await issuer.token({ claims: { jti: newSubject() } })
    expect((await ada.post('/auth/identities', linkBody(token))).status).toBe(201)
    expect(refusalOf(await exchange(service, tenant, token))).toBe('token_used')
    const other = await issuer.token({ claims: { jti: newSubject(), sub: newSubject() } })
    expect((await exchange(service, tenant, other)).status).toBe(200)
    const stolen = await ada.post('/auth/identities', linkBody(other))
    expectError(stolen, 409, 'already_exists')
  })

  test('needs a recent sign-in, and who is signed in', async () => {
    const ada = await signInAs(service, tenant)
    service.advance(6 * MINUTE_MS)
    expectError(await link(ada), 403, 'reauthentication_required')
    const body = linkBody(await issuer.token())
    expectError(await tenant.post('/auth/identities', body), 401, 'session_missing')
    expectError(await ada.post('/auth/identities', { ...body, userId: 'usr_1' }), 400, 'validation_failed')
    // The issuer is the user's own app's, whatever the key.
    const stranger = await service.newTenant()
    const there = await signInAs(service, stranger)
    expect(refusalOf(await there.post('/auth/identities', body))).toBe('token_issuer')
  })

  test('stops at fifty identities', async () => {
    const ada = await signInAs(service, tenant)
    await service.sql(
      `insert into identities (tenant_id, app_id, provider, issuer, subject, user_id, created_at)
       select $1, $2, 'issuer', 'https://other.example.com/', 'many-' || n, $3, now() from generate_series(1, 50) n`,
      [tenant.tenantId, tenant.appId, ada.userId],
    )
    expectError(await link(ada), 409, 'identity_limit')
  })
})

describe('unlinking', () => {
  test('ends what the account could do, and keeps the sessions that there are', async () => {
    const sub = newSubject()
    const ada = await byIssuer(sub)
    expect((await link(ada)).status).toBe(201)
    const mine = (await identitiesOf(ada)).find(({ subject }: { subject: string }) => subject === sub)
    const gone = await ada.delete(`/auth/identities/${mine.id}`)
    expect([gone.status, gone.body.data]).toEqual([200, mine])
    expectError(await ada.delete(`/auth/identities/${mine.id}`), 404, 'not_found')
    expect((await ada.get('/users/me')).status).toBe(200)
    expect((await byIssuer(sub)).userId).not.toBe(ada.userId)
    const event = { identityId: mine.id, userId: ada.userId, provider: 'issuer', issuer: issuer.url }
    expect(await eventsOf(service, tenant, 'identity.unlinked')).toContainEqual(event)
  })

  test('never removes the last way in, of parallel calls either', async () => {
    const ada = await byIssuer()
    const [only] = await identitiesOf(ada)
    expectError(await ada.delete(`/auth/identities/${only.id}`), 409, 'last_sign_in_method')
    expect((await link(ada)).status).toBe(201)
    const both = await identitiesOf(ada)
    const answers = await Promise.all(both.map(({ id }: { id: string }) => ada.delete(`/auth/identities/${id}`)))
    expect(answers.map(({ status }) => status).toSorted()).toEqual([200, 409])
    expect((await identitiesOf(ada)).length).toBe(1)
  })

  test('of an identity and a passkey at once leaves one of them', async () => {
    for (let round = 0; round < 5; round += 1) {
      const sub = newSubject()
      const ada = await byIssuer(sub)
      const authenticator = newAuthenticator()
      const { body } = await register(ada, {}, { authenticator, headers: ada.bearer })
      const strong = personOf(service.url, ada.key, ada, body.data)
      const [passkey] = (await strong.get('/auth/passkeys')).body.data
      const [identity] = await identitiesOf(strong)
      const answers = await Promise.all([
        strong.delete(`/auth/passkeys/${passkey.id}`),
        strong.delete(`/auth/identities/${identity.id}`),
      ])
      expect(answers.map(({ status }) => status).toSorted()).toEqual([200, 409])
    }
  })

  test('an identity of an issuer that is not trusted any more is no way in, and can always go', async () => {
    const other = await startIssuer(service)
    const otherId = await trust(tenant, other)
    const sub = newSubject()
    const ada = await byIssuer(sub)
    const linked = await ada.post('/auth/identities', linkBody(await other.token()))
    expect(linked.status, linked.text).toBe(201)
    await tenant.delete(`/apps/${tenant.appId}/issuers/${otherId}`)
    const [dead, alive] = await identitiesOf(ada)
    expect(dead.issuer).toBe(other.url)
    expectError(await ada.delete(`/auth/identities/${alive.id}`), 409, 'last_sign_in_method')
    expect((await ada.delete(`/auth/identities/${dead.id}`)).status).toBe(200)
    await tenant.patch(`/apps/${tenant.appId}/issuers/${issuerId}`, { jit: 'refuse' })
    const { body } = await register(ada, {}, { headers: ada.bearer })
    const strong = personOf(service.url, ada.key, ada, body.data)
    const [passkey] = (await strong.get('/auth/passkeys')).body.data
    expectError(await strong.delete(`/auth/passkeys/${passkey.id}`), 409, 'last_sign_in_method')
    await tenant.patch(`/apps/${tenant.appId}/issuers/${issuerId}`, { jit: 'create' })
    expect((await strong.delete(`/auth/passkeys/${passkey.id}`)).status).toBe(200)
    await other.close()
  })

  test('needs a recent sign-in', async () => {
    const ada = await byIssuer()
    await link(ada)
    const [identity] = await identitiesOf(ada)
    service.advance(6 * MINUTE_MS)
    expectError(await ada.delete(`/auth/identities/${identity.id}`), 403, 'reauthentication_required')
  })
})

test('a messenger account is an identity too', async () => {
  const shop = await newShop(service)
  const fields = widget(shop.token, { id: 77, first_name: 'Ada', username: 'ada', auth_date: shop.date() })
  const { user } = (await shop.verify(fields)).body.data
  const headers = { 'x-user-id': user.id }
  const [identity] = (await shop.tenant.get('/auth/identities', { headers })).body.data
  expect(identity).toMatchObject({
    provider: 'telegram',
    issuer: null,
    subject: '77',
    username: 'ada',
    userId: user.id,
  })
  expectError(await shop.tenant.delete(`/auth/identities/${identity.id}`, { headers }), 409, 'last_sign_in_method')
})

test("another user's, app's or tenant's identities are the same 404 as none", async () => {
  const ada = await byIssuer()
  await link(ada)
  const [identity] = await identitiesOf(ada)
  const eve = await byIssuer()
  const stranger = await service.newTenant()
  const there = await signInAs(service, stranger)
  const none = await eve.delete(`/auth/identities/${newId('idn')}`)
  expectError(none, 404, 'not_found')
  for (const answer of [
    await eve.delete(`/auth/identities/${identity.id}`),
    await there.delete(`/auth/identities/${identity.id}`),
    await eve.delete('/auth/identities/nonsense'),
    await stranger.get(`/users/${ada.userId}/identities`),
  ])
    expect([answer.status, answer.text]).toEqual([404, none.text])
  expect((await identitiesOf(ada)).length).toBe(2)
  const key = await tenant.newKey({ scopes: ['wallets:read'] })
  expectError(await tenant.get(`/users/${ada.userId}/identities`, { key }), 403, 'insufficient_scope')
})
