import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { expectError, expectRefusal } from '../../../test/harness/envelope.ts'
import { type Answer, eventually, type Service, startService, type Tenant } from '../../../test/harness/harness.ts'
import { recode } from '../../../test/harness/recode.ts'
import { newGuest, statusCounts } from '../../identity/guests/guests.fixture.ts'
import { eventsOf, newApp, type Person, publishableKey, signInAs } from '../../identity/sessions/sessions.fixture.ts'
import { sql } from '../../platform/db/db.ts'
import { keyFingerprint } from '../../platform/ports/party.ts'
import { newWallet, newWalletKey, proven } from './wallets.fixture.ts'

const UNKNOWN = 'wal_01jb2m7x9kq4t8v6w0r3s5y1zc'
const UNKNOWN_USER = 'usr_01jb2m7x9kq4t8v6w0r3s5y1za'

let service: Service
beforeAll(async () => {
  service = await startService({ HALFKEY_ROLE: 'api' })
})
afterAll(() => service.stop())

async function newPerson(): Promise<{ tenant: Tenant; person: Person }> {
  const tenant = await service.newTenant()
  return { tenant, person: await signInAs(service, tenant) }
}

/** A server that acts for a user. */
const server = (tenant: Tenant, userId: string) => ({
  post: (path: string, body?: unknown) => tenant.post(path, body, { headers: { 'x-user-id': userId } }),
  get: (path: string) => tenant.get(path, { headers: { 'x-user-id': userId } }),
})

async function newUser(tenant: Tenant, body: object = {}): Promise<string> {
  const answer = await tenant.post('/users', body)
  expect(answer.status, answer.text).toBe(201)
  return answer.body.data.id
}

const rows = (tenant: Tenant) => service.sql('select * from wallets where tenant_id = $1', [tenant.tenantId])

describe('an embedded wallet', () => {
  test("nothing is required: the party is the user's own, the key the ledger node's, and it is ready at once", async () => {
    const { tenant, person } = await newPerson()
    const answer = await person.post('/users/me/wallet')
    expect(answer.status, answer.text).toBe(201)
    const user = (await tenant.get(`/users/${person.userId}`)).body.data
    const [node] = await service.sql<{ key: Buffer }>('select node_public_key as key from tenants where id = $1', [
      tenant.tenantId,
    ])
    const publicKey = node?.key.toString('hex') as string
    expect(answer.body.data).toEqual({
      id: expect.stringMatching(/^wal_[0-9a-hjkmnp-tv-z]{26}$/),
      appId: tenant.appId,
      userId: person.userId,
      ledger: 'embedded',
      custody: 'embedded',
      partyId: user.partyId,
      address: null,
      publicKey,
      curve: 'ed25519',
      threshold: null,
      total: null,
      generation: null,
      keyOrigin: null,
      exportedAt: null,
      mpcEnabled: false,
      status: 'ready',
      createdAt: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
      updatedAt: answer.body.data.createdAt,
    })
    expect(user.partyId).toBe(`${person.userId}::${keyFingerprint(Buffer.from(publicKey, 'hex'))}`)
    expect(user.trustLevel).toBe('embedded')
    const { id: walletId, userId } = answer.body.data
    expect(await eventsOf(service, tenant, 'wallet.created')).toEqual([
      { walletId, userId, custody: 'embedded', ledger: 'embedded' },
    ])
    expect(await eventsOf(service, tenant, 'wallet.ready')).toEqual([{ walletId, userId }])
    const told = await service.sql<{ type: string; app_id: string; actor: string }>(
      `select type, app_id, context->>'actor' as actor from events where tenant_id = $1 and type like 'wallet.%' order by id`,
      [tenant.tenantId],
    )
    expect(told.map((event) => event.type)).toEqual(['wallet.created', 'wallet.ready'])
    for (const { app_id, actor } of told) {
      expect(app_id).toBe(tenant.appId)
      expect(actor).toBe(userId)
    }
  })

  test('what is the default can be said', async () => {
    const { person } = await newPerson()
    const wallet = await newWallet(person, { custody: 'embedded', ledger: 'embedded' })
    expect(wallet).toMatchObject({ custody: 'embedded', ledger: 'embedded', status: 'ready' })
  })

  test('a server creates and reads it in the name of a user', async () => {
    const tenant = await service.newTenant()
    const userId = await newUser(tenant)
    const wallet = await newWallet(server(tenant, userId))
    expect(wallet.userId).toBe(userId)
    expect((await server(tenant, userId).get('/users/me/wallet')).body.data).toEqual(wallet)
  })

  test('what proves a key is refused, and names each field', async () => {
    const { tenant, person } = await newPerson()
    const proof = await proven(person, newWalletKey())
    for (const custody of [undefined, 'embedded']) {
      const answer = await person.post('/users/me/wallet', { ...proof, custody })
      const details = expectRefusal(answer, 'validation_failed')
      expect(details.map((detail) => detail.field)).toEqual(['publicKey', 'challengeId', 'proof'])
    }
    const [detail] = expectRefusal(
      await person.post('/users/me/wallet', { challengeId: proof.challengeId }),
      'validation_failed',
    )
    expect(detail.field).toBe('challengeId')
    expect(await rows(tenant)).toEqual([])
  })
})

