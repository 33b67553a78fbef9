import type { Page } from 'playwright-core'
import { afterEach, expect, test } from 'vitest'
import { violationsOf } from './accessibility.ts'
import { layoutShift } from './layout-shift.ts'
import { newContext } from './person.ts'
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
  const context = await newContext(stage.browser, { viewport, reducedMotion: 'reduce' })
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

/** Each with what the others have not: cards, lists of sections, tables and code, tabs, many links, an error, the 404. */
const KINDS = [
  '/docs',
  '/docs/rate-limits',
  '/docs/quick-start',
  '/docs/webhooks',
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

const searchBox = () => page.getByRole('combobox', { name: 'Search the documentation' })
const found = () => page.getByRole('listbox', { name: 'Sections found' })
const shoot = async (name: string) => {
  const folder = process.env.HALFKEY_SCREENSHOTS
  if (folder !== undefined) await page.screenshot({ path: `${folder}/docs-${name}.png` })
}

test('the search asks this server alone, and not before somebody types', SMOKE, async () => {
  await open('/docs/concepts')
  await searchBox().focus()
  const loads = () => requested.filter((url) => /search\.json|minisearch/.test(url)).length
  expect(loads()).toBe(0)
  await searchBox().fill('custody')
  await found().getByRole('option').first().waitFor()
  await searchBox().fill('wallet')
  await found()
    .getByRole('option', { name: /Wallets/ })
    .first()
    .waitFor()
  expect(loads()).toBe(2)
  expect(requested.filter((url) => !url.startsWith(stage.service.url) && !url.startsWith('data:'))).toEqual([])
})

test('the search finds sections, shows where the words stand, and leads there by keyboard alone', async () => {
  await open('/docs')
  await searchBox().focus()
  await page.keyboard.type('old secret rotate')
  const hit = found().getByRole('option', { name: /Changing the secret/ })
  await hit.waitFor()
  expect(await hit.locator('.snippet').textContent()).toMatch(/with the old secret/)
  const marked = (await hit.locator('mark').allTextContents()).map((word) => word.toLowerCase())
  expect(marked).toEqual(expect.arrayContaining(['old', 'secret', 'rotate']))
  expect(await violationsOf(page)).toEqual([])
  await shoot('search')
  const selected = () => found().getByRole('option', { selected: true })
  const first = await selected().textContent()
  await page.keyboard.press('ArrowDown')
  expect(await selected().count()).toBe(1)
  expect(await selected().textContent()).not.toBe(first)
  expect(await searchBox().getAttribute('aria-activedescendant')).toBe(await selected().getAttribute('id'))
  await page.keyboard.press('ArrowUp')
  expect(await selected().textContent()).toBe(first)
  // Round the end, and back.
  await page.keyboard.press('ArrowUp')
  expect(await selected().getAttribute('id')).toBe(await found().getByRole('option').last().getAttribute('id'))
  await page.keyboard.press('ArrowDown')
  expect(await selected().textContent()).toBe(first)
  while (!(await selected().textContent())?.startsWith('Changing the secret')) await page.keyboard.press('ArrowDown')
  await page.keyboard.press('Enter')
  await page.waitForURL('**/docs/webhooks#changing-the-secret')
})

test.each([
  ['the beginning of a word', 'idempot', '/docs/conventions'],
  ['a typo', 'webhoks', '/docs/webhooks'],
  ['words of a sample', 'verifyWebhook', '/docs/webhooks#verifying'],
  ['a question', 'how do I rotate the secret of a webhook?', '/docs/webhooks#changing-the-secret'],
])('the search finds %s', async (_, words, path) => {
  await open('/docs')
  await searchBox().fill(words)
  await found().locator(`a[href^="${path}"]`).first().waitFor()
})

test('Enter opens the first section found', async () => {
  await open('/docs')
  await searchBox().fill('spend_limit_exceeded')
  await found().getByRole('option').first().waitFor()
  await page.keyboard.press('Enter')
  await page.waitForURL('**/docs/errors/spend_limit_exceeded')
})

test('a search without a result says what to do, and Escape ends it', async () => {
  await open('/docs', PHONE)
  await page.emulateMedia({ colorScheme: 'dark' })
  await searchBox().fill('zzzzzzzz')
  await page.locator('.found').getByText('Try fewer or other words').waitFor()
  expect(await found().getByRole('option').count()).toBe(0)
  await shoot('search-nothing')
  // Characters that mean something in a pattern.
  await searchBox().fill('<b> .* \\ [x- $ webhook')
  await found().getByRole('option').first().waitFor()
  await searchBox().fill('webhook secret')
  await found()
    .getByRole('option', { name: /Changing the secret/ })
    .waitFor()
  expect(await violationsOf(page)).toEqual([])
  await shoot('search-phone')
  await page.keyboard.press('Escape')
  expect(await page.locator('.found').isVisible()).toBe(false)
  expect(await searchBox().inputValue()).toBe('')
})

test('samples in several languages are tabs, moved through by keyboard', async () => {
  await open('/docs/webhooks')
  const tabs = page.locator('.samples', { hasText: 'compare_digest' })
  const tab = (name: string) => tabs.getByRole('tab', { name, exact: true })
  const isShown = async (name: string) => {
    expect(await tabs.getByRole('tab', { selected: true }).allTextContents()).toEqual([name])
    expect(await tabs.getByRole('tabpanel').count()).toBe(1)
    await tabs.getByRole('tabpanel', { name, exact: true }).waitFor()
  }
  await isShown('TypeScript')
  await tab('TypeScript').focus()
  for (const [key, name] of [
    ['ArrowRight', 'JavaScript'],
    ['End', 'Go'],
    ['ArrowRight', 'TypeScript'],
    ['ArrowLeft', 'Go'],
    ['Home', 'TypeScript'],
  ] as const) {
    await page.keyboard.press(key)
    await isShown(name)
    expect(await page.evaluate('document.activeElement.textContent')).toBe(name)
  }
  await page.keyboard.press('Tab')
  expect(await page.evaluate('document.activeElement.localName')).toBe('pre')
})

test('a chosen language stays chosen: in the other groups, on other pages, and the tab where it was', async () => {
  await open('/docs/agent-budget')
  const languages = () => page.getByRole('tab', { selected: true }).allTextContents()
  expect(new Set(await languages())).toEqual(new Set(['curl']))
  const last = page.getByRole('tab', { name: 'TypeScript' }).last()
  await last.scrollIntoViewIfNeeded()
  const before = await last.boundingBox()
  await last.click()
  expect((await last.boundingBox())?.y).toBeCloseTo(before?.y ?? 0, 0)
  expect(new Set(await languages())).toEqual(new Set(['TypeScript']))
  await page.goto(`${stage.service.url}/docs/users`)
  expect(new Set(await languages())).toEqual(new Set(['TypeScript']))
  // A page that lacks the language keeps its first one.
  await page.goto(`${stage.service.url}/docs/webhooks`)
  await page.getByRole('tab', { name: 'Go', exact: true }).click()
  await page.goto(`${stage.service.url}/docs/users`)
  expect(new Set(await languages())).toEqual(new Set(['curl']))
})

test('nothing moves while a page is drawn, on a phone with another language chosen', async () => {
  await open('/docs/webhooks', PHONE)
  await page.getByRole('tab', { name: 'TypeScript' }).first().click()
  await page.goto(`${stage.service.url}/docs/agent-budget`)
  expect(await layoutShift(page)).toBeLessThan(0.05)
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
  const context = await newContext(stage.browser, { javaScriptEnabled: false })
  page = await context.newPage()
  complaints = []
  await page.goto(`${stage.service.url}/docs`)
  await page.getByRole('link', { name: 'Receiving events' }).first().click()
  expect(await page.getByRole('heading', { level: 1 }).textContent()).toBe('Receiving events')
  expect(await page.getByRole('combobox').count()).toBe(0)
  expect(await page.getByRole('tab').count()).toBe(0)
  for (const language of ['TypeScript', 'JavaScript', 'Python', 'Go'])
    expect(await page.locator(`pre[data-language="${language}"]`).last().isVisible(), language).toBe(true)
  await shoot('no-scripts')
})

test('the API reference is drawn where it says, and leads nowhere else', async () => {
  await open('/docs/api')
  await page.getByRole('heading', { name: 'Halfkey API' }).first().waitFor()
  expect(requested.filter((url) => !url.startsWith(stage.service.url) && !/^(data|blob):/.test(url))).toEqual([])
})
