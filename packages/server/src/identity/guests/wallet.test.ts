import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { expectError } from '../../../test/harness/envelope.ts'
import { eventually, type Service, startService, type Tenant } from '../../../test/harness/harness.ts'
import { bearer, eventsOf, type Json, newGuest, statusCounts } from './guests.fixture.ts'

const MINUTE_MS = 60_000

let service: Service
beforeAll(async () => {
  // Without a worker nothing is swept.
  service = await startService({ HALFKEY_ROLE: 'api' })
})
afterAll(() => service.stop())

const walletOf = async (tenant: Tenant, guest: Json): Promise<Json> =>
  (await tenant.get(`/users/${guest.userId}/wallet`)).body.data

const createFor = (tenant: Tenant, guest: Json) =>
  tenant.post('/users/me/wallet', {}, { headers: { 'x-user-id': guest.userId } })

/** A guest with a wallet. */
async function newOwner(tenant: Tenant, body: object = {}): Promise<{ guest: Json; wallet: Json }> {
  const guest = await newGuest(tenant, body)
  const answer = await createFor(tenant, guest)
  expect(answer.status, answer.text).toBe(201)
  return { guest, wallet: answer.body.data }
}

const frozen = (owners: { guest: Json; wallet: Json }[]) =>
  owners.map(({ guest, wallet }) => ({ walletId: wallet.id, userId: guest.userId }))

const byWallet = (events: Json[]) => events.toSorted((a, b) => (a.walletId < b.walletId ? -1 : 1))

describe('a guest that ends leaves a frozen wallet, told of once', () => {
  test('by its own wish, and by that of a server', async () => {
    const tenant = await service.newTenant()
    const key = await tenant.newKey({ publishable: true })
    const owners = [await newOwner(tenant), await newOwner(tenant)]
    const options = [{ key, headers: bearer(owners[0]?.guest) }, {}]
    for (const [i, { guest, wallet }] of owners.entries()) {
      expect(wallet).toMatchObject({ partyId: guest.partyId, status: 'ready' })
      for (let again = 0; again < 2; again += 1)
        expect((await tenant.delete(`/guests/${guest.id}`, again === 0 ? options[i] : {})).status).toBe(200)
      expect(await walletOf(tenant, guest)).toEqual({ ...wallet, status: 'frozen', updatedAt: expect.any(String) })
    }
    expect(await eventsOf(service, tenant, 'wallet.frozen')).toEqual(frozen(owners))
    const told = await service.sql<{ type: string; context: Json }>(
      `select type, context from events where tenant_id = $1 and type in ('wallet.frozen', 'guest.expired') order by id`,
      [tenant.tenantId],
    )
    for (const { context } of told) {
      expect(context.actor).toMatch(/^(key|usr)_/)
      expect(context.keyId).toMatch(/^key_/)
    }
  })

  test('by the cleanup', async () => {
    const tenant = await service.newTenant()
    const owners = await Promise.all(Array.from({ length: 5 }, () => newOwner(tenant)))
    const bare = await newGuest(tenant)
    const answer = await tenant.post('/guests/cleanup', { olderThanMinutes: 0 })
    expect(answer.body.data).toEqual({ expired: 6, hasMore: false })
    for (const { guest } of owners) expect((await walletOf(tenant, guest)).status).toBe('frozen')
    expectError(await tenant.get(`/users/${bare.userId}/wallet`), 404, 'wallet_not_found')
    expect(byWallet(await eventsOf(service, tenant, 'wallet.frozen'))).toEqual(byWallet(frozen(owners)))
    expect((await tenant.get('/wallets?status=frozen')).body.total).toBe(5)
  })

  test('by the sweep, when its time is over', async () => {
    const whole = await startService()
    try {
      const tenant = await whole.newTenant()
      const owners = await Promise.all(Array.from({ length: 5 }, () => newOwner(tenant, { ttlMinutes: 5 })))
      const kept = await newOwner(tenant)
      whole.advance(5 * MINUTE_MS)
      const told = await eventually('the guests are swept', async () => {
        const events = await eventsOf(whole, tenant, 'wallet.frozen')
        return events.length >= 5 && events
      })
      expect(byWallet(told)).toEqual(byWallet(frozen(owners)))
      for (const { guest } of owners) expect((await walletOf(tenant, guest)).status).toBe('frozen')
      expect(await walletOf(tenant, kept.guest)).toEqual(kept.wallet)
    } finally {
      await whole.stop()
    }
  })

  test('but not again, if it was frozen before', async () => {
    const tenant = await service.newTenant()
    const { guest, wallet } = await newOwner(tenant)
    const before = (await tenant.post(`/wallets/${wallet.id}/freeze`)).body.data
    await tenant.delete(`/guests/${guest.id}`)
    expect(await walletOf(tenant, guest)).toEqual(before)
    expect(await eventsOf(service, tenant, 'wallet.frozen')).toHaveLength(1)
  })
})