describe('what is not offered', () => {
  test('another custody than the three is refused by name', async () => {
    const { tenant, person } = await newPerson()
    for (const custody of ['mpc', 'Embedded', '', null, 7, ['embedded']])
      expect(expectRefusal(await person.post('/users/me/wallet', { custody }), 'validation_failed')[0].field).toBe(
        'custody',
      )
    expect(await rows(tenant)).toEqual([])
  })

  test('a ledger that does not run is refused by name, at every call that takes one', async () => {
    const { tenant, person } = await newPerson()
    const key = newWalletKey()
    for (const ledger of ['canton', '__proto__', 'constructor', 'toString', 'EMBEDDED', 'x'.repeat(64)]) {
      for (const answer of [
        await person.post('/users/me/wallet', { ledger }),
        await person.post('/users/me/wallet', { ...(await proven(person, key)), ledger }),
        await person.post('/users/me/wallet/challenge', {
          custody: 'self_custody',
          publicKey: key.publicKey,
          ledger,
        }),
        await tenant.get(`/wallets?ledger=${ledger}`),
      ])
        expect(expectRefusal(answer, 'validation_failed', ledger)[0].field).toBe('ledger')
    }
    expect(expectRefusal(await person.post('/users/me/wallet', { ledger: '' }), 'validation_failed')[0].field).toBe(
      'ledger',
    )
    expect(await rows(tenant)).toEqual([])
  })
})

