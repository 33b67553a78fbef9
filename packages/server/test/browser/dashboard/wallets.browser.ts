// Wallets and transactions in the dashboard.
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import type { Page } from 'playwright-core'
import { expect, test } from 'vitest'
import { holdingsOf, newKeyHolder, newSession, transfer, transfers } from '../../../src/delegation/delegated.fixture.ts'
import { eventually, type Tenant } from '../../harness/harness.ts'
import { SMOKE } from '../stage.ts'
import { button, dataOf, heading, notice, TOKENS, withAda } from './custody.fixture.ts'
import { useDashboard } from './support.ts'

const stage = useDashboard()

/** What a list says where there is nothing, pasted into a terminal. */
async function paste(tenant: Tenant, page: Page): Promise<string> {
  const shown = await page.locator('figure', { hasText: 'command' }).locator('code').textContent()
  const { stdout } = await promisify(execFile)('bash', ['-c', shown ?? ''], {
    env: { ...process.env, HALFKEY_KEY: tenant.key },
  })
  return stdout
}

test('the commands in empty lists work as they are, and what they make appears without a reload', async () => {
  const tenant = await stage.service.newTenant()
  const dash = await stage.arrive(tenant, { path: '/wallets' })
  const { page } = dash
  for (const [path, title, kind] of [
    ['/wallets', 'No wallets yet', 'wallets'],
    ['/delegated-sessions', 'No delegated sessions yet', 'delegated-sessions'],
    ['/transactions', 'No transactions yet', 'transactions'],
  ] as const) {
    await dash.go(path)
    await page.getByText(title).waitFor()
    await dash.look(`${kind}-empty`)
    await paste(tenant, page)
    await page.getByRole('table').getByRole('row').nth(1).waitFor()
    expect((await dataOf(tenant, `/${kind}`)).length).toBeGreaterThan(0)
    await dash.look(kind)
  }
})

test('wallets are listed with their owners, and filters stand in the address', SMOKE, async () => {
  const { tenant, ada } = await withAda(stage.service)
  const grace = await newKeyHolder(stage.service, tenant)
  const dash = await stage.arrive(tenant, { path: '/wallets' })
  const { page } = dash
  const rows = page.getByRole('table', { name: 'Wallets' }).getByRole('row')
  await page.getByRole('link', { name: 'Ada Lovelace' }).waitFor()
  expect(await rows.count()).toBe(3)
  await page.getByRole('combobox', { name: 'Custody' }).click()
  await page.getByRole('option', { name: 'Self custody' }).click()
  await page.getByRole('link', { name: ada.walletId }).waitFor({ state: 'detached' })
  await page.getByRole('link', { name: grace.walletId }).waitFor()
  expect(page.url()).toContain('custody=self_custody')

  await dash.go('/wallets?status=frozen')
  await page.getByText('No results').waitFor()
  await dash.look('wallets-filtered-empty')
  await button(page, 'Clear filters').click()
  await page.getByRole('link', { name: ada.walletId }).waitFor()

  const owner = page.getByRole('combobox', { name: 'Owner' })
  await owner.fill('lovelace')
  await page.getByRole('option', { name: /Ada Lovelace/ }).click()
  await page.getByRole('link', { name: grace.walletId }).waitFor({ state: 'detached' })
  expect(page.url()).toContain(`user_id=${ada.userId}`)
  await page.reload()
  await page.getByRole('link', { name: ada.walletId }).waitFor()
  await eventually('the owner is named', async () => (await owner.inputValue()) === 'Ada Lovelace')
  await dash.look('wallets-of-one-owner')

  await dash.go('/wallets?user_id=nobody')
  await page.getByText('No results').waitFor()
})

test('a wallet shows its budgets with what is spent of each, and says so where there is none', SMOKE, async () => {
  const { tenant, ada, contractId } = await withAda(stage.service)
  const dash = await stage.arrive(tenant, { path: `/wallets/${ada.walletId}` })
  const { page } = dash
  await page.getByText('No budgets').waitFor()
  await dash.look('wallet-no-budgets')
  const asset = { issuer: ada.issuer, symbol: 'USDX' }
  const budgets = [
    { asset, amount: '4', window: 'rolling_30d' },
    { asset, amount: '50', window: 'day_utc', templateId: TOKENS },
    { asset, amount: '10', window: 'lifetime', recipient: ada.issuer },
  ]
  expect((await tenant.call('PUT', `/wallets/${ada.walletId}/budgets`, { body: { budgets } })).status).toBe(200)
  const session = await newSession(stage.service, tenant, ada, { policy: transfers(ada, '10') })
  expect((await session.execute({ commands: [transfer(contractId, '3')] })).status).toBe(200)
  const rows = page.getByRole('table', { name: 'Budgets' }).getByRole('row')
  await rows.nth(1).getByText('3 of 4', { exact: false }).waitFor()
  expect(await rows.count()).toBe(4)
  expect(await rows.nth(1).getByRole('progressbar').getAttribute('aria-valuetext')).toBe('3 of 4 spent')
  expect(await rows.nth(2).getByRole('progressbar').getAttribute('aria-valuetext')).toBe('3 of 50 spent')
  expect(await rows.nth(3).textContent()).toContain('received by')
  await dash.look('wallet-budgets')
})

