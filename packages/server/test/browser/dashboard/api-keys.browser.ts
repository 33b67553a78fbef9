import type { Page } from 'playwright-core'
import { expect, test } from 'vitest'
import { newApp } from '../../../src/identity/sessions/sessions.fixture.ts'
import { call, type Tenant } from '../../harness/harness.ts'
import { SMOKE } from '../stage.ts'
import { type DashboardOptions, useDashboard } from './support.ts'

const HOSTILE = `<img src=x onerror=alert(1)>"'&</script>`

const stage = useDashboard()

async function open(tenant: Tenant, path = '/api-keys', options: DashboardOptions = {}) {
  return stage.arrive(tenant, { ...options, path })
}

const button = (page: Page, name: string | RegExp) => page.getByRole('button', { name })
const dialog = (page: Page) => page.getByRole('dialog')
const nameField = (page: Page) => dialog(page).getByRole('textbox', { name: 'Name', exact: true })
const asking = (page: Page) => page.getByRole('alertdialog')
const choose = async (page: Page, label: string, option: string) => {
  await page.getByRole('combobox', { name: label, exact: true }).click()
  await page.getByRole('option', { name: option, exact: true }).click()
}
const shownKey = async (page: Page) => (await page.getByLabel('API key', { exact: true }).textContent()) ?? ''
const keyNamed = async (tenant: Tenant, name: string) =>
  (await tenant.get('/api-keys')).body.data.find((key: { name: string }) => key.name === name)
const newKey = async (tenant: Tenant, body: object) => {
  const answer = await tenant.post('/api-keys', { type: 'secret', scopes: ['users:read'], ...body })
  expect(answer.status, answer.text).toBe(201)
  return answer.body.data
}

test(
  'a secret key is made with the scopes, addresses and end that were chosen, and its value is shown once',
  SMOKE,
  async () => {
    const tenant = await stage.service.newTenant()
    const { page, look } = await open(tenant)
    await page.getByText('this session').waitFor()
    await look('api-keys')
    await button(page, 'Create key').click()
    await look('api-key-create')
    await dialog(page).getByRole('button', { name: 'Create key' }).click()
    await dialog(page).getByRole('alert').first().waitFor()
    await nameField(page).fill('Backend')
    await dialog(page).getByLabel('Allowed IP addresses').fill('203.0.113.0/24\nnowhere')
    await dialog(page).getByRole('radio', { name: 'Custom' }).check()
    await dialog(page).getByRole('group', { name: 'Users' }).getByRole('radio', { name: 'Write' }).check()
    await dialog(page).getByRole('group', { name: 'Users' }).getByRole('checkbox', { name: 'Act for users' }).check()
    await dialog(page).getByRole('group', { name: 'Audit log' }).getByRole('radio', { name: 'Read' }).check()
    await choose(page, 'Expires', 'In 90 days')
    await dialog(page).getByRole('button', { name: 'Create key' }).click()
    await dialog(page).getByText('Must be').waitFor()
    expect(await nameField(page).inputValue()).toBe('Backend')
    await look('api-key-create-refused')
    await dialog(page).getByLabel('Allowed IP addresses').fill('203.0.113.0/24\n127.0.0.1')
    await dialog(page).getByRole('button', { name: 'Create key' }).click()
    await page.getByText('It is shown only once.').waitFor()
    const value = await shownKey(page)
    await look('api-key-value')
    await button(page, 'I have saved it').click()
    await page.getByRole('link', { name: 'Backend' }).waitFor()
    expect(await page.getByText(value).count()).toBe(0)
    const made = await keyNamed(tenant, 'Backend')
    expect(made.scopes.toSorted()).toEqual(['audit:read', 'users:act_as', 'users:write'])
    expect(made.allowedIps.length).toBe(2)
    expect(Math.round((Date.parse(made.expiresAt) - Date.now()) / 86_400_000)).toBe(90)
    expect((await call(stage.service.url, 'GET', '/v1/users', { key: value })).status).toBe(200)
    expect((await call(stage.service.url, 'GET', '/v1/webhooks', { key: value })).status).toBe(403)
  },
)

