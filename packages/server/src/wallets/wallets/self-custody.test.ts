import { createHash } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { expectError, expectRefusal } from '../../../test/harness/envelope.ts'
import { type Service, startService, type Tenant } from '../../../test/harness/harness.ts'
import { bearer, newGuest, statusCounts } from '../../identity/guests/guests.fixture.ts'
import { eventsOf, newApp, type Person, publishableKey, signInAs } from '../../identity/sessions/sessions.fixture.ts'
import { keyFingerprint } from '../../platform/ports/party.ts'
import { challengeFor, newWallet, newWalletKey, proven } from './wallets.fixture.ts'

const MINUTE_MS = 60_000
const UNKNOWN = 'chl_01jb2m7x9kq4t8v6w0r3s5y1zn'

let service: Service
beforeAll(async () => {
  service = await startService({ HALFKEY_ROLE: 'api' })
})
afterAll(() => service.stop())

async function newPerson(): Promise<{ tenant: Tenant; person: Person }> {
  const tenant = await service.newTenant()
  return { tenant, person: await signInAs(service, tenant) }
}

const create = (who: Pick<Person, 'post'>, body: object) => who.post('/users/me/wallet', body)
const server = (tenant: Tenant, userId: string) => ({
  post: (path: string, body?: unknown) => tenant.post(path, body, { headers: { 'x-user-id': userId } }),
})
const counted = async (tenant: Tenant) => ({
  embedded: (await tenant.get('/users?trust_level=embedded')).body.total,
  self_custody: (await tenant.get('/users?trust_level=self_custody')).body.total,
  all: (await tenant.get('/users')).body.total,
})

test('the message names version, tenant, app, user, ledger, key, nonce and expiry, a line each, and no two are the same', async () => {
  const { tenant, person } = await newPerson()
  const key = newWalletKey()
  const body = { custody: 'self_custody', ledger: 'embedded', publicKey: key.publicKey }
  const answer = await person.post('/users/me/wallet/challenge', body)
  expect(answer.status, answer.text).toBe(201)
  const { challengeId, message, expiresAt, ...rest } = answer.body.data
  expect(rest).toEqual({})
  expect(challengeId).toMatch(/^chl_[0-9a-hjkmnp-tv-z]{26}$/)
  expect(message.split('\n')).toEqual([
    'halfkey/pop/v1',
    tenant.tenantId,
    tenant.appId,
    person.userId,
    'embedded',
    key.publicKey,
    expect.stringMatching(/^[0-9a-f]{64}$/),
    expiresAt,
  ])
  expect(Math.abs(Date.parse(expiresAt) - service.deps.now().getTime() - 5 * MINUTE_MS)).toBeLessThan(MINUTE_MS)
  const messages = await Promise.all(Array.from({ length: 20 }, async () => (await challengeFor(person, key)).message))
  expect(new Set([message, ...messages]).size).toBe(21)
})

