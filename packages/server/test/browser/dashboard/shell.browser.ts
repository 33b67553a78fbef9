import type { Page } from 'playwright-core'
import { expect, test } from 'vitest'
import { createLink } from '../../../src/operations/dashboard/link.ts'
import { eventually } from '../../harness/harness.ts'
import { newContext, originOf } from '../person.ts'
import { SMOKE } from '../stage.ts'
import { openDashboard, useDashboard } from './support.ts'

const FIRST_LOAD_BYTES_MAX = 300_000
const HOUR_MS = 3_600_000

const stage = useDashboard()

/** The operator's way in, in a browser of their own. */
async function byLink(path = ''): Promise<Page> {
  const page = await (await newContext(stage.browser, { reducedMotion: 'reduce' })).newPage()
  const { url } = await createLink(stage.service.deps, null)
  const token = new URL(url.replace(/http:\/\/[^/]+/, originOf(stage.service))).hash
  await page.goto(`${originOf(stage.service)}/dashboard${path}${token}`)
  return page
}

test('a one-time link signs in once, leaves the address at once, and says what to do the second time', async () => {
  const { url } = await createLink(stage.service.deps, null)
  const link = url.replace(/http:\/\/[^/]+/, originOf(stage.service))
  const context = await newContext(stage.browser, { reducedMotion: 'reduce' })
  const page = await context.newPage()
  await page.goto(link)
  await page.getByRole('heading', { name: 'Overview' }).waitFor()
  expect(page.url()).not.toContain('link=')
  const cookies = await context.cookies()
  expect(cookies.map(({ name, httpOnly, sameSite, path }) => [name, httpOnly, sameSite, path])).toEqual([
    ['halfkey_dashboard', true, 'Strict', '/dashboard'],
  ])
  const other = await (await newContext(stage.browser)).newPage()
  await other.goto(link)
  await other.getByText('Run `halfkey dashboard link` for a new one').waitFor()
  await other.context().close()
  await context.close()
})

test(
  'a wrong key is refused in words at its field, and a right one opens the page that was asked for',
  SMOKE,
  async () => {
    const tenant = await stage.service.newTenant()
    const page = await (await newContext(stage.browser)).newPage()
    await page.goto(`${originOf(stage.service)}/dashboard/audit-log?action=user.*`)
    await page.getByLabel('Secret key').fill('hk_sk_wrong')
    await page.getByRole('button', { name: 'Sign in' }).click()
    await page.getByRole('alert').getByText('not valid').waitFor()
    await page.getByLabel('Secret key').fill(tenant.key)
    await page.keyboard.press('Enter')
    await page.getByRole('heading', { name: 'Audit log' }).waitFor()
    expect(page.url()).toContain('/audit-log?action=user.*')
    await page.context().close()
  },
)

test('the way in is for everybody: axe, phone, dark', async () => {
  const tenant = await stage.service.newTenant()
  const { page, look } = await stage.arrive(tenant)
  await page.getByRole('button', { name: 'Sign out' }).click()
  await page.getByText('You are signed out.').waitFor()
  await look('sign-in')
})

test('signing out leaves nothing behind: no cookie, no way back, no data in the page', async () => {
  const tenant = await stage.service.newTenant()
  const email = `${tenant.tenantId}@example.com`
  await tenant.post('/users', { email })
  const { page, context } = await stage.arrive(tenant, { path: '/users' })
  await page.getByRole('link', { name: email }).waitFor()
  const [cookie] = await context.cookies()
  await page.getByRole('button', { name: 'Sign out' }).click()
  await page.getByText('You are signed out.').waitFor()
  expect(await page.content()).not.toContain(email)
  expect(await context.cookies()).toEqual([])
  const kept = await page.evaluate('JSON.stringify([{ ...localStorage }, { ...sessionStorage }])')
  expect(kept).not.toMatch(/example\.com|hk_sk_/)
  await page.goBack().catch(() => null)
  expect(await page.content()).not.toContain(email)
  const replayed = await fetch(`${stage.service.url}/dashboard/api/users`, {
    headers: { cookie: `${cookie?.name}=${cookie?.value}` },
  })
  expect(replayed.status).toBe(401)
})

