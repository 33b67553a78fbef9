// What was refused to delegated sessions, where one looks for it.
import { expect, test, vi } from 'vitest'
import { create, newSession, transfer, transfers } from '../../../src/delegation/delegated.fixture.ts'
import { withAda } from './custody.fixture.ts'
import { useDashboard } from './support.ts'

// Each state is looked at four times.
vi.setConfig({ testTimeout: 240_000 })

const stage = useDashboard()

async function withRefusals() {
  const { tenant, ada, contractId } = await withAda(stage.service)
  const session = await newSession(stage.service, tenant, ada, { name: 'Shopping agent', policy: transfers(ada, '10') })
  for (const commands of [[transfer(contractId)], [create('Note:Note', { author: ada.party, text: 'x' })]])
    expect((await session.execute({ commands })).status).toBe(403)
  return { tenant, ada, session }
}

test('a refused attempt is three clicks from the overview: why, by which session, what would have been allowed', async () => {
  const { tenant, session } = await withRefusals()
  const { page, look } = await stage.arrive(tenant, { path: '/' })
  await page.getByText('2 attempts by delegated sessions').waitFor()
  await look('overview-refused')
  await page.getByRole('link', { name: 'View all refused attempts' }).click()
  const table = page.getByRole('table', { name: 'Refused attempts' })
  const row = table.getByRole('row').filter({ hasText: 'spend[0]' })
  await row.getByText('Would have been allowed: up to 10 USDX, of 10 USDX in total').waitFor()
  await row.getByRole('link', { name: 'Shopping agent' }).waitFor()
  await row.getByRole('link', { name: 'Ada Lovelace' }).waitFor()
  await row.getByText('×1').waitFor()
  const here = page.getByRole('navigation', { name: 'Main' }).locator('[aria-current=page]')
  expect(await here.allTextContents()).toEqual(['Delegated sessions'])
  expect(await table.getByRole('row').count()).toBe(3)
  await look('denials')
  await page.getByRole('tab', { name: 'Sessions', exact: true }).click()
  await page.getByRole('table', { name: 'Delegated sessions' }).getByRole('link', { name: 'Shopping agent' }).click()
  await page.getByRole('tab', { name: 'Refused attempts' }).click()
  await row.waitFor()
  await look('session-denials')
  expect(page.url()).toContain(session.id)
})

test('the pages of a wallet and of a user show what was refused, and the list is filtered by each', async () => {
  const { tenant, ada, session } = await withRefusals()
  const { page, go, look } = await stage.arrive(tenant, { path: `/wallets/${ada.walletId}?tab=denials` })
  const rows = page.getByRole('table', { name: 'Refused attempts' }).getByRole('row')
  await rows.filter({ hasText: 'Shopping agent' }).first().waitFor()
  await go(`/users/${ada.userId}?tab=denials`)
  await rows.filter({ hasText: 'Shopping agent' }).first().waitFor()
  await look('user-denials')
  for (const filter of [`user_id=${ada.userId}`, `wallet_id=${ada.walletId}`, `session_id=${session.id}`]) {
    await go(`/denials?${filter}`)
    await rows.filter({ hasText: 'spend[0]' }).waitFor()
  }
  await go('/denials?wallet_id=wal_unknown')
  await page.getByText('No refused attempts match these filters.').waitFor()
})

test('where nothing was refused, the page says what would appear', async () => {
  const { tenant, ada } = await withAda(stage.service)
  const { page, go, look } = await stage.arrive(tenant, { path: '/denials' })
  await page.getByText('Nothing was refused').waitFor()
  await look('denials-empty')
  await go(`/wallets/${ada.walletId}?tab=denials`)
  await page.getByText('Attempts of delegated sessions to act from this wallet').waitFor()
})
