// Lists as CSV: what is saved, with which filters, and what is said where the server refuses.
import { readFileSync } from 'node:fs'
import { expect, test, vi } from 'vitest'
import { createUser, subscribe } from '../../../src/delivery/engine/delivery.fixture.ts'
import { answer, startReceiver } from '../../harness/receiver.ts'
import { notice } from './custody.fixture.ts'
import { useDashboard } from './support.ts'

vi.setConfig({ testTimeout: 240_000 })

const stage = useDashboard()

test('each list is downloaded as CSV with its filters; a refusal is said in words', async () => {
  const tenant = await stage.service.newTenant()
  await createUser(tenant, { email: 'ada@example.com' })
  await createUser(tenant, { email: 'grace@example.com' })
  const receiver = await startReceiver(answer(204))
  const webhook = await subscribe(tenant, `${receiver.url}/hook`, { events: ['guest.*'] })
  await receiver.close()
  const { page, go, look } = await stage.arrive(tenant, { path: '/users?search=grace' })
  const button = page.getByRole('button', { name: 'Download CSV' })
  const saved = async () => {
    const [download] = await Promise.all([page.waitForEvent('download'), button.click()])
    return { name: download.suggestedFilename(), text: readFileSync(await download.path(), 'utf8') }
  }
  await page.getByRole('link', { name: 'grace@example.com' }).waitFor()
  const users = await saved()
  expect(users.name).toMatch(/^users-\d{4}-\d\d-\d\d\.csv$/)
  expect(users.text).toContain('grace@example.com')
  expect(users.text).not.toContain('ada@example.com')
  await look('users-csv')
  const lists = {
    wallets: '/wallets',
    transactions: '/transactions',
    'audit-log': '/audit-log?action=user.*',
    denials: '/denials',
    deliveries: `/webhooks/${webhook.id}?status=succeeded`,
  }
  for (const [list, path] of Object.entries(lists)) {
    await go(path)
    const { name, text } = await saved()
    expect(name).toMatch(new RegExp(`^${list}-`))
    expect(text.split('\r\n')[0], list).toContain(',')
  }
  await page.route('**/dashboard/api/users?*', (route) =>
    route.request().headers().accept === 'text/csv'
      ? route.fulfill({
          status: 400,
          json: { error: 'Validation failed.', details: [{ message: 'A CSV has at most 100000 records.' }] },
        })
      : route.fallback(),
  )
  await go('/users?search=grace')
  await button.click()
  await notice(page, 'Validation failed. A CSV has at most 100000 records.')
})