describe('one wallet a user', () => {
  test('a second is refused, of whatever custody, and nothing of it is told', async () => {
    const { tenant, person } = await newPerson()
    const key = newWalletKey()
    const proof = await proven(person, key)
    const wallet = await newWallet(person)
    for (const body of [{}, { custody: 'embedded' }, proof])
      expectError(await person.post('/users/me/wallet', body), 409, 'wallet_exists')
    expectError(await server(tenant, person.userId).post('/users/me/wallet'), 409, 'wallet_exists')
    expect((await person.get('/users/me/wallet')).body.data).toEqual(wallet)
    expect((await tenant.get(`/users/${person.userId}`)).body.data.trustLevel).toBe('embedded')
    expect(await eventsOf(service, tenant, 'wallet.created')).toHaveLength(1)
  })

  test('of twenty calls at once one creates it, and it is told of once', async () => {
    const { tenant, person } = await newPerson()
    const acting = server(tenant, person.userId)
    const answers = await Promise.all(
      Array.from({ length: 20 }, (_, i) => (i % 2 === 0 ? person : acting).post('/users/me/wallet')),
    )
    expect(statusCounts(answers)).toEqual({ 201: 1, '409 wallet_exists': 19 })
    expect(await rows(tenant)).toHaveLength(1)
    expect(await eventsOf(service, tenant, 'wallet.created')).toHaveLength(1)
    expect(await eventsOf(service, tenant, 'wallet.ready')).toHaveLength(1)
  })

  test('of twenty calls at once with both custodies one creates it, and the trust level is that of the wallet', async () => {
    const { tenant, person } = await newPerson()
    const proofs = await Promise.all(Array.from({ length: 10 }, () => proven(person, newWalletKey())))
    const answers = await Promise.all(
      [...proofs, ...proofs.map(() => ({}))].map((body) => person.post('/users/me/wallet', body)),
    )
    expect(statusCounts(answers)).toEqual({ 201: 1, '409 wallet_exists': 19 })
    const [made] = answers.filter((answer) => answer.status === 201)
    const wallet = made?.body.data
    const { custody } = wallet
    expect((await person.get('/users/me/wallet')).body.data).toEqual(wallet)
    expect((await tenant.get(`/users/${person.userId}`)).body.data.trustLevel).toBe(custody)
    expect((await tenant.get(`/users?trust_level=${custody}`)).body.total).toBe(1)
    expect((await tenant.get('/users')).body.total).toBe(1)
    expect(await eventsOf(service, tenant, 'wallet.created')).toHaveLength(1)
  })

  test('under one Idempotency-Key all get the same answer', async () => {
    const { tenant, person } = await newPerson()
    const headers = { 'idempotency-key': 'wallet-1' }
    const ask = () => person.post('/users/me/wallet', {}, { headers })
    const answers = await Promise.all(Array.from({ length: 20 }, ask))
    const others = Object.keys(statusCounts(answers)).filter(
      (name) => !['201', '409 idempotency_in_progress'].includes(name),
    )
    expect(others).toEqual([])
    const again = await ask()
    expect(again.status).toBe(201)
    expect(again.headers.get('idempotency-replayed')).toBe('true')
    expect(again.text).toBe(answers.find((answer) => answer.status === 201)?.text)
    expect(await rows(tenant)).toHaveLength(1)
    expect(await eventsOf(service, tenant, 'wallet.created')).toHaveLength(1)
  })
})

describe('who cannot have one', () => {
  test('somebody suspended, logged out, or a guest that has ended', async () => {
    const { tenant, person } = await newPerson()
    const body = { custody: 'self_custody', publicKey: newWalletKey().publicKey }
    const all = async (who: Pick<Person, 'get' | 'post'>, status: number, code: string) => {
      expectError(await who.post('/users/me/wallet'), status, code)
      expectError(await who.post('/users/me/wallet/challenge', body), status, code)
      expectError(await who.get('/users/me/wallet'), status, code)
    }
    const guest = await newGuest(tenant, { ttlMinutes: 5 })
    await tenant.delete(`/guests/${guest.id}`)
    const over = await newGuest(tenant, { ttlMinutes: 1 })
    service.advance(60_000)
    await all(server(tenant, guest.userId), 410, 'guest_expired')
    await all(server(tenant, over.userId), 410, 'guest_expired')
    await tenant.patch(`/users/${person.userId}`, { status: 'suspended' })
    await all(person, 403, 'user_suspended')
    await all(server(tenant, person.userId), 403, 'user_suspended')
    const other = await signInAs(service, tenant)
    await other.post('/auth/logout', {})
    await all(other, 401, 'session_revoked')
    expect(await rows(tenant)).toEqual([])
  })

  test('a user who is deleted meanwhile: nothing is left of either', async () => {
    const tenant = await service.newTenant()
    const people = await Promise.all(Array.from({ length: 20 }, () => signInAs(service, tenant)))
    const outcomes = await Promise.all(
      people.map(async (person, i) => {
        const body = i % 2 === 0 ? await proven(person, newWalletKey()) : {}
        const acting = i % 4 === 1 ? server(tenant, person.userId) : person
        const [made, gone] = await Promise.all([
          acting.post('/users/me/wallet', body),
          tenant.delete(`/users/${person.userId}`),
        ])
        expect(gone.status, gone.text).toBe(200)
        return made
      }),
    )
    for (const name of Object.keys(statusCounts(outcomes)))
      expect(['201', '401 session_revoked', '404 not_found']).toContain(name)
    expect(await rows(tenant)).toEqual([])
    for (const level of ['embedded', 'self_custody'])
      expect((await tenant.get(`/users?trust_level=${level}`)).body.total, level).toBe(0)
    expect((await tenant.get('/wallets')).body).toMatchObject({ data: [], total: 0 })
  })

  test('a user who is suspended between the check of the token and the creation', async () => {
    const { tenant, person } = await newPerson()
    const bodies = [{}, await proven(person, newWalletKey())]
    const waiting = () =>
      service.sql(
        `select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock' and query ~ 'from users'`,
      )
    let creating: Promise<Answer>[] = []
    await service.deps.db.tx(async (tx) => {
      await tx.run(
        sql`update users set status = 'suspended' where tenant_id = ${tenant.tenantId} and id = ${person.userId}`,
      )
      await recode({ db: tx }, tenant.tenantId)
      creating = bodies.map((body) => person.post('/users/me/wallet', body))
      await eventually('the creations wait', async () => {
        // The server ends a transaction that is idle for five seconds.
        await tx.run(sql`select 1`)
        return (await waiting()).length === bodies.length
      })
    })
    for (const answer of await Promise.all(creating)) expectError(answer, 403, 'user_suspended')
    expect(await rows(tenant)).toEqual([])
  })
})

