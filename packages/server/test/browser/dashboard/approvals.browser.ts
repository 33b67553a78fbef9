// What owners are asked for, and the parts of a policy that ask them.
import { expect, test, vi } from 'vitest'
import { newSession, transfer, transfers } from '../../../src/delegation/delegated.fixture.ts'
import { button, dataOf, HOSTILE, withAda } from './custody.fixture.ts'
import { useDashboard } from './support.ts'

// Each state is looked at four times.
vi.setConfig({ testTimeout: 240_000 })

const stage = useDashboard()

test('open approvals are counted in the menu, and the list says what is asked, by whom and until when', async () => {
  const { tenant, ada, contractId } = await withAda(stage.service)
  const policy = transfers(ada, '1000', { requireApproval: [{ newRecipient: true }] })
  const session = await newSession(stage.service, tenant, ada, { name: HOSTILE, policy })
  const asked = await session.execute({ commandId: 'order-1', commands: [transfer(contractId, '7')] })
  expect(asked.body.data.status, asked.text).toBe('approval_required')

  const { page, go, look } = await stage.arrive(tenant, { path: '/' })
  const menu = page.getByRole('navigation', { name: 'Main' })
  await menu.getByRole('link', { name: 'Approvals 1 open' }).click()
  const table = page.getByRole('table', { name: 'Approvals' })
  const row = table.getByRole('row').filter({ hasText: '7 USDX' })
  await row.getByText('The owner has not approved a payment to').waitFor()
  await row.getByRole('link', { name: 'Ada Lovelace' }).waitFor()
  await row.getByText(HOSTILE).waitFor()
  await row.getByText('pending').waitFor()
  await row.getByRole('button', { name: 'Copy the link to decide' }).waitFor()
  expect(await row.getByRole('button', { name: /approve|deny/i }).count()).toBe(0)
  await look('approvals')
  await go(`/approvals?status=denied`)
  await page.getByText('No approvals match these filters.').waitFor()
  await go(`/approvals?wallet_id=${ada.walletId}&status=all`)
  await row.waitFor()
  await go('/approvals?wallet_id=wal_unknown')
  await page.getByText('No approvals match these filters.').waitFor()
  // To withdraw a request, its session is revoked.
  expect((await tenant.delete(`/delegated-sessions/${session.id}`)).status).toBe(200)
  await go('/approvals?status=canceled')
  await row.waitFor()
  await go('/approvals')
  await page.getByText('Nothing is waiting').waitFor()
  await look('approvals-empty')
  // Where a policy names approvers, the list says who they are and who has approved.
  const approvers = { users: [ada.userId, await tenant.userId()], threshold: 2 }
  const several = transfers(ada, '1000', { requireApproval: [{ newRecipient: true, approvers }] })
  const other = await newSession(stage.service, tenant, ada, { policy: several })
  expect((await other.execute({ commands: [transfer(contractId, '8')] })).body.data.status).toBe('approval_required')
  await go('/approvals?status=all')
  const named = table.getByRole('row').filter({ hasText: '8 USDX' })
  await named.getByText('0 of 2 approved').waitFor()
  expect(await named.getByRole('link', { name: 'Ada Lovelace' }).count()).toBe(2)
  await look('approvals-several')
})

test('conditions and questions are written in the form, and said in words', async () => {
  const { tenant, ada } = await withAda(stage.service)
  const { page, look } = await stage.arrive(tenant, { path: `/delegated-sessions/new?user_id=${ada.userId}` })
  await button(page, /^Transfer up to 10 USDX a day/).click()
  await button(page, 'Add a session condition').click()
  const first = page.getByRole('group', { name: 'session condition 1', exact: true })
  await first.getByRole('checkbox', { name: 'sat' }).click()
  await first.getByRole('checkbox', { name: 'sun' }).click()
  await first.getByLabel('From').fill('08:00')
  await first.getByLabel('Time zone').fill('Europe/Zurich')
  await first.getByLabel('Time zone').press('Tab')
  await button(page, 'Add a session condition').click()
  const second = page.getByRole('group', { name: 'session condition 2', exact: true })
  await second.getByRole('combobox', { name: 'Kind of session condition 2' }).click()
  await page.getByRole('option', { name: 'So many transactions' }).click()
  await second.getByLabel('Transactions').fill('3')
  await second.getByRole('combobox', { name: 'Otherwise, for session condition 2' }).click()
  await page.getByRole('option', { name: 'Ask the owner' }).click()
  await button(page, 'Add a session condition').click()
  await page.getByRole('combobox', { name: 'Kind of session condition 3' }).click()
  await page.getByRole('option', { name: 'Address book only' }).click()
  await button(page, 'Ask the owner').click()
  await page.getByLabel('Ask above').fill('5')
  await page.getByText('Mon, tue, wed, thu, fri from 08:00 to 18:00 (Europe/Zurich)').waitFor()
  await page.getByText('At most 3 transactions in any hour').waitFor()
  await page.getByText("Payments to parties in the wallet's address book").waitFor()
  await page.getByText('More than 5 USDX in one transaction').waitFor()
  await look('new-session-conditions')
  await button(page, 'Create session').click()
  await page.getByRole('status', { name: 'Session token' }).waitFor()
  const [made] = await dataOf(tenant, '/delegated-sessions')
  expect(made.policy.conditions).toEqual([
    {
      hours: { days: ['mon', 'tue', 'wed', 'thu', 'fri'], from: '08:00', to: '18:00', timeZone: 'Europe/Zurich' },
    },
    { rate: { executions: 3, withinSeconds: 3600 }, otherwise: 'require_approval' },
    { recipients: 'address_book', otherwise: 'deny' },
  ])
  expect(made.policy.requireApproval).toEqual([{ asset: { issuer: ada.issuer, symbol: 'USDX' }, above: '5' }])
})