describe('a wallet in self-custody', () => {
  test("has its own key's party, and the user's trust level and its count follow", async () => {
    const { tenant, person } = await newPerson()
    await tenant.post('/users', {})
    const before = (await tenant.get(`/users/${person.userId}`)).body.data
    expect(await counted(tenant)).toEqual({ embedded: 2, self_custody: 0, all: 2 })
    const key = newWalletKey()
    const wallet = await newWallet(person, await proven(person, key))
    expect(wallet).toEqual({
      id: expect.stringMatching(/^wal_/),
      appId: tenant.appId,
      userId: person.userId,
      ledger: 'embedded',
      custody: 'self_custody',
      partyId: `${wallet.id}::${keyFingerprint(Buffer.from(key.publicKey, 'hex'))}`,
      address: null,
      publicKey: key.publicKey,
      curve: 'ed25519',
      threshold: null,
      total: null,
      generation: null,
      keyOrigin: null,
      exportedAt: null,
      mpcEnabled: false,
      status: 'ready',
      createdAt: expect.any(String),
      updatedAt: wallet.createdAt,
    })
    const after = (await tenant.get(`/users/${person.userId}`)).body.data
    expect(after).toEqual({ ...before, trustLevel: 'self_custody', updatedAt: after.updatedAt })
    expect(await counted(tenant)).toEqual({ embedded: 1, self_custody: 1, all: 2 })
    expect((await tenant.get('/users?trust_level=self_custody')).body.data).toEqual([after])
    const { id: walletId, userId } = wallet
    expect(await eventsOf(service, tenant, 'wallet.created')).toEqual([
      { walletId, userId, custody: 'self_custody', ledger: 'embedded' },
    ])
    expect(await eventsOf(service, tenant, 'wallet.ready')).toEqual([{ walletId, userId }])
    await tenant.delete(`/users/${person.userId}`)
    expect(await counted(tenant)).toEqual({ embedded: 1, self_custody: 0, all: 1 })
  })

  test('is proved in base64 as in hex, with the ledger said or left out', async () => {
    const { tenant } = await newPerson()
    for (const ledger of [undefined, 'embedded']) {
      const person = await signInAs(service, tenant)
      const key = newWalletKey()
      const { challengeId, message } = await challengeFor(person, key)
      const proof = key.sign(message).toString('base64')
      const wallet = await newWallet(person, {
        custody: 'self_custody',
        publicKey: key.publicKey,
        challengeId,
        proof,
        ledger,
      })
      expect(wallet.publicKey).toBe(key.publicKey)
    }
  })

  test('twenty at once leave every count exact', async () => {
    const tenant = await service.newTenant()
    const people = await Promise.all(Array.from({ length: 20 }, () => signInAs(service, tenant)))
    const bodies = await Promise.all(people.map((person) => proven(person, newWalletKey())))
    const answers = await Promise.all(people.map((person, i) => create(person, bodies[i] as object)))
    expect(statusCounts(answers)).toEqual({ 201: 20 })
    expect(await counted(tenant)).toEqual({ embedded: 0, self_custody: 20, all: 20 })
  })

  test('needs all of its proof, each part well-formed, and names what is not', async () => {
    const { person } = await newPerson()
    const body = await proven(person, newWalletKey())
    for (const missing of [['publicKey'], ['challengeId'], ['proof'], ['publicKey', 'challengeId', 'proof']]) {
      const rest = Object.fromEntries(Object.entries(body).filter(([name]) => !missing.includes(name)))
      const details = expectRefusal(await create(person, rest), 'validation_failed')
      expect(details.map((detail) => detail.field)).toEqual(missing)
    }
    const { publicKey = '', proof = '' } = body
    const wrong: [string, unknown][] = [
      ['publicKey', publicKey.slice(1)],
      ['publicKey', `${publicKey}0`],
      ['publicKey', publicKey.replace(/^../, 'AB')],
      ['publicKey', `0x${publicKey.slice(2)}`],
      ['publicKey', `${publicKey}\n`],
      ['publicKey', Buffer.from(publicKey, 'hex').toString('base64')],
      ['publicKey', null],
      ['proof', proof.slice(2)],
      ['proof', `${proof}00`],
      ['proof', proof.replace(/^./, 'g')],
      ['proof', Buffer.from(proof, 'hex').toString('base64url')],
      ['proof', `${Buffer.from(proof, 'hex').toString('base64')}\n`],
      ['proof', Buffer.alloc(65, 1).toString('base64')],
      ['proof', ''],
      ['proof', 7],
      ['challengeId', null],
      ['challengeId', 'x'.repeat(256)],
    ]
    for (const [field, value] of wrong) {
      const details = expectRefusal(await create(person, { ...body, [field]: value }), 'validation_failed', `${value}`)
      expect(details.map((detail) => detail.field)).toEqual([field])
    }
    expect((await create(person, body)).status).toBe(201)
  })
})