test('a wallet says who can sign today; freezing asks first, and stops its sessions', async () => {
  const { tenant, ada, contractId } = await withAda(stage.service)
  const session = await newSession(stage.service, tenant, ada, { name: 'Agent', policy: transfers(ada, '10') })
  await session.execute({ commands: [transfer(contractId, '3')] })
  const dash = await stage.arrive(tenant, { path: '/wallets' })
  const { page } = dash
  await page.getByRole('link', { name: ada.walletId }).click()
  await heading(page, /Wallet/).waitFor()
  await page.getByText('Halfkey signs for this wallet').waitFor()
  const tile = (who: string) => page.getByRole('listitem').filter({ hasText: who }).first().textContent()
  expect(await tile('Halfkey')).toContain('Can sign alone')
  expect(await tile('The user')).toContain('Cannot sign')
  await page.getByRole('link', { name: `Transfer on ${TOKENS}` }).waitFor()
  await button(page, 'Copy party').first().click()
  await eventually('it is copied', async () => (await page.evaluate('navigator.clipboard.readText()')) === ada.party)
  await dash.look('wallet')
  await page.getByRole('tab', { name: 'Delegated sessions' }).click()
  await page.getByRole('link', { name: 'Agent' }).waitFor()
  expect(page.url()).toContain('tab=sessions')
  await dash.look('wallet-sessions')

  await button(page, 'Revoke all sessions').click()
  await page.getByRole('alertdialog', { name: 'Revoke all sessions of this wallet?' }).waitFor()
  await dash.look('wallet-revoke-all')
  await button(page, 'Cancel').click()
  await page.getByRole('alertdialog').waitFor({ state: 'hidden' })
  const active = `/delegated-sessions?wallet_id=${ada.walletId}&status=active`
  expect((await tenant.get(active)).body.total).toBe(1)
  await button(page, 'Revoke all sessions').click()
  await page.getByRole('alertdialog').getByRole('button', { name: 'Revoke all' }).click()
  await notice(page, '1 session revoked')
  expect((await tenant.get(active)).body.total).toBe(0)
  // What is shown follows.
  await page.getByText('Revoked').first().waitFor()

  await button(page, 'Freeze').click()
  await page.getByRole('alertdialog', { name: 'Freeze this wallet?' }).waitFor()
  await dash.look('wallet-freeze')
  await button(page, 'Cancel').click()
  await page.getByRole('alertdialog').waitFor({ state: 'hidden' })
  expect((await dataOf(tenant, `/wallets/${ada.walletId}`)).status).toBe('ready')
  await button(page, 'Freeze').click()
  await page.getByRole('alertdialog').getByRole('button', { name: 'Freeze' }).click()
  await notice(page, 'Wallet frozen')
  await page.getByText('The wallet is frozen').waitFor()
  expect((await dataOf(tenant, `/wallets/${ada.walletId}`)).status).toBe('frozen')
  await dash.look('wallet-frozen')
  await button(page, 'Unfreeze').click()
  await page.getByRole('alertdialog').getByRole('button', { name: 'Unfreeze' }).click()
  await page.getByText('The wallet is frozen').waitFor({ state: 'detached' })
  expect((await dataOf(tenant, `/wallets/${ada.walletId}`)).status).toBe('ready')
})

test('the faucet gives a wallet tokens, and says at the field what it does not take', async () => {
  const { tenant, ada } = await withAda(stage.service)
  const session = await newSession(stage.service, tenant, ada, { policy: transfers(ada, '10') })
  const dash = await stage.arrive(tenant, { path: `/wallets/${ada.walletId}` })
  const { page } = dash
  await button(page, 'Issue test tokens').click()
  await page.getByLabel('Symbol').fill('EURX')
  await page.getByLabel('Amount').fill('-1')
  await button(page, 'Issue').click()
  await page.getByRole('alert').filter({ hasText: 'positive decimal' }).waitFor()
  expect(await page.getByLabel('Symbol').inputValue()).toBe('EURX')
  await dash.look('wallet-faucet-error')
  await page.getByLabel('Amount').fill('12.5')
  await button(page, 'Issue').click()
  await notice(page, '12.5 EURX issued')
  expect((await holdingsOf(session)).map(({ amount, symbol }) => `${amount} ${symbol}`)).toContain('12.5 EURX')
})