test('a key for everything is warned of', async () => {
  const tenant = await stage.service.newTenant()
  const { page, look } = await open(tenant)
  await button(page, 'Create key').click()
  await nameField(page).fill('Second admin')
  await page.getByRole('radio', { name: 'Full access' }).check()
  await page.getByText('Anyone with this key can act for every user').waitFor()
  await look('api-key-everything')
  await dialog(page).getByRole('button', { name: 'Create key' }).click()
  await page.getByText('It is shown only once.').waitFor()
  expect((await keyNamed(tenant, 'Second admin')).scopes).toEqual(['*'])
})

test('a preset gives a key the scopes for its purpose, and the list names it; the button is always in view', async () => {
  const tenant = await stage.service.newTenant()
  const { page } = await open(tenant)
  await button(page, 'Create key').click()
  await nameField(page).fill('Reporting')
  await dialog(page).getByRole('radio', { name: 'Custom' }).check()
  const create = dialog(page).getByRole('button', { name: 'Create key' })
  const place = await create.boundingBox()
  expect((place?.y ?? Number.NaN) + (place?.height ?? 0)).toBeLessThan(800)
  await dialog(page).getByRole('radio', { name: 'Read only' }).check()
  await create.click()
  await page.getByText('It is shown only once.').waitFor()
  const { scopes } = await keyNamed(tenant, 'Reporting')
  expect(scopes).toContain('audit:read')
  expect(scopes.every((scope: string) => scope.endsWith(':read'))).toBe(true)
  await button(page, 'I have saved it').click()
  await page
    .getByRole('row', { name: /Reporting/ })
    .getByText('read only')
    .waitFor()
})

test('a publishable key is made for an app', async () => {
  const tenant = await stage.service.newTenant()
  const other = await newApp(tenant, { name: 'Second app' })
  const { page, look } = await open(tenant)
  await button(page, 'Create key').click()
  await nameField(page).fill('Web')
  await choose(page, 'Type', 'Publishable: for browsers and apps')
  await choose(page, 'App', 'Second app')
  expect(await dialog(page).getByRole('group', { name: 'Scopes' }).count()).toBe(0)
  await look('api-key-publishable')
  await dialog(page).getByRole('button', { name: 'Create key' }).click()
  await page.getByText('It is shown only once.').waitFor()
  expect(await shownKey(page)).toMatch(/^hk_pk_/)
  await button(page, 'I have saved it').click()
  await page.getByRole('row', { name: /Web/ }).getByText('Second app').waitFor()
  expect(await keyNamed(tenant, 'Web')).toMatchObject({ type: 'publishable', appId: other, scopes: [] })
})

test('a key is rotated: by default its old value works for a day, at once if that is chosen', async () => {
  const tenant = await stage.service.newTenant()
  const { key: old } = await newKey(tenant, { name: 'Backend' })
  const { page, look } = await open(tenant)
  const works = async (key: string) => (await call(stage.service.url, 'GET', '/v1/users', { key })).status
  await button(page, 'Rotate Backend').click()
  await look('api-key-rotate')
  await dialog(page).getByRole('button', { name: 'Rotate' }).click()
  await page.getByText('It is shown only once.').waitFor()
  const second = await shownKey(page)
  await look('api-key-rotated')
  expect([await works(old), await works(second)]).toEqual([200, 200])
  await button(page, 'I have saved it').click()
  await button(page, 'Rotate Backend').click()
  await choose(page, 'The old value stops working', 'Immediately')
  await dialog(page).getByRole('button', { name: 'Rotate' }).click()
  await page.getByText('It is shown only once.').waitFor()
  expect([await works(old), await works(second), await works(await shownKey(page))]).toEqual([401, 401, 200])
})

