import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { eventually } from '../../harness/harness.ts'
import { layoutShift } from '../layout-shift.ts'
import { SMOKE } from '../stage.ts'
import { useDashboard } from './support.ts'

const stage = useDashboard()

test(
  'a new tenant is led through its first steps, each of which shows as done once it has happened',
  SMOKE,
  async () => {
    const tenant = await stage.service.newTenant()
    const { page, look } = await stage.arrive(tenant)
    const steps = page.getByRole('region').or(page.locator('section')).filter({ hasText: 'First steps' })
    await steps.getByRole('link', { name: 'Subscribe to events' }).waitFor()
    await look('overview-new')
    expect(await steps.getByLabel('Not done yet').count()).toBe(3)
    await tenant.post('/webhooks', { url: 'http://127.0.0.1:3999/hook', events: ['*'] })
    await steps.getByLabel('Done', { exact: true }).waitFor()
    // The next command is the one that is shown now, and it really makes a user.
    const command = await steps.locator('pre').textContent()
    expect(command).toContain('/v1/users')
    await tenant.post('/users', { email: 'ada@example.com' })
    await eventually('two steps are done', async () => (await steps.getByLabel('Done', { exact: true }).count()) === 2)
    await steps.getByRole('button', { name: 'Dismiss' }).click()
    await page.getByText('First steps').waitFor({ state: 'detached' })
    await page.reload()
    await page.getByText('New users today').waitFor()
    expect(await page.getByText('First steps').count()).toBe(0)
  },
)

test('nothing moves while the overview is drawn, with first steps and without', async () => {
  const tenant = await stage.service.newTenant()
  const { page } = await stage.arrive(tenant)
  const drawn = async () => {
    await page.getByText('New users today').waitFor()
    await page.getByText('ok', { exact: true }).first().waitFor()
    return layoutShift(page)
  }
  await page.reload()
  expect(await drawn()).toBeLessThan(0.05)
  await page.getByRole('button', { name: 'Dismiss' }).click()
  await page.reload()
  expect(await drawn()).toBeLessThan(0.05)
})

test('the overview shows what happens while one looks', async () => {
  const tenant = await stage.service.newTenant()
  await tenant.post('/users', { name: 'Ada' })
  const { page, look } = await stage.arrive(tenant)
  const figure = page
    .locator('div')
    .filter({ has: page.getByText('New users today', { exact: true }) })
    .last()
  await eventually('one user is counted', async () => (await figure.textContent())?.includes('1'))
  await tenant.post('/users', { name: 'Grace' })
  await eventually('two users are counted', async () => (await figure.textContent())?.includes('today2'))
  await page.getByText('ok', { exact: true }).first().waitFor()
  await page.getByText('user.created').first().waitFor()
  await look('overview')
  const chart = page.locator('section').filter({ hasText: 'Users' }).locator('.u-over').first()
  // The chart is drawn anew with each new figure, and then asks for another move of the pointer.
  await eventually('the tooltip shows the day', async () => {
    await chart.evaluate((over: { scrollIntoView(to: object): void }) => over.scrollIntoView({ block: 'center' }))
    const { x = 0, y = 0, width = 0 } = (await chart.boundingBox()) ?? {}
    await page.mouse.move(x + width / 2, y + 50)
    await page.mouse.move(x + width - 2, y + 50)
    return page.getByText('2 new users', { exact: true }).isVisible()
  })
})

test('analytics show every series for a period, and give them away as CSV', async () => {
  const tenant = await stage.service.newTenant()
  await tenant.post('/users', { name: 'Ada' })
  await eventually('the user is counted', async () => {
    const { body } = await tenant.get('/analytics?period=7d')
    return body.data.totals.newUsers === 1
  })
  const { page, look, go } = await stage.arrive(tenant, { path: '/analytics' })
  await page.getByRole('heading', { name: 'API requests' }).waitFor()
  await look('analytics')
  const days = () => page.getByRole('table', { name: 'Users', exact: true }).locator('tbody tr').count()
  await eventually('thirty days are shown', async () => (await days()) === 30)
  await page.getByRole('combobox', { name: 'Period' }).click()
  await page.getByRole('option', { name: '7 days' }).click()
  await eventually('seven days are shown', async () => (await days()) === 7)
  expect(new URL(page.url()).searchParams.get('period')).toBe('7d')
  const [download] = await Promise.all([
    page.waitForEvent('download'),
    page.getByRole('button', { name: 'CSV' }).click(),
  ])
  const rows = readFileSync(await download.path(), 'utf8').split('\r\n')
  expect(rows).toHaveLength(8)
  expect(rows[0]).toContain('date,newUsers,activeUsers')
  await go('/analytics?period=90d')
  await eventually('ninety days are shown', async () => (await days()) === 90)
})

