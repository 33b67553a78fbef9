// Transfers that were offered to or by a wallet on a ledger that is followed, in the dashboard.
import { afterAll, expect, test } from 'vitest'
import { expectStatus } from '../../../src/delegation/delegated.fixture.ts'
import { onboardWallets } from '../../../src/wallets/onboarding/onboarding.ts'
import { settingsFile, settingsOf } from '../../canton/canton.fixture.ts'
import { answered, STRANGER } from '../../canton/offers/offers.fixture.ts'
import { SimulatedParticipant } from '../../canton/participant.ts'
import { FACTORY, HOLDING, INSTRUCTION, SimulatedRegistry } from '../../canton/tokens.ts'
import { button, HOSTILE } from './custody.fixture.ts'
import { useDashboard } from './support.ts'

const PAGE = 20

const participant = new SimulatedParticipant()
const registry = new SimulatedRegistry(participant)
const stage = useDashboard(async () => {
  await participant.start()
  await registry.start()
  const interfaces = { holding: HOLDING, transferFactory: FACTORY, transferInstruction: INSTRUCTION }
  const tokens = { ...interfaces, registries: [{ admin: registry.admin, url: registry.url }] }
  const followed = `canton:${settingsFile(settingsOf(participant, { tokens }))}`
  const other = `canton:${settingsFile(settingsOf(participant, { name: 'other' }))}`
  return { HALFKEY_LEDGERS: `embedded,${followed},${other}` }
})
afterAll(() => Promise.all([participant.stop(), registry.stop()]))

/** A new user's wallet on a ledger. */
async function newWallet(ledger: string) {
  const tenant = await stage.service.newTenant()
  const asUser = { headers: { 'x-user-id': expectStatus(await tenant.post('/users', {}), 201).id as string } }
  const { id } = expectStatus(await tenant.post('/users/me/wallet', { ledger }, asUser), 201)
  await onboardWallets(stage.service.deps)
  return {
    tenant,
    path: `/wallets/${id}`,
    party: expectStatus(await tenant.get(`/wallets/${id}`), 200).partyId as string,
  }
}

test('a wallet shows what was offered to it and by it, how it ended, and says so where there is nothing', async () => {
  const { tenant, path, party } = await newWallet('canton')
  const dash = await stage.arrive(tenant, { path })
  const { page } = dash
  await page.getByRole('tab', { name: 'Transfer offers' }).click()
  await page.getByText('No transfer offers').waitFor()
  expect(page.url()).toContain('tab=offers')
  await dash.look('wallet-no-offers')
  const meta = { values: { [HOSTILE]: HOSTILE.repeat(9) } }
  const offers = [
    registry.offer(STRANGER, party, '12.5', { instrument: { admin: registry.admin, id: HOSTILE }, meta }),
    registry.offer(party, STRANGER, '7'),
  ]
  const [, outgoing] = participant.happen([], offers)
  const items = page.getByRole('list', { name: 'Transfer offers' }).getByRole('listitem')
  await items.nth(1).waitFor()
  const incoming = items.filter({ hasText: 'offered by' })
  expect(await incoming.textContent()).toContain(`12.5 ${HOSTILE}`)
  expect(await incoming.textContent()).toContain('Expires')
  participant.happen([outgoing as string], [], [answered(outgoing as string, 'Reject', 'Failed')])
  await items.filter({ hasText: 'offered to' }).getByText('Rejected').waitFor()
  await dash.look('wallet-offers')
  for (let at = 0; at < PAGE; at += 1) participant.happen([], [registry.offer(STRANGER, party, '1')])
  await items.nth(PAGE - 1).waitFor()
  await button(page, 'Show more').click()
  await items.nth(PAGE + 1).waitFor()
  expect(await items.count()).toBe(PAGE + 2)
})

test('a wallet on a ledger that is not followed says that its offers cannot be listed, and an embedded one has no such tab', async () => {
  const { tenant, path } = await newWallet('other')
  const dash = await stage.arrive(tenant, { path: `${path}?tab=offers` })
  await dash.page.getByText('Transfer offers cannot be listed').waitFor()
  const embedded = await newWallet('embedded')
  const own = await stage.arrive(embedded.tenant, { path: `${embedded.path}?tab=offers` })
  await own.page.getByRole('tab', { name: 'Transactions', selected: true }).waitFor()
  expect(await own.page.getByRole('tab', { name: 'Transfer offers' }).count()).toBe(0)
})