test('a session that ends while one works asks to sign in again, and goes on where one was', async () => {
  const tenant = await stage.service.newTenant()
  const key = await tenant.newKey({ scopes: ['*'] })
  const { page } = await stage.arrive(tenant, { key, path: '/audit-log' })
  await page.getByRole('heading', { name: 'Audit log' }).waitFor()
  const keys = (await tenant.get('/api-keys')).body.data as { id: string; last4: string }[]
  const revoked = keys.find(({ last4 }) => key.endsWith(last4))
  await tenant.delete(`/api-keys/${revoked?.id}`)
  await page.getByText('Your session has ended').waitFor()
  await page.getByLabel('Secret key').fill(tenant.key)
  await page.getByRole('button', { name: 'Sign in' }).click()
  await page.getByRole('heading', { name: 'Audit log' }).waitFor()
})

test('the operator goes from tenant to tenant, and an address leads back to the same one', async () => {
  const [first, second] = [await stage.service.newTenant(), await stage.service.newTenant()]
  const [acme, umbrella] = ['Acme', 'Umbrella'].map((name) => `${name} ${second.tenantId.slice(-8)}`) as [
    string,
    string,
  ]
  await first.patch('/tenant', { name: acme })
  await second.patch('/tenant', { name: umbrella })
  const user = (await second.post('/users', { email: 'alice@umbrella.example' })).body.data.id
  const page = await byLink()
  await page.getByRole('combobox', { name: 'Tenant' }).click()
  await page.getByRole('option', { name: umbrella }).click()
  await page.getByText(`${umbrella} at`).waitFor()
  await page.getByRole('link', { name: 'Users' }).first().click()
  await page.getByRole('link', { name: 'alice@umbrella.example' }).waitFor()
  const address = page.url()
  expect(new URL(address).searchParams.get('tenant')).toBe(second.tenantId)
  await page.getByRole('combobox', { name: 'Tenant' }).click()
  await page.getByRole('option', { name: acme }).click()
  await page.getByText(`${acme} at`).waitFor()
  await page.getByRole('link', { name: 'Users' }).first().click()
  await page.getByText('No users yet').waitFor()
  await page.goto(address)
  await page.getByRole('link', { name: 'alice@umbrella.example' }).waitFor()
  await page.goto(`${originOf(stage.service)}/dashboard/users/${user}?tenant=${first.tenantId}`)
  await page.getByText('This record does not exist.').waitFor()
  await page.goto(`${originOf(stage.service)}/dashboard/users?tenant=ten_nobody`)
  await page.getByRole('heading', { name: 'Users' }).waitFor()
  await page.context().close()
})

test('a step back into another tenant shows that tenant, and acts nowhere else than where it says', async () => {
  const [first, second] = [await stage.service.newTenant(), await stage.service.newTenant()]
  const [back, forth] = ['Back', 'Forth'].map((name) => `${name} ${second.tenantId.slice(-8)}`) as [string, string]
  await first.patch('/tenant', { name: back })
  await second.patch('/tenant', { name: forth })
  await first.post('/users', { email: 'bob@back.example' })
  await second.post('/users', { email: 'carol@forth.example' })
  const page = await byLink(`/users?tenant=${first.tenantId}`)
  const isShown = async (name: string, email: string) => {
    await page.getByRole('link', { name: email }).waitFor()
    await page.getByRole('combobox', { name: 'Tenant' }).filter({ hasText: name }).waitFor()
  }
  await isShown(back, 'bob@back.example')
  await page.getByRole('combobox', { name: 'Tenant' }).click()
  await page.getByRole('option', { name: forth }).click()
  await page.getByText(`${forth} at`).waitFor()
  await page.getByRole('link', { name: 'Users' }).first().click()
  await isShown(forth, 'carol@forth.example')
  await page.goBack()
  await page.getByText(`${forth} at`).waitFor()
  await page.goBack()
  await isShown(back, 'bob@back.example')
  await page.goForward()
  await page.getByText(`${forth} at`).waitFor()
  await page.goto(`${originOf(stage.service)}/dashboard/users?tenant=ten_nobody`)
  const someone = page.getByRole('link', { name: /@(back|forth)\.example/ })
  await someone.or(page.getByText('No users yet')).first().waitFor()
  await page.waitForURL((url) => url.searchParams.get('tenant') !== 'ten_nobody')
  await page.context().close()
})