describe('reading', () => {
  test('who has no wallet is told so; a server reads it by user, be that a guest', async () => {
    const { tenant, person } = await newPerson()
    const guest = await newGuest(tenant)
    expectError(await person.get('/users/me/wallet'), 404, 'wallet_not_found')
    for (const id of [person.userId, guest.userId])
      expectError(await tenant.get(`/users/${id}/wallet`), 404, 'wallet_not_found')
    const wallet = await newWallet(person)
    const theirs = await newWallet(server(tenant, guest.userId))
    expect((await person.get('/users/me/wallet')).body.data).toEqual(wallet)
    expect((await tenant.get(`/users/${person.userId}/wallet`)).body.data).toEqual(wallet)
    expect((await tenant.get(`/users/${guest.userId}/wallet`)).body.data).toEqual(theirs)
    expect((await tenant.get(`/wallets/${wallet.id}`)).body.data).toEqual(wallet)
  })

  test("another tenant's and another app's are not there, the same as none", async () => {
    const { tenant, person } = await newPerson()
    const wallet = await newWallet(person)
    const stranger = await service.newTenant()
    const bound = await tenant.newKey({ scopes: ['*'], appId: await newApp(tenant) })
    for (const [who, key] of [
      [stranger, stranger.key],
      [tenant, bound],
    ] as const) {
      for (const [method, path, none] of [
        ['GET', `/wallets/${wallet.id}`, `/wallets/${UNKNOWN}`],
        ['POST', `/wallets/${wallet.id}/freeze`, `/wallets/${UNKNOWN}/freeze`],
        ['POST', `/wallets/${wallet.id}/unfreeze`, `/wallets/${UNKNOWN}/unfreeze`],
        ['GET', `/users/${person.userId}/wallet`, `/users/${UNKNOWN_USER}/wallet`],
      ] as const) {
        const answer = await who.call(method, path, { key })
        expectError(answer, 404, 'not_found', path)
        expect(answer.text).toBe((await tenant.call(method, none)).text)
      }
      expect((await who.get('/wallets', { key })).body).toMatchObject({ data: [], total: 0 })
      const byUser = await who.get(`/wallets?user_id=${person.userId}`, { key })
      expectError(byUser, 404, 'not_found')
      expect(byUser.body.details[0].field).toBe('user_id')
      const acting = await who.post('/users/me/wallet', {}, { key, headers: { 'x-user-id': person.userId } })
      expectError(acting, 404, 'not_found')
    }
    expect((await tenant.get(`/wallets/${wallet.id}`)).body.data).toEqual(wallet)
  })

  test('the list shows each wallet once, newest first, and every filter counts exactly', async () => {
    const tenant = await service.newTenant()
    const appId = await newApp(tenant)
    const here = await Promise.all(Array.from({ length: 3 }, () => signInAs(service, tenant)))
    const there = await signInAs(service, tenant, { appId })
    const guest = await newGuest(tenant)
    const wallets: Answer['body'][] = []
    for (const [i, person] of [...here, there].entries())
      wallets.push(await newWallet(person, i === 1 ? await proven(person, newWalletKey()) : {}))
    wallets.push(await newWallet(server(tenant, guest.userId)))
    const frozen = (await tenant.post(`/wallets/${wallets[0].id}/freeze`)).body.data
    wallets[0] = frozen
    await service.sql(`update wallets set status = 'pending' where id = $1`, [wallets[2].id])
    await service.recode()
    wallets[2] = { ...wallets[2], status: 'pending' }
    const newest = wallets.toReversed()
    const all = await tenant.get('/wallets')
    expect(all.body).toEqual({ data: newest, total: 5, page: 1, pageSize: 20, hasMore: false })
    const page = await tenant.get('/wallets?page=2&page_size=2')
    expect(page.body).toEqual({ data: newest.slice(2, 4), total: 5, page: 2, pageSize: 2, hasMore: true })
    const found = async (query: string, key = tenant.key) => {
      const { data, total } = (await tenant.get(`/wallets?${query}`, { key })).body
      expect(total).toBe(data.length)
      return data.map((wallet: { id: string }) => wallets.findIndex((one) => one.id === wallet.id))
    }
    expect(await found('custody=self_custody')).toEqual([1])
    expect(await found('custody=embedded')).toEqual([4, 3, 2, 0])
    expect(await found('custody=shared')).toEqual([])
    expect(await found('status=ready')).toEqual([4, 3, 1])
    expect(await found('status=frozen')).toEqual([0])
    expect(await found('status=pending')).toEqual([2])
    expect(await found('status=failed')).toEqual([])
    expect(await found('ledger=embedded')).toEqual([4, 3, 2, 1, 0])
    expect(await found(`user_id=${here[1]?.userId}`)).toEqual([1])
    expect(await found(`user_id=${guest.userId}`)).toEqual([4])
    expect(await found(`app_id=${appId}`)).toEqual([3])
    expect(await found(`app_id=${tenant.appId}&custody=embedded&status=ready`)).toEqual([4])
    const bound = await tenant.newKey({ scopes: ['wallets:read'], appId })
    expect(await found('page_size=100', bound)).toEqual([3])
    expectError(await tenant.get(`/wallets?app_id=${tenant.appId}`, { key: bound }), 404, 'not_found')
  })

  test('a filter that means nothing is refused or names nothing of yours', async () => {
    const tenant = await service.newTenant()
    for (const query of [
      'custody=mpc',
      'status=active',
      'status=',
      'custody=',
      'ledger=',
      'status=ready&status=ready',
    ]) {
      const [detail] = expectRefusal(await tenant.get(`/wallets?${query}`), 'validation_failed', query)
      expect(query.startsWith(detail.field)).toBe(true)
    }
    for (const [field, value] of [
      ['user_id', UNKNOWN_USER],
      ['user_id', 'none'],
      ['user_id', ''],
      ['app_id', 'app_01jb2m7x9kq4t8v6w0r3s5y1zb'],
    ]) {
      const answer = await tenant.get(`/wallets?${field}=${value}`)
      expectError(answer, 404, 'not_found')
      expect(answer.body.details[0].field).toBe(field)
    }
  })
})