describe('a challenge', () => {
  test('is made for a key that can prove something', async () => {
    const { person } = await newPerson()
    const ask = (body: object) => person.post('/users/me/wallet/challenge', { custody: 'self_custody', ...body })
    const smallOrder = [
      '0100000000000000000000000000000000000000000000000000000000000000',
      '0100000000000000000000000000000000000000000000000000000000000080',
      'ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f',
      'ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff',
      '0000000000000000000000000000000000000000000000000000000000000000',
      '0000000000000000000000000000000000000000000000000000000000000080',
      '26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05',
      '26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85',
      'c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a',
      'c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa',
      'edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f',
      'edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff',
      'eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f',
      'eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff',
    ]
    for (const publicKey of [...smallOrder, 'ff'.repeat(32), '', 'x', 'AB'.repeat(32), 'ab'.repeat(31), null, 7])
      expect(expectRefusal(await ask({ publicKey }), 'validation_failed', `${publicKey}`)[0].field).toBe('publicKey')
    expect(expectRefusal(await ask({}), 'validation_failed')[0].field).toBe('publicKey')
  })

  test("is for keys of the user's own alone, whole or split", async () => {
    const { person } = await newPerson()
    for (const custody of ['embedded', 'Shared', '', ['shared'], undefined, null]) {
      const body = { custody, publicKey: newWalletKey().publicKey }
      const [detail] = expectRefusal(await person.post('/users/me/wallet/challenge', body), 'validation_failed')
      expect(detail.field).toBe('custody')
    }
  })

  test('is good for five minutes', async () => {
    const { person } = await newPerson()
    const late = await proven(person, newWalletKey())
    service.advance(MINUTE_MS)
    const early = await proven(person, newWalletKey())
    service.advance(4 * MINUTE_MS)
    expectError(await create(person, late), 410, 'challenge_expired')
    expect((await create(person, early)).status).toBe(201)
  })

  test('is used up by a proof that is wrong, whatever is wrong with it', async () => {
    const { tenant, person } = await newPerson()
    const key = newWalletKey()
    const wrong: ((message: string) => Buffer)[] = [
      (message) => newWalletKey().sign(message),
      (message) => key.sign(`${message}\n`),
      (message) => key.sign(message.replaceAll('\n', '\r\n')),
      (message) => key.sign(message.replace('/v1', '/v2')),
      (message) => key.sign(createHash('sha256').update(message).digest('hex')),
      (message) => Buffer.from(key.sign(message).map((byte, i) => (i === 63 ? byte ^ 1 : byte))),
      () => key.sign(''),
      () => Buffer.alloc(64),
      () => Buffer.alloc(64, 255),
    ]
    for (const spoil of wrong) {
      const { challengeId, message } = await challengeFor(person, key)
      const body = { custody: 'self_custody', publicKey: key.publicKey, challengeId }
      const answer = await create(person, { ...body, proof: spoil(message).toString('hex') })
      const [detail] = expectRefusal(answer, 'signature_invalid')
      expect(detail.field).toBe('proof')
      const right = await create(person, { ...body, proof: key.sign(message).toString('hex') })
      expectError(right, 410, 'challenge_expired')
    }
    expect(await eventsOf(service, tenant, 'wallet.created')).toEqual([])
    expectError(await person.get('/users/me/wallet'), 404, 'wallet_not_found')
    expect(await counted(tenant)).toEqual({ embedded: 1, self_custody: 0, all: 1 })
    expect((await create(person, await proven(person, key))).status).toBe(201)
  })

  test('is used up by a wrong proof under an Idempotency-Key too, which can then be used for a right one', async () => {
    const { person } = await newPerson()
    const key = newWalletKey()
    const body = await proven(person, key)
    const headers = { 'idempotency-key': 'prove-1' }
    const spoilt = { ...body, proof: key.sign('').toString('hex') }
    expectError(await person.post('/users/me/wallet', spoilt, { headers }), 400, 'signature_invalid')
    expectError(await person.post('/users/me/wallet', body, { headers }), 410, 'challenge_expired')
    const again = await proven(person, key)
    const made = await person.post('/users/me/wallet', again, { headers })
    expect(made.status, made.text).toBe(201)
    const repeated = await person.post('/users/me/wallet', again, { headers })
    expect([repeated.status, repeated.text]).toEqual([201, made.text])
    expectError(await person.post('/users/me/wallet', {}, { headers }), 409, 'idempotency_conflict')
  })

  test('takes one answer: of twenty wrong ones at once one is looked at', async () => {
    const { person } = await newPerson()
    const key = newWalletKey()
    const body = { ...(await proven(person, key)), proof: key.sign('').toString('hex') }
    const answers = await Promise.all(Array.from({ length: 20 }, () => create(person, body)))
    expect(statusCounts(answers)).toEqual({ '400 signature_invalid': 1, '410 challenge_expired': 19 })
  })

  test('is not changed by who names another key or ledger than it was made for', async () => {
    const { person } = await newPerson()
    const [key, other] = [newWalletKey(), newWalletKey()]
    const { challengeId, message } = await challengeFor(person, key)
    const body = { custody: 'self_custody', challengeId }
    for (const signer of [key, other]) {
      const proof = signer.sign(message).toString('hex')
      const answer = await create(person, { ...body, publicKey: other.publicKey, proof })
      expect(expectRefusal(answer, 'validation_failed')[0].field).toBe('publicKey')
    }
    const proof = key.sign(message).toString('hex')
    const named = await create(person, { ...body, publicKey: key.publicKey, proof, ledger: 'canton' })
    expect(expectRefusal(named, 'validation_failed')[0].field).toBe('ledger')
    expect((await create(person, { ...body, publicKey: key.publicKey, proof })).status).toBe(201)
  })

  test("is nobody's but the user's whose it is, and nobody else uses it up", async () => {
    const { tenant, person } = await newPerson()
    const stranger = await service.newTenant()
    const others = [
      await signInAs(service, tenant),
      await signInAs(service, tenant, { appId: await newApp(tenant) }),
      await signInAs(service, stranger),
    ]
    const body = await proven(person, newWalletKey())
    const unknown = await create(person, { ...body, challengeId: UNKNOWN })
    expectError(unknown, 404, 'not_found')
    expect(unknown.body.details[0].field).toBe('challengeId')
    const mfa = await service.sql<{ id: string }>(
      `insert into challenges (tenant_id, id, app_id, kind, user_id, data, expires_at)
       select tenant_id, 'chl_01jb2m7x9kq4t8v6w0r3s5y1zz', app_id, 'mfa', user_id, data, expires_at
       from challenges where id = $1 returning id`,
      [body.challengeId],
    )
    for (const challengeId of [mfa[0]?.id, '', 'x', "' OR 1=1", person.userId])
      expect((await create(person, { ...body, challengeId })).text).toBe(unknown.text)
    for (const other of others) {
      expect((await create(other, body)).text).toBe(unknown.text)
      expectError(await other.get('/users/me/wallet'), 404, 'wallet_not_found')
    }
    expect((await create(person, body)).status).toBe(201)
  })
})