test('every meter of the API has a name on the billing page', async () => {
  const tenant = await stage.service.newTenant()
  const { meters } = (await tenant.get('/billing/usage')).body.data as { meters: { key: string }[] }
  const { page } = await stage.arrive(tenant, { path: '/billing' })
  await page.getByText('no limit').first().waitFor()
  const rows = await page.locator('section').filter({ hasText: 'Usage in this period' }).getByRole('listitem').all()
  const shown = await Promise.all(rows.map(async (row) => (await row.textContent())?.replace(/\d.*$/, '')))
  expect(shown).toEqual(['Users', 'Transactions', 'Webhook deliveries', 'API requests'])
  expect(shown).toHaveLength(meters.length)
})

test('without a payment processor the plan cannot be changed, and the page names the settings', async () => {
  const tenant = await stage.service.newTenant()
  const { page, look } = await stage.arrive(tenant, { path: '/billing' })
  await page.getByText('No payment processor is configured').waitFor()
  const reason = await page.getByText('No payment processor is configured').textContent()
  for (const name of ['HALFKEY_STRIPE_SECRET_KEY', 'HALFKEY_STRIPE_WEBHOOK_SECRET']) expect(reason).toContain(name)
  for (const name of ['Switch to Pro', 'Switch to Scale', 'Manage billing'])
    expect(await page.getByRole('button', { name }).isDisabled(), name).toBe(true)
  await look('billing')
})

test('the audit log is filtered, read entry by entry, and leads to the records', async () => {
  const tenant = await stage.service.newTenant()
  const user = (await tenant.post('/users', { name: 'Ada' })).body.data.id as string
  await tenant.patch(`/apps/${tenant.appId}`, { name: 'Shop' })
  // A new tenant has entries of its own.
  await eventually('both acts are in the log', async () => {
    const actions = (await tenant.get('/audit-log')).body.data.map(({ action }: { action: string }) => action)
    return actions.includes('user.created') && actions.includes('app.updated')
  })
  const { page, look, go } = await stage.arrive(tenant, { path: '/audit-log' })
  await page.getByRole('button', { name: 'user.created' }).waitFor()
  // Records and actors go by their names.
  await page.getByRole('cell', { name: 'Ada' }).waitFor()
  await page.getByRole('cell', { name: 'Admin' }).first().waitFor()
  await look('audit-log')
  await page.getByRole('combobox', { name: 'Action' }).click()
  await page.getByRole('option', { name: 'app', exact: true }).click()
  await page.getByRole('button', { name: 'user.created' }).waitFor({ state: 'detached' })
  await page.getByRole('button', { name: 'app.updated' }).waitFor()
  await page.getByRole('button', { name: 'app.updated' }).click()
  await page.getByRole('dialog').getByText('Previous hash').waitFor()
  await look('audit-log-entry')
  await page.getByRole('button', { name: 'Show all for this target' }).click()
  await eventually('the filter is in the address', async () => page.url().includes(`target=${tenant.appId}`))
  await go(`/audit-log?target=${user}`)
  await page.getByRole('link', { name: 'Ada' }).first().click()
  await page.waitForURL(`**/users/${user}`)
  await go('/audit-log?target=usr_nobody')
  await page.getByText('No results').waitFor()
  await look('audit-log-nothing')
  await page.getByRole('button', { name: 'Clear filters' }).click()
  await page.getByRole('button', { name: 'user.created' }).waitFor()
})

test('a key sees the pages that its scopes allow, and no others', async () => {
  const tenant = await stage.service.newTenant()
  const key = await tenant.newKey({ scopes: ['users:read'] })
  const { page, look, go } = await stage.arrive(tenant, { key })
  await page.getByRole('link', { name: 'Users' }).first().waitFor()
  expect(await page.getByRole('link', { name: 'Audit log' }).count()).toBe(0)
  await go('/audit-log')
  await page.getByText('Your API key does not have access to this page.').waitFor()
  await look('not-allowed')
})
