import { generateKeyPairSync, sign } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { expectError } from '../../../test/harness/envelope.ts'
import { type Answer, type Service, startService, type Tenant } from '../../../test/harness/harness.ts'
import {
  exchange,
  linkBody,
  newSubject,
  startIssuer,
  type TestIssuer,
  trust,
} from '../foreign-tokens/issuer.fixture.ts'
import { signInAs } from '../sessions/sessions.fixture.ts'
import { sweepGuests } from './expiry.ts'
import { bearer, eventsOf, type Json, newGuest } from './guests.fixture.ts'

const MINUTE_MS = 60_000
const ORIGIN = 'https://shop.example.com'

let service: Service
let issuer: TestIssuer
beforeAll(async () => {
  // No worker: a guest whose time is over ends when a test says so.
  service = await startService({ HALFKEY_ROLE: 'api' })
  issuer = await startIssuer(service)
})
afterAll(async () => {
  await issuer.close()
  await service.stop()
})

async function newShop(): Promise<{ tenant: Tenant; key: string }> {
  const tenant = await service.newTenant()
  const settings = { allowedOrigins: [ORIGIN], externalWallets: { types: ['ed25519'] } }
  const answer = await tenant.patch(`/apps/${tenant.appId}`, settings)
  expect(answer.status, answer.text).toBe(200)
  await trust(tenant, issuer)
  return { tenant, key: await tenant.newKey({ publishable: true, appId: tenant.appId }) }
}

/** A key outside of Halfkey, which links itself to who calls, or signs in. */
function newWallet({ tenant, key }: { tenant: Tenant; key: string }) {
  const { privateKey, publicKey } = generateKeyPairSync('ed25519')
  const subject = Buffer.from(publicKey.export({ format: 'jwk' }).x as string, 'base64url').toString('hex')
  /** Asks for a challenge. @returns what sends the answer */
  const asked = async (path: string, purpose: object, more: object = {}): Promise<() => Promise<Answer>> => {
    const options = { key, headers: { origin: ORIGIN, ...more } }
    const body = { type: 'ed25519', publicKey: subject, ...purpose }
    const started = await tenant.post('/auth/wallet/start', body, options)
    expect(started.status, started.text).toBe(200)
    const { challengeId, message } = started.body.data
    const signature = sign(null, Buffer.from(message), privateKey).toString('base64')
    return () => tenant.post(path, { challengeId, signature }, options)
  }
  const askToLink = (who: Json) => asked('/auth/wallet/link', { purpose: 'link' }, bearer(who))
  return {
    askToLink,
    link: async (who: Json) => (await askToLink(who))(),
    signIn: async () => (await asked('/auth/wallet/verify', {}))(),
  }
}

const linkAccount = async ({ tenant, key }: { tenant: Tenant; key: string }, who: Json, sub: string) =>
  tenant.post('/auth/identities', linkBody(await issuer.token({ claims: { sub } })), { key, headers: bearer(who) })

const ENDS = [
  ['deleted', (tenant: Tenant, guest: Json) => tenant.delete(`/guests/${guest.id}`)],
  ['cleaned up', (tenant: Tenant) => tenant.post('/guests/cleanup', { olderThanMinutes: 0 })],
  [
    'cleaned up after their time',
    (tenant: Tenant) => {
      service.advance(11 * MINUTE_MS)
      return tenant.post('/guests/cleanup', {})
    },
  ],
  [
    'swept after their time',
    async () => {
      service.advance(11 * MINUTE_MS)
      expect(await sweepGuests(service.deps)).toBe(false)
      return { status: 200 }
    },
  ],
] as const