describe('freezing', () => {
  test('is done once and told of once, and undone without a word', async () => {
    const { tenant, person } = await newPerson()
    const wallet = await newWallet(person)
    service.advance(1_000)
    const first = await tenant.post(`/wallets/${wallet.id}/freeze`)
    expect(first.status, first.text).toBe(200)
    expect(first.body.data).toEqual({ ...wallet, status: 'frozen', updatedAt: expect.any(String) })
    expect(Date.parse(first.body.data.updatedAt)).toBeGreaterThan(Date.parse(wallet.updatedAt))
    service.advance(1_000)
    expect((await tenant.post(`/wallets/${wallet.id}/freeze`)).text).toBe(first.text)
    expect((await person.get('/users/me/wallet')).body.data.status).toBe('frozen')
    expectError(await person.post('/users/me/wallet'), 409, 'wallet_exists')
    expect(await eventsOf(service, tenant, 'wallet.frozen')).toEqual([{ walletId: wallet.id, userId: person.userId }])
    const thawed = await tenant.post(`/wallets/${wallet.id}/unfreeze`)
    expect(thawed.status, thawed.text).toBe(200)
    expect(thawed.body.data).toEqual({ ...wallet, updatedAt: expect.any(String) })
    service.advance(1_000)
    expect((await tenant.post(`/wallets/${wallet.id}/unfreeze`)).text).toBe(thawed.text)
    const told = await service.sql('select 1 from events where tenant_id = $1 and type like $2', [
      tenant.tenantId,
      'wallet.%',
    ])
    expect(told).toHaveLength(3)
    expect((await tenant.post(`/wallets/${wallet.id}/freeze`)).body.data.status).toBe('frozen')
    expect(await eventsOf(service, tenant, 'wallet.frozen')).toHaveLength(2)
  })

  test('by twenty calls at once is told of once', async () => {
    const { tenant, person } = await newPerson()
    const wallet = await newWallet(person)
    const answers = await Promise.all(Array.from({ length: 20 }, () => tenant.post(`/wallets/${wallet.id}/freeze`)))
    expect(statusCounts(answers)).toEqual({ 200: 20 })
    expect(new Set(answers.map((answer) => answer.text)).size).toBe(1)
    expect(await eventsOf(service, tenant, 'wallet.frozen')).toHaveLength(1)
  })

  test('of a wallet that is pending or has failed leaves it so', async () => {
    const { tenant, person } = await newPerson()
    const wallet = await newWallet(person)
    for (const status of ['pending', 'failed']) {
      await service.sql('update wallets set status = $1 where id = $2', [status, wallet.id])
      await service.recode()
      expect((await tenant.post(`/wallets/${wallet.id}/freeze`)).body.data.status).toBe('frozen')
      expect((await tenant.post(`/wallets/${wallet.id}/unfreeze`)).body.data.status).toBe(status)
    }
  })

  test("is for servers with wallets:write alone, and not for the user's own token", async () => {
    const { tenant, person } = await newPerson()
    const wallet = await newWallet(person)
    const reader = await tenant.newKey({ scopes: ['wallets:read', 'users:act_as'] })
    for (const verb of ['freeze', 'unfreeze']) {
      const path = `/wallets/${wallet.id}/${verb}`
      expectError(await tenant.post(path, {}, { key: reader }), 403, 'insufficient_scope')
      expectError(await person.post(path, {}), 403, 'key_type_not_allowed')
      expect(expectRefusal(await tenant.post(path, { status: 'ready' }), 'validation_failed')[0].field).toBe('status')
    }
    for (const path of ['/wallets', `/wallets/${wallet.id}`, `/users/${person.userId}/wallet`]) {
      expect((await tenant.get(path, { key: reader })).status).toBe(200)
      expectError(await person.get(path), 403, 'key_type_not_allowed')
    }
    expect((await tenant.get(`/wallets/${wallet.id}`)).body.data.status).toBe('ready')
  })
})

