import type { Page } from 'playwright-core'
import { expect, test } from 'vitest'
import { newGuest } from '../../../src/identity/guests/guests.fixture.ts'
import { newApp } from '../../../src/identity/sessions/sessions.fixture.ts'
import type { Tenant } from '../../harness/harness.ts'
import { type DashboardOptions, useDashboard } from './support.ts'

const stage = useDashboard()

async function open(tenant: Tenant, path: string, options: DashboardOptions = {}) {
  return stage.arrive(tenant, { ...options, path })
}

const button = (page: Page, name: string | RegExp) => page.getByRole('button', { name })
const dialog = (page: Page) => page.getByRole('dialog')
const asking = (page: Page) => page.getByRole('alertdialog')
const choose = async (page: Page, label: string, option: string) => {
  await page.getByRole('combobox', { name: label }).click()
  await page.getByRole('option', { name: option, exact: true }).click()
}
const statusOf = async (tenant: Tenant, id: string) => (await tenant.get(`/guests/${id}`)).body.data.status

test('an empty list of guests holds a command that begins one, and the list shows them by itself', async () => {
  const tenant = await stage.service.newTenant()
  const { page, look } = await open(tenant, '/guests')
  await page.getByText('No guests yet').waitFor()
  await look('guests-empty')
  const command = (await page.locator('main pre').textContent()) ?? ''
  const body = /-d '(.*)'$/s.exec(command)?.[1] ?? ''
  const { id } = await newGuest(tenant, JSON.parse(body))
  await page.getByRole('link', { name: id }).waitFor()
})

test('guests are found by status and app', async () => {
  const tenant = await stage.service.newTenant()
  const other = await newApp(tenant, { name: 'Second app' })
  const ended = await newGuest(tenant)
  const live = await newGuest(tenant)
  const elsewhere = await newGuest(tenant, { appId: other })
  await tenant.delete(`/guests/${ended.id}`)
  const { page, look, go } = await open(tenant, '/guests')
  await page.getByRole('link', { name: live.id }).waitFor()
  await look('guests')
  await choose(page, 'Status', 'expired')
  await page.getByRole('link', { name: live.id }).waitFor({ state: 'detached' })
  await page.getByRole('link', { name: ended.id }).waitFor()
  expect(page.url()).toContain('status=expired')
  await choose(page, 'Status', 'converted')
  await page.getByText('No results').waitFor()
  await look('guests-none-match')
  await button(page, 'Clear filters').click()
  await page.getByRole('link', { name: live.id }).waitFor()
  await go(`/guests?app=${other}`)
  await page.getByRole('link', { name: elsewhere.id }).waitFor()
  expect(await page.getByRole('link', { name: live.id }).count()).toBe(0)
})

test('a guest is converted in their dialog; what is wrong is said at its field, and the id stays', async () => {
  const tenant = await stage.service.newTenant()
  await tenant.post('/users', { email: 'ada@example.com' })
  const guest = await newGuest(tenant, { metadata: { campaign: '<img src=x onerror=alert(1)>' } })
  const { page, look } = await open(tenant, '/guests')
  await page.getByRole('link', { name: guest.id }).click()
  await dialog(page).getByText(guest.userId, { exact: true }).waitFor()
  expect(page.url()).toContain(`guest=${guest.id}`)
  await look('guest')
  await button(page, 'Convert to user').click()
  await button(page, 'Convert to user').click()
  await dialog(page).getByRole('alert').first().waitFor()
  await dialog(page).getByLabel('Email').fill('ada@example.com')
  await dialog(page).getByLabel('Name', { exact: true }).fill('Ada')
  await button(page, 'Convert to user').click()
  await dialog(page).getByText('Another user of this app has this email.').waitFor()
  await look('guest-convert-refused')
  await dialog(page).getByLabel('Email').fill('countess@example.com')
  await button(page, 'Convert to user').click()
  await page.waitForURL(`**/users/${guest.userId}`)
  await page.getByRole('heading', { level: 1, name: 'Ada' }).waitFor()
  expect(await statusOf(tenant, guest.id)).toBe('converted')
  expect((await tenant.get(`/users/${guest.userId}`)).body.data.email).toBe('countess@example.com')
})

test('a guest session is ended after a question; a link to a guest opens it', async () => {
  const tenant = await stage.service.newTenant()
  const guest = await newGuest(tenant)
  const { page, look } = await open(tenant, `/guests?guest=${guest.id}`)
  await button(page, 'End session').click()
  await look('guest-end')
  await asking(page).getByRole('button', { name: 'End session' }).click()
  await page.getByText('Guest session ended').waitFor()
  expect(await statusOf(tenant, guest.id)).toBe('expired')
  await dialog(page).getByText('expired').waitFor()
  expect(await button(page, 'Convert to user').count()).toBe(0)
  await button(page, 'Close').click()
  await page.getByRole('dialog', { name: 'Guest session', exact: true }).waitFor({ state: 'detached' })
  expect(page.url()).not.toContain('guest=')
})

test('a guest session is begun from the list, and its token shown once', async () => {
  const tenant = await stage.service.newTenant()
  const { page, look } = await open(tenant, '/guests')
  await button(page, 'Start guest session').click()
  await choose(page, 'Lifetime', '1 hour')
  await look('guest-begin')
  await button(page, 'Start session').click()
  const token = (await page.getByLabel('Access token', { exact: true }).textContent()) ?? ''
  expect(token.split('.')).toHaveLength(3)
  await look('guest-token')
  await button(page, 'I have saved it').click()
  const [guest] = (await tenant.get('/guests')).body.data
  await page.getByRole('link', { name: guest.id }).waitFor()
  expect(Date.parse(guest.expiresAt) - Date.parse(guest.createdAt)).toBe(3_600_000)
})

test('a clean-up says how many it ends before it ends them', async () => {
  const tenant = await stage.service.newTenant()
  const guests = [await newGuest(tenant), await newGuest(tenant), await newGuest(tenant)]
  const { page, look } = await open(tenant, '/guests')
  await button(page, 'Clean up').click()
  await page.getByText('There are no sessions to end.').waitFor()
  expect(await button(page, 'End sessions').isDisabled()).toBe(true)
  await look('guests-clean-up-none')
  await choose(page, 'Sessions to end', 'All sessions')
  await page.getByText('This ends 3 guest sessions.').waitFor()
  expect(await statusOf(tenant, guests[0].id)).toBe('active')
  await look('guests-clean-up')
  await button(page, 'End 3').click()
  await page.getByText('3 guest sessions ended').waitFor()
  for (const { id } of guests) expect(await statusOf(tenant, id)).toBe('expired')
  await page.getByRole('cell', { name: 'active' }).first().waitFor({ state: 'detached' })
})