describe.each(ENDS)('a guest who is %s', (_, end) => {
  test('leaves the key and the account that they linked to their owner', async () => {
    const shop = await newShop()
    const { tenant } = shop
    const [wallet, sub] = [newWallet(shop), newSubject()]
    const guest = await newGuest(tenant, { ttlMinutes: 10 }, shop.key)
    const linked = [await wallet.link(guest), await linkAccount(shop, guest, sub)]
    expect(linked.map(({ status }) => status)).toEqual([201, 201])
    expect((await wallet.signIn()).body.data.user.id).toBe(guest.userId)

    expect((await end(tenant, guest)).status).toBe(200)
    const told = linked.map(({ body: { data } }) => ({
      identityId: data.id,
      userId: guest.userId,
      provider: data.provider,
      issuer: data.issuer,
    }))
    expect(await eventsOf(service, tenant, 'identity.unlinked')).toEqual(told)
    const [record] = await service.sql<{ credentials: string }>('select credentials from users where id = $1', [
      guest.userId,
    ])
    expect(record?.credentials).not.toContain('idn_')

    const [byKey, byAccount] = [
      await wallet.signIn(),
      await exchange(service, tenant, await issuer.token({ claims: { sub } })),
    ]
    for (const answer of [byKey, byAccount]) {
      expect(answer.status, answer.text).toBe(200)
      expect(answer.body.data.isNewUser).toBe(true)
      expect(answer.body.data.user.id).not.toBe(guest.userId)
    }
    // They sign the same new users in from now on, and the guest in no more.
    const again = (await wallet.signIn()).body.data
    expect([again.isNewUser, again.user.id]).toEqual([false, byKey.body.data.user.id])
    const refresh = { refreshToken: guest.refreshToken }
    expectError(await tenant.post('/auth/refresh', refresh, { key: shop.key }), 410, 'guest_expired')
  })

  test('leaves them to be linked to a user who was there before', async () => {
    const shop = await newShop()
    const wallet = newWallet(shop)
    const guest = await newGuest(shop.tenant, { ttlMinutes: 10 }, shop.key)
    expect((await wallet.link(guest)).status).toBe(201)
    expectError(await wallet.link(await signInAs(service, shop.tenant)), 409, 'already_exists')
    expect((await end(shop.tenant, guest)).status).toBe(200)
    const ada = await signInAs(service, shop.tenant)
    const linked = await wallet.link(ada)
    expect(linked.status, linked.text).toBe(201)
    expect((await wallet.signIn()).body.data.user.id).toBe(ada.userId)
  })
})

test('the identities of a guest who became a user, and of other users, stay', async () => {
  const shop = await newShop()
  const { tenant } = shop
  const [wallet, other] = [newWallet(shop), newWallet(shop)]
  const guest = await newGuest(tenant, {}, shop.key)
  expect((await wallet.link(guest)).status).toBe(201)
  expect((await tenant.post(`/guests/${guest.id}/convert`, { externalId: 'c-1' })).status).toBe(200)
  const ada = (await other.signIn()).body.data.user.id
  await newGuest(tenant)
  expect((await tenant.post('/guests/cleanup', { olderThanMinutes: 0 })).body.data.expired).toBe(1)
  expectError(await tenant.delete(`/guests/${guest.id}`), 409, 'already_converted')
  expect((await wallet.signIn()).body.data.user.id).toBe(guest.userId)
  expect((await other.signIn()).body.data.user.id).toBe(ada)
})

test('links that race the end of their guest keep nothing back, whichever came first', async () => {
  const shop = await newShop()
  for (let round = 0; round < 6; round += 1) {
    const guest = await newGuest(shop.tenant, {}, shop.key)
    const wallets = Array.from({ length: 6 }, () => newWallet(shop))
    const [first, ...others] = await Promise.all(wallets.map(({ askToLink }) => askToLink(guest)))
    expect((await first?.())?.status).toBe(201)
    const racing = others.map((link) => link())
    const ended = await shop.tenant.delete(`/guests/${guest.id}`)
    expect(ended.status, ended.text).toBe(200)
    for (const { status, text } of await Promise.all(racing)) expect([201, 401, 410], text).toContain(status)
    for (const wallet of wallets) {
      const answer = await wallet.signIn()
      expect(answer.status, answer.text).toBe(200)
      expect(answer.body.data.user.id).not.toBe(guest.userId)
    }
  }
})