test('a wallet in self-custody says that the service cannot sign', async () => {
  const tenant = await stage.service.newTenant()
  const grace = await newKeyHolder(stage.service, tenant)
  const dash = await stage.arrive(tenant, { path: `/wallets/${grace.walletId}` })
  const { page } = dash
  await page.getByText('cannot move assets').waitFor()
  expect(await page.getByRole('listitem').filter({ hasText: 'Halfkey' }).first().textContent()).toContain('Cannot sign')
  await dash.look('wallet-self-custody')
})

test('transactions are found by status, command, session and wallet, and one shows every effect and its JSON', async () => {
  const { tenant, ada, contractId } = await withAda(stage.service)
  const session = await newSession(stage.service, tenant, ada, { name: 'Agent', policy: transfers(ada, '50') })
  const done = await session.execute({ commandId: 'order-1', commands: [transfer(contractId, '3')] })
  const [rest] = await holdingsOf(session)
  await session.execute({ commandId: 'order-2', commands: [transfer(rest?.contractId ?? '', '4')] })
  const dash = await stage.arrive(tenant, { path: '/transactions' })
  const { page } = dash
  const links = page.getByRole('link', { name: `Transfer on ${TOKENS}` })
  await links.first().waitFor()
  expect(await links.count()).toBe(2)
  const find = page.getByLabel('Find')
  await find.fill('order-1')
  await page.getByText('order-2').waitFor({ state: 'detached' })
  expect(await links.count()).toBe(1)
  await find.fill('order-nothing')
  await page.getByText('No results').waitFor()
  await find.fill(session.id)
  await page.getByText('order-2').waitFor()
  await page.getByRole('combobox', { name: 'Status' }).click()
  await page.getByRole('option', { name: 'failed' }).click()
  await page.getByText('No results').waitFor()
  await button(page, 'Clear filters').click()
  await dash.go(`/transactions?wallet_id=${ada.walletId}&delegated_session_id=${session.id}`)
  await page.getByText('order-2').waitFor()
  await dash.look('transactions-filtered')
  await button(page, 'Remove the filter Session').click()
  await page.waitForURL((url) => !url.searchParams.has('delegated_session_id'))

  await dash.go(`/transactions/${done.body.data.transactionId}`)
  await heading(page, new RegExp(`Transfer on ${TOKENS}`)).waitFor()
  await page.getByText(`Transfer exercised on ${TOKENS}`).waitFor()
  await page.getByText(`${TOKENS} of 97 USDX created`).waitFor()
  await page.getByText(`${TOKENS} of 100 USDX archived`).waitFor()
  await page.getByRole('link', { name: session.id }).waitFor()
  await dash.look('transaction')
  await page.getByRole('tab', { name: 'JSON' }).click()
  await page.locator('pre', { hasText: '"commandId": "order-1"' }).waitFor()
  await dash.look('transaction-json')

  await dash.go('/transactions/tx_00000000000000000000000000')
  await page.getByText('This record does not exist.').waitFor()
  await dash.look('transaction-not-found')
})

test('a transaction that failed says why', async () => {
  const tenant = await stage.service.newTenant()
  const grace = await newKeyHolder(stage.service, tenant)
  const contractId = await grace.receive('5')
  const made = await grace.person.post('/delegated-sessions', { policy: transfers(grace, '5') })
  expect(made.status, made.text).toBe(201)
  const { id, token } = made.body.data
  const asked = await tenant.post(
    `/delegated-sessions/${id}/execute`,
    { commands: [transfer(contractId, '1')] },
    { headers: { authorization: `Bearer ${token}` } },
  )
  const { id: requestId } = asked.body.data.signingRequest
  const dash = await stage.arrive(tenant, { path: `/transactions/${requestId}` })
  const { page } = dash
  await page.getByText('Waiting for the signature of the wallet owner.').waitFor()
  await dash.look('transaction-waiting')
  stage.service.advance(11 * 60_000)
  await page.getByText('Final: it was not executed and will not be.').waitFor()
  const { error } = await dataOf(tenant, `/transactions/${requestId}`)
  await page.getByText(error.message).waitFor()
  await dash.look('transaction-failed')
})

test('a list that cannot be loaded says so, and comes back', async () => {
  const { tenant, ada } = await withAda(stage.service)
  const dash = await stage.arrive(tenant, { path: '/analytics' })
  const { page } = dash
  await page.route(/\/dashboard\/api\/(wallets|transactions|delegated-sessions)\b/, (route) =>
    route.fulfill({ status: 400, json: { error: 'Broken for the test', code: 'malformed_json', details: [] } }),
  )
  for (const path of ['/wallets', '/transactions', '/delegated-sessions', `/wallets/${ada.walletId}`]) {
    await dash.go(path)
    await page.getByText('Broken for the test').first().waitFor()
  }
  await dash.look('wallet-error')
  await page.unroute(/\/dashboard\/api\/(wallets|transactions|delegated-sessions)\b/)
  await button(page, 'Try again').first().click()
  await page.getByText('Who can sign today').waitFor()
})