test('a tab whose session another tab has ended signs out all the same, and shows nobody else’s data', async () => {
  const [tenant, other] = [await stage.service.newTenant(), await stage.service.newTenant()]
  const email = `${tenant.tenantId}@example.com`
  await tenant.post('/users', { email })
  await other.post('/users', { email: 'dave@other.example' })
  const { page, context } = await stage.arrive(tenant, { path: '/users' })
  await page.reload()
  await page.getByRole('link', { name: email }).waitFor()
  // A page that asks for nothing by itself learns of it when it is used.
  const park = async () => {
    await page.getByRole('link', { name: 'Settings' }).first().click()
    await page.getByRole('heading', { name: 'Settings', level: 1 }).waitFor()
  }
  await park()
  const tab = await context.newPage()
  await tab.goto(`${originOf(stage.service)}/dashboard/users`)
  await tab.getByRole('button', { name: 'Sign out' }).click()
  await tab.getByLabel('Secret key').fill(other.key)
  await tab.getByRole('button', { name: 'Sign in' }).click()
  await tab.getByRole('link', { name: 'dave@other.example' }).waitFor()
  const refused = page.waitForResponse((answer) => answer.url().includes('/api/users') && answer.status() === 404)
  await page.getByRole('link', { name: 'Users' }).first().click()
  await refused
  expect(await page.content()).not.toContain('dave@other.example')
  await park()
  await tab.getByRole('button', { name: 'Sign out' }).click()
  await tab.getByText('You are signed out.').waitFor()
  await page.getByRole('button', { name: 'Sign out' }).click()
  await page.getByLabel('Secret key').waitFor()
  expect(await page.content()).not.toContain(email)
})

test('⌘K finds pages, users and ids by the keyboard alone', async () => {
  const tenant = await stage.service.newTenant()
  const user = (await tenant.post('/users', { email: 'grace@example.com', name: '<b>Grace</b>' })).body.data.id
  const { page, look } = await stage.arrive(tenant)
  const palette = page.getByRole('dialog', { name: 'Search' })
  const opened = (keys: string) =>
    eventually('the palette takes what is typed', async () => {
      // Pressed before the page listens, it is pressed again.
      if (!(await palette.isVisible())) await page.keyboard.press(keys)
      return palette.locator('input:focus').isVisible()
    })
  await opened('Control+k')
  await look('palette')
  await page.keyboard.type('dead letters')
  await palette.getByRole('option', { selected: true, name: 'Webhooks' }).waitFor()
  await page.keyboard.press('Enter')
  await page.waitForURL('**/webhooks')
  await opened('Control+k')
  await page.keyboard.type('grace@')
  await palette.getByRole('option', { name: 'grace@example.com' }).waitFor()
  await palette.getByRole('option', { name: 'grace@example.com' }).click()
  await page.waitForURL(`**/users/${user}`)
  await opened('Meta+k')
  await page.keyboard.type(tenant.appId)
  await palette.getByRole('option', { selected: true, name: tenant.appId }).waitFor()
  await page.keyboard.press('Enter')
  await page.waitForURL(`**/settings/apps/${tenant.appId}`)
  await opened('Control+k')
  await page.keyboard.press('Escape')
  await palette.waitFor({ state: 'detached' })
})

