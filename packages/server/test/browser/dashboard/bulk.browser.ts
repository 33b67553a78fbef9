// Actions on many users at once.
import { expect, test, vi } from 'vitest'
import { expectStatus } from '../../../src/delegation/delegated.fixture.ts'
import { dataOf } from './custody.fixture.ts'
import { useDashboard } from './support.ts'

vi.setConfig({ testTimeout: 240_000 })

const stage = useDashboard()

test('selected users are suspended by the server, and who was refused is told, also after a reload', async () => {
  const tenant = await stage.service.newTenant()
  const made: { id: string }[] = []
  for (const name of ['ada', 'eve', 'mia'])
    made.push(expectStatus(await tenant.post('/users', { email: `${name}@example.com` }), 201))
  const { page, look, go } = await stage.arrive(tenant, { path: '/users' })
  await page.getByRole('checkbox', { name: 'Select eve@example.com' }).click()
  await page.getByText('1 selected').waitFor()
  await page.getByRole('checkbox', { name: '1 selected' }).click()
  await page.getByText('3 selected').waitFor()
  await page.getByRole('checkbox', { name: 'Select mia@example.com' }).click()
  await look('users-selected')
  expectStatus(await tenant.delete(`/users/${made[0]?.id}`), 200)
  await page.getByRole('button', { name: 'Suspend', exact: true }).click()
  await page.getByRole('alertdialog').getByText('Suspend: 2 users').waitFor()
  await page.getByRole('alertdialog').getByRole('button', { name: 'Suspend', exact: true }).click()
  await page.getByText('1 user suspended, 1 refused.').waitFor()
  await go('/users')
  const outcome = page.getByRole('region', { name: 'Action on the selected users' })
  await outcome.getByText('Not found.').waitFor()
  expect(await outcome.textContent()).toContain(made[0]?.id)
  await look('users-suspended')
  const statuses = (await dataOf(tenant, '/users')).map(({ status }: { status: string }) => status)
  expect(statuses).toEqual(['active', 'suspended'])
  await outcome.getByRole('button', { name: 'Dismiss' }).click()
  await go('/users')
  await page.getByRole('checkbox', { name: 'Select all on this page' }).waitFor()
  expect(await outcome.count()).toBe(0)
})

test('a key that may only read selects nobody', async () => {
  const tenant = await stage.service.newTenant()
  expectStatus(await tenant.post('/users', { email: 'ada@example.com' }), 201)
  const key = await tenant.newKey({ scopes: ['users:read'] })
  const { page } = await stage.arrive(tenant, { path: '/users', key })
  await page.getByRole('link', { name: 'ada@example.com' }).waitFor()
  expect(await page.getByRole('checkbox').count()).toBe(0)
})
