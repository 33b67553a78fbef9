import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { expectError } from '../../../test/harness/envelope.ts'
import { call, type Service, startService } from '../../../test/harness/harness.ts'
import { bearer, newGuest } from '../../identity/guests/guests.fixture.ts'
import { enrol, MINUTE_MS, stepUp } from '../../identity/mfa/mfa.fixture.ts'
import { eventsOf, newApp, publishableKey, signInAs } from '../../identity/sessions/sessions.fixture.ts'
import { expectStatus, newHolder, newKeyHolder, signedIn } from '../delegated.fixture.ts'

let service: Service
beforeAll(async () => {
  service = await startService({ HALFKEY_ROLE: 'api' })
})
afterAll(() => service.stop())

const body = { policy: { allow: [{ templateId: 'Token:Holding' }] } }

describe('a user who creates a session', () => {
  test('without a second factor signed in at most five minutes ago', async () => {
    const tenant = await service.newTenant()
    const { person } = await signedIn(service, tenant)
    service.advance(5 * MINUTE_MS - 30_000)
    expectStatus(await person.post('/delegated-sessions', body), 201)
    service.advance(31_000)
    expectError(await person.post('/delegated-sessions', body), 403, 'reauthentication_required')
    expect((await tenant.get('/delegated-sessions')).body.total).toBe(1)
    const again = await signInAs(service, tenant, { userId: person.userId })
    expectStatus(await again.post('/delegated-sessions', body), 201)
  })

  test('with a second factor verified it at most five minutes ago, in that session', async () => {
    const tenant = await service.newTenant()
    const { person } = await signedIn(service, tenant)
    const factor = await enrol(service, person)
    service.advance(5 * MINUTE_MS + 1000)
    expectError(await person.post('/delegated-sessions', body), 403, 'mfa_required')
    const fresh = await signInAs(service, tenant, { userId: person.userId })
    expectError(await fresh.post('/delegated-sessions', body), 403, 'mfa_required')
    await stepUp(service, person, factor)
    expectError(await fresh.post('/delegated-sessions', body), 403, 'mfa_required')
    expectStatus(await person.post('/delegated-sessions', body), 201)
    expect((await tenant.get('/delegated-sessions')).body.total).toBe(1)
  })

  test('meets a policy that wants a second factor of everybody', async () => {
    const tenant = await service.newTenant()
    await tenant.patch(`/apps/${tenant.appId}`, { mfa: { policy: 'always' } })
    const { person } = await signedIn(service, tenant)
    expectError(await person.post('/delegated-sessions', body), 403, 'mfa_enrollment_required')
    await enrol(service, person)
    expectStatus(await person.post('/delegated-sessions', body), 201)
  })

  test('learns that the wallet is missing before being asked for a factor, and that it is frozen after', async () => {
    const tenant = await service.newTenant()
    const bare = await signInAs(service, tenant)
    const ada = await signedIn(service, tenant)
    await tenant.post(`/wallets/${ada.walletId}/freeze`)
    service.advance(6 * MINUTE_MS)
    expectError(await bare.post('/delegated-sessions', body), 404, 'wallet_not_found')
    expectError(await ada.person.post('/delegated-sessions', body), 403, 'reauthentication_required')
  })

  test('is not one who was suspended or deleted, or whose session was ended', async () => {
    const tenant = await service.newTenant()
    const [ada, eve, bob] = [
      await signedIn(service, tenant),
      await signedIn(service, tenant),
      await signedIn(service, tenant),
    ]
    await tenant.patch(`/users/${ada.userId}`, { status: 'suspended' })
    expectError(await ada.person.post('/delegated-sessions', body), 403, 'user_suspended')
    expectError(await tenant.post('/delegated-sessions', body, ada.asUser), 403, 'user_suspended')
    await tenant.delete(`/users/${eve.userId}`)
    expectError(await tenant.post('/delegated-sessions', body, eve.asUser), 404, 'not_found')
    expect((await eve.person.post('/delegated-sessions', body)).status).toBeGreaterThanOrEqual(400)
    await bob.person.post('/auth/logout')
    expectError(await bob.person.post('/delegated-sessions', body), 401, 'session_revoked')
    expect((await tenant.get('/delegated-sessions')).body.total).toBe(0)
  })

  test('keeps execution to the token unless a server is allowed in so many words', async () => {
    const tenant = await service.newTenant()
    const ada = await signedIn(service, tenant)
    const made = async (more: object, by = ada.person.post) =>
      expectStatus(await by('/delegated-sessions', { ...body, ...more }), 201).serverExecute
    expect(await made({})).toBe(false)
    expect(await made({ serverExecute: true })).toBe(true)
    const server = (path: string, input: unknown) => tenant.post(path, input, ada.asUser)
    expect(await made({}, server as never)).toBe(true)
    expect(await made({ serverExecute: false }, server as never)).toBe(false)
  })
})

describe('a server that creates one in the name of a user', () => {
  test('is not asked for a second factor, unless the app says so', async () => {
    const tenant = await service.newTenant()
    const { person, asUser } = await signedIn(service, tenant)
    await enrol(service, person)
    service.advance(6 * MINUTE_MS)
    expectStatus(await tenant.post('/delegated-sessions', body, asUser), 201)
    await tenant.patch(`/apps/${tenant.appId}`, { mfa: { enforceForServer: true } })
    expectError(await tenant.post('/delegated-sessions', body, asUser), 403, 'mfa_required')
  })

  test('needs a user of its own app and tenant', async () => {
    const tenant = await service.newTenant()
    const ada = await newHolder(tenant)
    const other = await newApp(tenant)
    const bound = await tenant.newKey({ scopes: ['*'], appId: other })
    const refused = await tenant.post('/delegated-sessions', body, { ...ada.asUser, key: bound })
    expectError(refused, 404, 'not_found')
    expect(refused.body.details[0].field).toBe('x-user-id')
    const stranger = await service.newTenant()
    expect((await stranger.post('/delegated-sessions', body, ada.asUser)).text).toBe(refused.text)
    expectError(await tenant.post('/delegated-sessions', body), 401, 'session_missing')
  })
})