describe('a server that acts for a user', () => {
  test("cannot give them a key, unless the app lets servers touch users' keys", async () => {
    const { tenant, person } = await newPerson()
    const acting = server(tenant, person.userId)
    const body = await proven(acting, newWalletKey())
    expectError(await create(acting, body), 403, 'user_session_required')
    expectError(await create(acting, { ...body, challengeId: UNKNOWN }), 403, 'user_session_required')
    expectError(await person.get('/users/me/wallet'), 404, 'wallet_not_found')
    await tenant.patch(`/apps/${tenant.appId}`, { mpc: { allowServer: true } })
    expect((await create(acting, body)).status).toBe(201)
  })

  test('can ask for the challenge that the user then answers', async () => {
    const { tenant, person } = await newPerson()
    const body = await proven(server(tenant, person.userId), newWalletKey())
    expect((await create(person, body)).status).toBe(201)
  })

  test("is asked about the user's app, not about another one", async () => {
    const tenant = await service.newTenant()
    const appId = await newApp(tenant, { mpc: { allowServer: true } })
    const here = await signInAs(service, tenant)
    const there = await signInAs(service, tenant, { appId })
    for (const [person, status] of [
      [here, 403],
      [there, 201],
    ] as const) {
      const acting = server(tenant, person.userId)
      expect((await create(acting, await proven(acting, newWalletKey()))).status).toBe(status)
    }
  })
})

describe('a guest in self-custody', () => {
  async function guestOf(tenant: Tenant) {
    const guest = await newGuest(tenant)
    const key = await publishableKey(tenant)
    const headers = bearer(guest)
    const post = (path: string, body?: unknown) => tenant.post(path, body, { key, headers })
    return { guest, actor: { post } }
  }

  test('is not counted until it is a user, and then as what it is', async () => {
    const tenant = await service.newTenant()
    const { guest, actor } = await guestOf(tenant)
    const wallet = await newWallet(actor, await proven(actor, newWalletKey()))
    expect(await counted(tenant)).toEqual({ embedded: 0, self_custody: 0, all: 0 })
    const { user } = (await tenant.post(`/guests/${guest.id}/convert`, { externalId: 'c-1' })).body.data
    expect(user.trustLevel).toBe('self_custody')
    expect(await counted(tenant)).toEqual({ embedded: 0, self_custody: 1, all: 1 })
    expect((await tenant.get(`/wallets/${wallet.id}`)).body.data).toEqual(wallet)
  })

  test('that is converted at the same moment is counted once, as what it is', async () => {
    const tenant = await service.newTenant()
    const guests = await Promise.all(Array.from({ length: 20 }, () => guestOf(tenant)))
    const bodies = await Promise.all(guests.map(({ actor }) => proven(actor, newWalletKey())))
    const answers = await Promise.all(
      guests.flatMap(({ guest, actor }, i) => [
        create(actor, bodies[i] as object),
        tenant.post(`/guests/${guest.id}/convert`, { externalId: `c-${i}` }),
      ]),
    )
    expect(statusCounts(answers)).toEqual({ 200: 20, 201: 20 })
    expect(await counted(tenant)).toEqual({ embedded: 0, self_custody: 20, all: 20 })
    const listed = (await tenant.get('/users?page_size=100')).body.data
    expect(listed.every((user: { trustLevel: string }) => user.trustLevel === 'self_custody')).toBe(true)
  })
})

test('nothing of a failed creation is left, though the change was written', async () => {
  const { tenant, person } = await newPerson()
  const body = await proven(person, newWalletKey())
  await service.sql(`create function refuse() returns trigger language plpgsql as $$ begin
    if new.tenant_id = '${tenant.tenantId}' and new.type = 'wallet.ready' then raise 'refused'; end if; return new; end $$`)
  await service.sql('create trigger refuse before insert on events for each row execute function refuse()')
  expectError(await create(person, body), 500, 'internal_error')
  await service.sql('drop trigger refuse on events')
  expectError(await person.get('/users/me/wallet'), 404, 'wallet_not_found')
  expect(await counted(tenant)).toEqual({ embedded: 1, self_custody: 0, all: 1 })
  expect(await eventsOf(service, tenant, 'wallet.created')).toEqual([])
  expect((await create(person, body)).status).toBe(201)
})
