// Which offers are listed, and for whom.
import { afterAll, beforeAll, expect, test } from 'vitest'
import { expectStatus } from '../../../src/delegation/delegated.fixture.ts'
import { signInAs } from '../../../src/identity/sessions/sessions.fixture.ts'
import { expectError } from '../../harness/envelope.ts'
import { type OffersScene, STRANGER, startOffers } from './offers.fixture.ts'

let scene: OffersScene
beforeAll(async () => {
  scene = await startOffers()
})
afterAll(() => scene.stop())

test('pages and filters have all offers once, newest first', async () => {
  const { follow, newHolder, offered, offersOf, registry, tenant } = scene
  const ada = await newHolder()
  const tin = { instrument: { admin: registry.admin, id: 'TIN' } }
  for (let at = 0; at < 4; at += 1) offered(STRANGER, ada.party, `${at + 1}`)
  for (let at = 4; at < 7; at += 1) offered(ada.party, STRANGER, `${at + 1}`, tin)
  await follow()
  const path = `/wallets/${ada.walletId}/transfer-offers`
  const seen: string[] = []
  for (let cursor: string | null = ''; cursor !== null; ) {
    const more = cursor === '' ? '' : `&cursor=${cursor}`
    const page: { offers: { amount: string }[]; nextCursor: string | null } = expectStatus(
      await tenant.get(`${path}?page_size=3${more}`),
      200,
    )
    seen.push(...page.offers.map(({ amount }) => amount))
    cursor = page.nextCursor
  }
  expect(seen).toEqual(['7', '6', '5', '4', '3', '2', '1'])
  const count = async (query: string) => (await offersOf(ada, query)).length
  expect(await count('?direction=incoming')).toBe(4)
  expect(await count('?instrument=TIN')).toBe(3)
  expect(await count(`?admin=${encodeURIComponent(registry.admin)}&direction=outgoing&status=open`)).toBe(3)
  expect(await count('?admin=nobody')).toBe(0)
  for (const query of ['?cursor=x', '?status=x', '?direction=both', '?page_size=0', '?more=1'])
    expectError(await tenant.get(path + query), 400, 'validation_failed')
})

test('offers are for the wallet’s owner and its servers, and for nobody else', async () => {
  const { follow, newHolder, offered, offersOf, service, tenant } = scene
  const ada = await newHolder()
  offered(STRANGER, ada.party, '1')
  await follow()
  const [offer] = await offersOf(ada)
  const elsewhere = await service.newTenant()
  const owner = await signInAs(service, tenant, { userId: ada.userId })
  const other = await signInAs(service, tenant)
  for (const path of [
    `/wallets/${ada.walletId}/transfer-offers`,
    `/wallets/${ada.walletId}/transfer-offers/${offer?.id}`,
  ]) {
    expectStatus(await owner.get(path), 200)
    expectError(await other.get(path), 404, 'not_found')
    expectError(await elsewhere.get(path), 404, 'not_found')
    expectError(await tenant.get(path, { key: await tenant.newKey({ publishable: true }) }), 404, 'not_found')
  }
  const bob = await newHolder()
  expectError(await tenant.get(`/wallets/${bob.walletId}/transfer-offers/${offer?.id}`), 404, 'not_found')
  expectError(await tenant.get(`/wallets/${bob.walletId}/transfer-offers/x`), 404, 'not_found')
})