describe('the wallet', () => {
  test("that is another user's, app's or tenant's is answered like none, by the field's name", async () => {
    const tenant = await service.newTenant()
    const [ada, eve] = [await newHolder(tenant), await newHolder(tenant)]
    const theirs = await newHolder(await service.newTenant())
    const appId = await newApp(tenant)
    const foreign = await newHolder(tenant, { appId })
    const answers = new Set<string>()
    const wallets = [
      eve.walletId,
      theirs.walletId,
      foreign.walletId,
      'wal_01jb2m7x9kq4t8v6w0r3s5y1zn',
      '',
      '*',
      ada.userId,
    ]
    for (const walletId of wallets) {
      const answer = await tenant.post('/delegated-sessions', { ...body, walletId }, ada.asUser)
      expectError(answer, 404, 'not_found', walletId)
      expect(answer.body.details[0].field).toBe('walletId')
      answers.add(answer.text)
    }
    expect(answers.size).toBe(1)
    expectStatus(await tenant.post('/delegated-sessions', { ...body, walletId: ada.walletId }, ada.asUser), 201)
  })

  test('is needed: a user without one has 404 wallet_not_found, and a given id is still a wrong field', async () => {
    const tenant = await service.newTenant()
    const asUser = { headers: { 'x-user-id': await tenant.userId() } }
    expectError(await tenant.post('/delegated-sessions', body, asUser), 404, 'wallet_not_found')
    const walletId = (await newHolder(tenant)).walletId
    const answer = await tenant.post('/delegated-sessions', { ...body, walletId }, asUser)
    expectError(answer, 404, 'not_found')
    expect(answer.body.details[0].field).toBe('walletId')
  })

  test('that is frozen gets no session until it is unfrozen', async () => {
    const tenant = await service.newTenant()
    const ada = await newHolder(tenant)
    await tenant.post(`/wallets/${ada.walletId}/freeze`)
    expectError(await tenant.post('/delegated-sessions', body, ada.asUser), 409, 'wallet_frozen')
    expect(await eventsOf(service, tenant, 'delegated_session.created')).toEqual([])
    await tenant.post(`/wallets/${ada.walletId}/unfreeze`)
    expectStatus(await tenant.post('/delegated-sessions', body, ada.asUser), 201)
  })

  test("whose key is the user's own gets none from a server, unless the app lets servers", async () => {
    const tenant = await service.newTenant()
    const ada = await newKeyHolder(service, tenant)
    expectError(await tenant.post('/delegated-sessions', body, ada.asUser), 403, 'user_session_required')
    await tenant.patch(`/apps/${tenant.appId}`, { mpc: { allowServer: true } })
    const made = expectStatus(await tenant.post('/delegated-sessions', body, ada.asUser), 201)
    expect(made.serverExecute).toBe(false)
    await tenant.patch(`/apps/${tenant.appId}`, { mpc: { allowServer: false } })
    expectError(await tenant.post('/delegated-sessions', body, ada.asUser), 403, 'user_session_required')
  })

  test("whose key is the user's own cannot be used by a session alone, whoever asks for that", async () => {
    const tenant = await service.newTenant()
    await tenant.patch(`/apps/${tenant.appId}`, { mpc: { allowServer: true } })
    const ada = await newKeyHolder(service, tenant)
    const alone = { ...body, serverExecute: true }
    expectError(await ada.person.post('/delegated-sessions', alone), 409, 'custody_not_delegable')
    expectError(await tenant.post('/delegated-sessions', alone, ada.asUser), 409, 'custody_not_delegable')
    expectStatus(await ada.person.post('/delegated-sessions', { ...body, serverExecute: false }), 201)
    expectStatus(await ada.person.post('/delegated-sessions', body), 201)
  })
})

test('a guest may create one, as long as the guest lasts', async () => {
  const tenant = await service.newTenant()
  const key = await publishableKey(tenant)
  const guest = await newGuest(tenant, { ttlMinutes: 10 }, key)
  const options = { key, headers: bearer(guest) }
  const post = (path: string, input: unknown) => call(service.url, 'POST', `/v1${path}`, { ...options, body: input })
  expectStatus(await post('/users/me/wallet', {}), 201)
  const made = expectStatus(await post('/delegated-sessions', body), 201)
  expect(made.userId).toBe(guest.userId)
  await tenant.delete(`/guests/${guest.id}`)
  expectError(await post('/delegated-sessions', body), 410, 'guest_expired')
})

test('the token is of no use where an access token is asked for', async () => {
  const tenant = await service.newTenant()
  const { person } = await signedIn(service, tenant)
  const { token } = expectStatus(await person.post('/delegated-sessions', body), 201)
  const headers = { authorization: `Bearer ${token}` }
  for (const [method, path] of [
    ['POST', '/delegated-sessions'],
    ['GET', '/users/me/wallet'],
    ['POST', '/auth/logout'],
  ] as const) {
    const input = path === '/delegated-sessions' ? { body } : method === 'POST' ? { body: {} } : {}
    for (const key of [person.key, tenant.key])
      expectError(
        await call(service.url, method, `/v1${path}`, { key, headers, ...input }),
        401,
        'session_invalid',
        path,
      )
  }
})