test('the key that one is signed in by keeps some time when it is rotated, so that its new value is seen', async () => {
  const tenant = await stage.service.newTenant()
  const { page, look } = await open(tenant)
  await button(page, 'Rotate Admin').click()
  await page.getByText('You are signed in with the old value.').waitFor()
  await page.getByRole('combobox', { name: 'The old value stops working' }).click()
  await page.getByRole('option', { name: 'In an hour' }).waitFor()
  expect(await page.getByRole('option').allTextContents()).toEqual(['In an hour', 'In a day', 'In a week'])
  await page.getByRole('option', { name: 'In an hour' }).click()
  await look('api-key-rotate-own')
  await dialog(page).getByRole('button', { name: 'Rotate' }).click()
  await page.getByText('It is shown only once.').waitFor()
  expect((await call(stage.service.url, 'GET', '/v1/users', { key: await shownKey(page) })).status).toBe(200)
  await button(page, 'I have saved it').click()
  await page.getByText('this session').waitFor()
})

test('a key is revoked after a question and stops at once; the last one for everything is refused', async () => {
  const tenant = await stage.service.newTenant()
  const { key } = await newKey(tenant, { name: HOSTILE })
  const { page, look } = await open(tenant)
  await button(page, `Revoke ${HOSTILE}`).click()
  await asking(page).getByText(HOSTILE).waitFor()
  await look('api-key-revoke')
  await asking(page).getByRole('button', { name: 'Revoke key' }).click()
  await page.getByText('Key revoked').waitFor()
  await page.getByRole('cell', { name: 'revoked', exact: true }).waitFor()
  expect((await call(stage.service.url, 'GET', '/v1/users', { key })).status).toBe(401)
  expect(await button(page, `Revoke ${HOSTILE}`).count()).toBe(0)
  await button(page, 'Revoke Admin').click()
  await asking(page).getByText('you will be signed out').waitFor()
  await asking(page).getByRole('button', { name: 'Revoke key' }).click()
  await asking(page).getByRole('alert').getByText('This is the last key').waitFor()
  await look('api-key-revoke-refused')
})

test('a link to a key shows all of it but its value', async () => {
  const tenant = await stage.service.newTenant()
  const scopes = ['users:write', 'wallets:read', 'delegated_sessions:execute', 'custom_domains:write']
  const made = await newKey(tenant, {
    name: HOSTILE.repeat(4),
    scopes,
    allowedIps: ['2001:db8::/32'],
    metadata: { a: 'b' },
  })
  const { page, look } = await open(tenant, `/api-keys?key=${made.id}`)
  await dialog(page).getByText('2001:db8::/32').waitFor()
  await look('api-key')
  expect(await page.locator('main img, [role=dialog] img').count()).toBe(0)
  expect(await page.content()).not.toContain(made.key)
  await button(page, 'Close').click()
  await dialog(page).waitFor({ state: 'detached' })
  expect(page.url()).not.toContain('key=')
})

test('a narrow key makes none that is wider: what it lacks cannot be chosen', async () => {
  const tenant = await stage.service.newTenant()
  const key = await tenant.newKey({ scopes: ['api_keys:write', 'users:read'], appId: tenant.appId })
  const { page, look } = await open(tenant, '/api-keys', { key })
  await button(page, 'Create key').click()
  await dialog(page).getByRole('radio', { name: 'Custom' }).check()
  const users = dialog(page).getByRole('group', { name: 'Users' })
  expect(await users.getByRole('radio', { name: 'Read' }).isEnabled()).toBe(true)
  expect(await users.getByRole('radio', { name: 'Write' }).isDisabled()).toBe(true)
  expect(await page.getByRole('radio', { name: 'Full access' }).isDisabled()).toBe(true)
  await look('api-key-create-narrow')
  await nameField(page).fill('Reader')
  await users.getByRole('radio', { name: 'Read' }).check()
  await dialog(page).getByRole('button', { name: 'Create key' }).click()
  await page.getByText('It is shown only once.').waitFor()
  expect(await keyNamed(tenant, 'Reader')).toMatchObject({ scopes: ['users:read'], appId: tenant.appId })
})