test('the colours are chosen and kept; as the device has them without a choice', async () => {
  const tenant = await stage.service.newTenant()
  const { page } = await stage.arrive(tenant, { dark: true })
  const background = () => page.evaluate<string>('getComputedStyle(document.body).backgroundColor')
  const dark = await background()
  await page.getByRole('button', { name: 'Theme' }).click()
  await page.getByRole('menuitemradio', { name: 'Light' }).click()
  await eventually('the background is light', async () => (await background()) !== dark)
  const light = await background()
  await page.reload()
  await page.getByRole('heading', { name: 'Overview' }).waitFor()
  expect(await background()).toBe(light)
  await page.getByRole('button', { name: 'Theme' }).click()
  await page.getByRole('menuitemradio', { name: 'System' }).click()
  await eventually('the background is dark', async () => (await background()) === dark)
})

test('on a phone the menu opens over the page, goes where one taps, and closes', async () => {
  const tenant = await stage.service.newTenant()
  const { page, look } = await stage.arrive(tenant, { phone: true })
  await page.getByRole('button', { name: 'Menu' }).click()
  await page.getByRole('dialog').getByRole('link', { name: 'Settings' }).waitFor()
  await look('menu')
  await page.setViewportSize({ width: 390, height: 844 })
  await page.getByRole('dialog').getByRole('link', { name: 'Settings' }).click()
  await page.getByRole('heading', { name: 'Settings' }).waitFor()
  await page.getByRole('dialog').waitFor({ state: 'detached' })
})

test('a page that does not exist says so, and the first link leads past the menu', async () => {
  const tenant = await stage.service.newTenant()
  const { page, look } = await stage.arrive(tenant, { path: '/nowhere' })
  await page.getByText('This page does not exist.').waitFor()
  await look('nowhere')
  await page.keyboard.press('Tab')
  expect(await page.evaluate('document.activeElement.textContent')).toBe('Skip to content')
  await page.keyboard.press('Enter')
  expect(await page.evaluate('document.activeElement.id')).toBe('content')
})

test('the first load is less than 300 kB, all from this server, and nothing of it is inline', SMOKE, async () => {
  const tenant = await stage.service.newTenant()
  // Apart from the stage: the page will complain of the script that it refuses.
  const { page } = await openDashboard(stage.browser, stage.service, tenant)
  const cdp = await page.context().newCDPSession(page)
  await cdp.send('Network.enable')
  await cdp.send('Network.setCacheDisabled', { cacheDisabled: true })
  let bytes = 0
  const foreign: string[] = []
  cdp.on('Network.loadingFinished', ({ encodedDataLength }) => {
    bytes += encodedDataLength
  })
  cdp.on('Network.requestWillBeSent', ({ request }) => {
    if (!request.url.startsWith(originOf(stage.service)) && !request.url.startsWith('data:')) foreign.push(request.url)
  })
  await page.reload({ waitUntil: 'networkidle' })
  expect(foreign).toEqual([])
  expect(bytes).toBeGreaterThan(50_000)
  expect(bytes).toBeLessThan(FIRST_LOAD_BYTES_MAX)
  expect(await page.evaluate('[...document.fonts].map(({ status }) => status)')).toEqual(['loaded'])
  const refused = await page.evaluate(`(() => {
    const script = document.createElement('script')
    script.textContent = 'globalThis.ran = true'
    document.body.append(script)
    return globalThis.ran === undefined
  })()`)
  expect(refused).toBe(true)
  await page.context().close()
})

test('a session ends by itself after a while without use', async () => {
  const tenant = await stage.service.newTenant()
  const { page } = await stage.arrive(tenant, { path: '/settings' })
  await page.getByRole('heading', { name: 'Settings' }).waitFor()
  stage.service.advance(13 * HOUR_MS)
  await page.reload()
  await page.getByLabel('Secret key').waitFor()
})
