// Filters that narrow a list to what belongs to one person, app or state.
import { expect, test, vi } from 'vitest'
import { expectStatus, newHolder } from '../../../src/delegation/delegated.fixture.ts'
import { signInAs } from '../../../src/identity/sessions/sessions.fixture.ts'
import { eventually } from '../../harness/harness.ts'
import { dataOf } from './custody.fixture.ts'
import { useDashboard } from './support.ts'

vi.setConfig({ testTimeout: 240_000 })

const stage = useDashboard()

test("a user's ended sessions and audit log are one click from the user", async () => {
  const tenant = await stage.service.newTenant()
  const ada = await signInAs(stage.service, tenant)
  expect((await ada.post('/auth/logout', {})).status).toBeLessThan(300)
  await tenant.post('/users', { email: 'grace@example.com' })
  await eventually('entries', async () => (await dataOf(tenant, `/audit-log?user_id=${ada.userId}`)).length > 0)
  const { page, look } = await stage.arrive(tenant, { path: `/users/${ada.userId}?tab=sessions` })
  await page.getByText('Not signed in anywhere').waitFor()
  await page.getByRole('button', { name: 'Show ended' }).click()
  const ended = page.getByRole('table', { name: 'Ended sessions' })
  await ended.getByRole('row').nth(1).waitFor()
  await look('user-ended-sessions')
  await page.getByRole('button', { name: 'Show active' }).click()
  await page.getByText('Not signed in anywhere').waitFor()
  await page.getByRole('tab', { name: 'Events' }).click()
  await page.getByRole('link', { name: 'Audit log of this user' }).click()
  await page.waitForURL(`**/audit-log?user_id=${ada.userId}`)
  const log = page.getByRole('table', { name: 'Audit log' })
  await log.getByRole('row').nth(1).waitFor()
  await look('audit-log-of-user')
  // Entries are written a little after what they tell of: the list may still grow.
  await eventually('every entry of the user is listed', async () => {
    const entries = await dataOf(tenant, `/audit-log?user_id=${ada.userId}`)
    return (await log.getByRole('row').count()) === entries.length + 1
  })
  await page.getByRole('button', { name: 'Clear user' }).click()
  await log.getByRole('button', { name: 'app.created' }).waitFor()
})

test('API keys are filtered by type, status and app', async () => {
  const tenant = await stage.service.newTenant()
  const app = (await tenant.post('/apps', { name: 'Second' })).body.data
  const make = async (body: object) => expectStatus(await tenant.post('/api-keys', body), 201)
  await make({ name: 'Browser', type: 'publishable', appId: tenant.appId })
  await make({ name: 'Bound', type: 'secret', scopes: ['users:read'], appId: app.id })
  const old = await make({ name: 'Old', type: 'secret', scopes: ['users:read'] })
  await tenant.delete(`/api-keys/${old.id}`)
  const { page, go, look } = await stage.arrive(tenant, { path: '/api-keys' })
  const rows = page.getByRole('table', { name: 'API keys' }).getByRole('row')
  await rows.filter({ hasText: 'Browser' }).waitFor()
  await look('api-keys-filters')
  const choose = async (filter: string, option: string, found: string) => {
    await go('/api-keys')
    await page.getByRole('combobox', { name: filter }).click()
    await page.getByRole('option', { name: option, exact: true }).click()
    await eventually(`only ${found}`, async () => (await rows.count()) === 2)
    await rows.filter({ hasText: found }).waitFor()
  }
  await choose('Type', 'publishable', 'Browser')
  await choose('Status', 'revoked', 'Old')
  await choose('App', 'Second', 'Bound')
  await go('/api-keys?status=expired')
  await page.getByText('No API keys match these filters.').waitFor()
})