test('a deleted user, and an app that is deleted with its users, take their wallets along', async () => {
  const tenant = await service.newTenant()
  const appId = await newApp(tenant)
  const [here, there] = [await signInAs(service, tenant), await signInAs(service, tenant, { appId })]
  const [one, other] = [await newWallet(here), await newWallet(there, await proven(there, newWalletKey()))]
  expect((await tenant.delete(`/users/${here.userId}`)).status).toBe(200)
  expectError(await tenant.get(`/wallets/${one.id}`), 404, 'not_found')
  expectError(await tenant.get(`/users/${here.userId}/wallet`), 404, 'not_found')
  expect((await tenant.delete(`/apps/${appId}?force=true`)).status).toBe(200)
  expectError(await tenant.get(`/wallets/${other.id}`), 404, 'not_found')
  expect(await rows(tenant)).toEqual([])
  for (const level of ['embedded', 'self_custody'])
    expect((await tenant.get(`/users?trust_level=${level}`)).body.total).toBe(0)
})

test("a user's token with a publishable key of another app finds nothing, and creates nothing", async () => {
  const { tenant, person } = await newPerson()
  const key = await publishableKey(tenant, await newApp(tenant))
  expectError(await person.call('POST', '/users/me/wallet', { key }), 404, 'not_found')
  expectError(await person.call('GET', '/users/me/wallet', { key }), 404, 'not_found')
  expect(await rows(tenant)).toEqual([])
})
