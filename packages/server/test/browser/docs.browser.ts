import type { Page } from 'playwright-core'
import { afterEach, expect, test } from 'vitest'
import { violationsOf } from './accessibility.ts'
import { SMOKE, useStage } from './stage.ts'

const PHONE = { width: 360, height: 740 }
const DESKTOP = { width: 1280, height: 900 }

const stage = useStage()
let page: Page
let requested: string[]
let complaints: string[]
afterEach(async () => {
  await page.context().close()
  expect(complaints).toEqual([])
})

async function open(path: string, viewport = DESKTOP): Promise<Page> {
  const context = await stage.browser.newContext({ viewport, reducedMotion: 'reduce' })
  page = await context.newPage()
  requested = []
  complaints = []
  page.on('request', (request) => requested.push(request.url()))
  page.on('pageerror', (error) => complaints.push(String(error)))
  page.on('console', (message) => {
    if (message.type() === 'error' && !message.text().includes('404')) complaints.push(message.text())
  })
  await page.goto(stage.service.url + path)
  return page
}

/** Each with what the others have not: cards, lists of sections, tables and code, many links, an error, the 404. */
const KINDS = [
  '/docs',
  '/docs/rate-limits',
  '/docs/quick-start',
  '/docs/errors',
  '/docs/errors/policy_denied',
  '/docs/no',
]

test.each(KINDS)('%s is accessible, light on a desktop and dark on a phone, and fits both', async (path) => {
  await open(path)
  for (const [viewport, colorScheme] of [
    [DESKTOP, 'light'],
    [PHONE, 'dark'],
  ] as const) {
    await page.setViewportSize(viewport)
    await page.emulateMedia({ colorScheme })
    expect(await violationsOf(page), `${path}, ${colorScheme}`).toEqual([])
    const overflow = 'document.documentElement.scrollWidth - document.documentElement.clientWidth'
    expect(await page.evaluate(overflow), `${path} at ${viewport.width} is wider than the window`).toBe(0)
    const folder = process.env.HALFKEY_SCREENSHOTS
    if (folder !== undefined)
      await page.screenshot({ path: `${folder}/docs${path.replaceAll('/', '-')}-${colorScheme}.png` })
  }
})

test('nothing is asked of another server', SMOKE, async () => {
  await open('/docs/concepts')
  await page.getByRole('searchbox').fill('custody')
  await page
    .getByRole('link', { name: /Wallets: who can move what/ })
    .first()
    .waitFor()
  expect(requested.filter((url) => !url.startsWith(stage.service.url) && !url.startsWith('data:'))).toEqual([])
})

test('the filter finds pages and headings, by keyboard alone', async () => {
  await open('/docs')
  await page.getByRole('searchbox').fill('changing sec')
  const hit = page.locator('#site-found').getByRole('link', { name: /Changing the secret/ })
  await hit.waitFor()
  await page.keyboard.press('ArrowDown')
  await page.keyboard.press('Enter')
  await page.waitForURL('**/docs/webhooks#changing-the-secret')
  await page.getByRole('searchbox').fill('spend_limit')
  await page.locator('#site-found').getByRole('link', { name: 'spend_limit_exceeded' }).waitFor()
  await page.getByRole('searchbox').press('Enter')
  await page.waitForURL('**/docs/errors/spend_limit_exceeded')
  await page.getByRole('searchbox').fill('zzzz')
  await page.getByText('Nothing has these words.').waitFor()
  await page.keyboard.press('Escape')
  expect(await page.locator('#site-found').isVisible()).toBe(false)
})

test('a sample is copied as it stands', async () => {
  await open('/docs/quick-start')
  await page.context().grantPermissions(['clipboard-read', 'clipboard-write'])
  const sample = page.locator('.sample').first()
  const told = sample.getByRole('button', { name: 'Copied' }).waitFor()
  await Promise.all([told, sample.getByRole('button', { name: 'Copy', exact: true }).click()])
  expect(await page.evaluate('navigator.clipboard.readText()')).toBe('npm ci && npm start\n')
})

test('the skip link leads past the list of pages, which on a phone is closed', async () => {
  await open('/docs/webhooks', PHONE)
  expect(await page.getByRole('navigation', { name: 'Documentation' }).isVisible()).toBe(false)
  await page.getByText('All pages').click()
  await page.getByRole('navigation', { name: 'Documentation' }).waitFor()
  await page.goto(`${stage.service.url}/docs/webhooks`)
  await page.keyboard.press('Tab')
  await page.keyboard.press('Enter')
  expect(await page.evaluate('document.activeElement.id')).toBe('site-content')
})

test('without scripts every page can be read and reached', async () => {
  const context = await stage.browser.newContext({ javaScriptEnabled: false })
  page = await context.newPage()
  complaints = []
  await page.goto(`${stage.service.url}/docs`)
  await page.getByRole('link', { name: 'Receiving events' }).first().click()
  expect(await page.getByRole('heading', { level: 1 }).textContent()).toBe('Receiving events')
  expect(await page.getByRole('searchbox').count()).toBe(0)
})

test('the API reference is drawn where it says, and leads nowhere else', async () => {
  await open('/docs/api')
  await page.getByRole('heading', { name: 'Halfkey API' }).first().waitFor()
  expect(requested.filter((url) => !url.startsWith(stage.service.url) && !/^(data|blob):/.test(url))).toEqual([])
})