test('an ended guest’s wallet stays frozen: 410, be it swept or not, be it frozen yet or not', async () => {
  const tenant = await service.newTenant()
  const [ended, over, live] = [
    await newOwner(tenant),
    await newOwner(tenant, { ttlMinutes: 1 }),
    await newOwner(tenant, { ttlMinutes: 60 }),
  ]
  await tenant.delete(`/guests/${ended.guest.id}`)
  service.advance(MINUTE_MS)
  const thaw = (wallet: Json) => tenant.post(`/wallets/${wallet.id}/unfreeze`)
  expectError(await thaw(ended.wallet), 410, 'guest_expired')
  expectError(await thaw(over.wallet), 410, 'guest_expired')
  await tenant.post(`/wallets/${over.wallet.id}/freeze`)
  expectError(await thaw(over.wallet), 410, 'guest_expired')
  await tenant.post('/guests/cleanup')
  expectError(await thaw(over.wallet), 410, 'guest_expired')
  for (const { guest } of [ended, over]) expect((await walletOf(tenant, guest)).status).toBe('frozen')
  await tenant.post(`/wallets/${live.wallet.id}/freeze`)
  expect((await thaw(live.wallet)).body.data.status).toBe('ready')
})

describe('conversion', () => {
  test('keeps the wallet: id, party and all, and not frozen when the guest would have ended', async () => {
    const tenant = await service.newTenant()
    const { guest, wallet } = await newOwner(tenant, { ttlMinutes: 5 })
    const answer = await tenant.post(`/guests/${guest.id}/convert`, { externalId: 'c-1' })
    expect(answer.body.data.user).toMatchObject({ id: wallet.userId, partyId: wallet.partyId, trustLevel: 'embedded' })
    service.advance(6 * MINUTE_MS)
    await tenant.post('/guests/cleanup')
    expect(await walletOf(tenant, guest)).toEqual(wallet)
    expect(await eventsOf(service, tenant, 'wallet.frozen')).toEqual([])
    expectError(await createFor(tenant, guest), 409, 'wallet_exists')
    await tenant.post(`/wallets/${wallet.id}/freeze`)
    expect((await tenant.post(`/wallets/${wallet.id}/unfreeze`)).body.data.status).toBe('ready')
  })

  test('that races the end leaves a wallet that fits the state', async () => {
    const tenant = await service.newTenant()
    const owners = await Promise.all(Array.from({ length: 20 }, () => newOwner(tenant)))
    await Promise.all(
      owners.flatMap(({ guest }, i) => [
        tenant.post(`/guests/${guest.id}/convert`, { externalId: `c-${i}` }),
        tenant.delete(`/guests/${guest.id}`),
      ]),
    )
    for (const { guest, wallet } of owners) {
      const { status } = (await tenant.get(`/guests/${guest.id}`)).body.data
      const after = await walletOf(tenant, guest)
      if (status === 'converted') expect(after).toEqual(wallet)
      else expect([status, after.status]).toEqual(['expired', 'frozen'])
    }
  })
})

describe('of a guest that ends at the same moment', () => {
  test('a wallet that is just created is frozen, or is not created', async () => {
    const tenant = await service.newTenant()
    const guests = await Promise.all(Array.from({ length: 20 }, () => newGuest(tenant)))
    const answers = await Promise.all(
      guests.flatMap((guest) => [createFor(tenant, guest), tenant.delete(`/guests/${guest.id}`)]),
    )
    const counts = statusCounts(answers)
    expect((counts[201] ?? 0) + (counts['410 guest_expired'] ?? 0), JSON.stringify(counts)).toBe(20)
    expect(counts[200]).toBe(20)
    expect((await tenant.get('/wallets')).body.total).toBe(counts[201] ?? 0)
    expect((await tenant.get('/wallets?status=frozen')).body.total).toBe(counts[201] ?? 0)
    expect(await eventsOf(service, tenant, 'wallet.frozen')).toHaveLength(counts[201] ?? 0)
  })

  test('a wallet that is just unfrozen is frozen in the end', async () => {
    const tenant = await service.newTenant()
    const owners = await Promise.all(Array.from({ length: 20 }, () => newOwner(tenant)))
    for (const { wallet } of owners) await tenant.post(`/wallets/${wallet.id}/freeze`)
    await Promise.all(
      owners.flatMap(({ guest, wallet }) => [
        tenant.delete(`/guests/${guest.id}`),
        tenant.post(`/wallets/${wallet.id}/unfreeze`),
      ]),
    )
    expect((await tenant.get('/wallets?status=frozen')).body.total).toBe(20)
  })
})