test('column headers sort a list, by keyboard too, and the address keeps the order', async () => {
  const tenant = await stage.service.newTenant()
  for (const email of ['mia@example.com', 'zoe@example.com', 'ada@example.com'])
    expectStatus(await tenant.post('/users', { email }), 201)
  const { page, go, look } = await stage.arrive(tenant, { path: '/users' })
  const users = page.getByRole('table', { name: 'Users' })
  const shows = (...names: string[]) =>
    eventually(names.join(', '), async () => {
      const links = await users.getByRole('row').getByRole('link').allTextContents()
      return links.map((text) => text.split('@')[0]).join() === names.join()
    })
  const orderOf = (header: string) => users.getByRole('columnheader', { name: header }).getAttribute('aria-sort')
  const click = (header: string) => users.getByRole('button', { name: header }).click()
  await shows('ada', 'zoe', 'mia')
  expect([await orderOf('Created'), await orderOf('User'), await orderOf('Status')]).toEqual([
    'descending',
    'none',
    null,
  ])
  await click('Created')
  await shows('mia', 'zoe', 'ada')
  expect(new URL(page.url()).search).toBe('?sort=createdAt')
  await users.getByRole('button', { name: 'User' }).focus()
  await page.keyboard.press('Enter')
  await shows('ada', 'mia', 'zoe')
  await click('User')
  await shows('zoe', 'mia', 'ada')
  expect([await orderOf('Created'), await orderOf('User')]).toEqual(['none', 'descending'])
  await look('users-sorted')
  await go('/users?sort=email')
  await shows('ada', 'mia', 'zoe')
  await click('Created')
  await shows('ada', 'zoe', 'mia')
  expect(new URL(page.url()).search).toBe('')
  await go('/users?sort=password')
  await shows('ada', 'zoe', 'mia')
  for (const [path, table, header] of [
    ['/audit-log', 'Audit log', 'Time'],
    ['/api-keys', 'API keys', 'Created'],
  ] as const) {
    await go(path)
    const rows = page.getByRole('table', { name: table }).getByRole('row')
    await rows.nth(1).waitFor()
    await page.getByRole('columnheader', { name: header }).getByRole('button').click()
    await page.waitForURL(/sort=/)
    await page.locator('[aria-sort=ascending]').waitFor()
    await look(`${path.slice(1)}-sorted`)
  }
})

test('on a phone, where headers have no room, a select sorts the list', async () => {
  const tenant = await stage.service.newTenant()
  for (const email of ['mia@example.com', 'zoe@example.com', 'ada@example.com'])
    expectStatus(await tenant.post('/users', { email }), 201)
  const { page, look } = await stage.arrive(tenant, { path: '/users', phone: true })
  const links = page.getByRole('table', { name: 'Users' }).getByRole('link')
  const sortBy = page.getByRole('combobox', { name: 'Sort by' })
  await sortBy.getByText('Created, newest first').waitFor()
  const choose = async (order: string, ...names: string[]) => {
    await sortBy.click()
    await page.getByRole('option', { name: order }).click()
    await eventually(order, async () => {
      const shown = await links.allTextContents()
      return shown.map((text) => text.split('@')[0]).join() === names.join()
    })
  }
  await choose('User, Z to A', 'zoe', 'mia', 'ada')
  expect(new URL(page.url()).search).toBe('?sort=-email')
  await look('users-sorted-phone')
  await choose('User, A to Z', 'ada', 'mia', 'zoe')
  await choose('Created, oldest first', 'mia', 'zoe', 'ada')
  await choose('Created, newest first', 'ada', 'zoe', 'mia')
  expect(new URL(page.url()).search).toBe('')
  await page.setViewportSize({ width: 1280, height: 800 })
  expect(await sortBy.isVisible()).toBe(false)
})

test('an id without a name stays in its column of the audit log', async () => {
  const tenant = await stage.service.newTenant()
  const user = expectStatus(await tenant.post('/users', { email: 'ada@example.com' }), 201)
  expectStatus(await tenant.delete(`/users/${user.id}`), 200)
  await eventually('entries', async () => (await dataOf(tenant, `/audit-log?target=${user.id}`)).length > 1)
  const { page, look } = await stage.arrive(tenant, { path: '/audit-log' })
  const log = page.getByRole('table', { name: 'Audit log' })
  await log.getByRole('row').filter({ hasText: user.id }).first().waitFor()
  const end = (element: string) => `${element}.getBoundingClientRect().right`
  const beyond = `[...document.querySelectorAll("td code")].filter((id) => ${end('id')} > ${end('id.closest("td")')}).length`
  expect(await page.evaluate(beyond)).toBe(0)
  await look('audit-log-ids')
})

test('a policy is checked before the session is created, with each error at its place', async () => {
  const tenant = await stage.service.newTenant()
  const { userId } = await newHolder(tenant, { name: 'Ada' })
  const { page, look } = await stage.arrive(tenant, { path: `/delegated-sessions/new?user_id=${userId}` })
  await page.getByRole('button', { name: /^Pay one shop/ }).click()
  const amount = page.getByLabel('At most')
  await amount.fill('ten')
  await page.getByRole('button', { name: 'Check policy' }).click()
  await page.getByRole('alert').filter({ hasText: 'an amount such as' }).waitFor()
  expect(await amount.getAttribute('aria-invalid')).toBe('true')
  await page.getByText('The policy is not valid.').waitFor()
  await look('policy-not-valid')
  await page.getByRole('button', { name: /^Read only/ }).click()
  await page.getByRole('button', { name: 'Check policy' }).click()
  await page.getByText('The policy is valid.').waitFor()
  expect(await dataOf(tenant, '/delegated-sessions')).toEqual([])
})
