// What the tests of the dashboard have in common: signing in, going to a page, holding what is seen to the standard.
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import type { Browser, BrowserContext, Page } from 'playwright-core'
import { expect, inject } from 'vitest'
import type { Service, Tenant } from '../../harness/harness.ts'
import { violationsOf } from '../accessibility.ts'
import { closeContext, newContext, originOf } from '../person.ts'
import { type Stage, useStage } from '../stage.ts'

const SIZES = { desktop: { width: 1280, height: 800 }, phone: { width: 390, height: 844 } } as const
const SCHEMES = ['light', 'dark'] as const

/** A browser that is signed in to the dashboard. */
export interface Dashboard {
  page: Page
  context: BrowserContext
  /** Goes to a path below `/dashboard`, such as `/webhooks?status=paused`, by loading the document anew. */
  go(path: string): Promise<void>
  /**
   * Holds the state to the standard at desktop and phone width, in light and in dark: axe finds nothing, and the page
   * does not scroll sideways. Draws it into `HALFKEY_SCREENSHOTS`, if that names a folder.
   */
  look(state: string): Promise<void>
  /** Fails if the page complained about anything. */
  leave(): Promise<void>
}

export interface DashboardOptions {
  /** Where to go first, below `/dashboard`. */
  path?: string
  /** Signs in with this key instead of the tenant's own. */
  key?: string
  phone?: boolean
  dark?: boolean
}

/** What the page complained of: errors, and what its policy refused. Calls that fail are what tests are about. */
function listen(page: Page, calls: string): string[] {
  const complaints: string[] = []
  page.on('pageerror', (error) => complaints.push(String(error)))
  page.on('console', (message) => {
    const failed = message.text().startsWith('Failed to load resource')
    const expected = failed && message.location().url.includes(calls)
    if (message.type() === 'error' && !expected) complaints.push(message.text())
  })
  page.on('dialog', (dialog) => {
    complaints.push(`a dialog: ${dialog.message()}`)
    dialog.dismiss().catch(() => undefined)
  })
  return complaints
}

/** Two frames later, whatever a new size or colour scheme moves has moved. */
const SETTLED = 'new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))'
const OVERFLOW = 'document.scrollingElement.scrollWidth - document.scrollingElement.clientWidth'

async function draw(page: Page, name: string): Promise<void> {
  const folder = process.env.HALFKEY_SCREENSHOTS
  if (folder === undefined || folder === '') return
  mkdirSync(folder, { recursive: true })
  // A dialog covers the window: the whole page behind it would only be seen in part.
  const fullPage = (await page.locator('[role=dialog], [role=alertdialog]').count()) === 0
  // What sticks to the window would stand in the middle of a whole page.
  if (fullPage) await page.evaluate('scrollTo(0, 0)')
  await page.screenshot({ path: join(folder, `${name}.png`), fullPage })
}

async function look(page: Page, state: string, before: DashboardOptions): Promise<void> {
  for (const [size, viewport] of Object.entries(SIZES)) {
    await page.setViewportSize(viewport)
    for (const colorScheme of SCHEMES) {
      await page.emulateMedia({ colorScheme })
      await page.evaluate(SETTLED)
      const name = `${state}-${size}-${colorScheme}`
      await draw(page, name)
      // Width changes no colour: once for each is enough; and a smoke test is content with one.
      if (size === 'phone' && colorScheme === 'dark') continue
      if (!inject('everySize') && (size === 'phone' || colorScheme === 'dark')) continue
      // A colour scheme changes nothing but colours.
      expect(await violationsOf(page, colorScheme === 'dark' ? 'colours' : 'all'), name).toEqual([])
    }
    expect(await page.evaluate(OVERFLOW), `${state}, ${size}: how far the page scrolls sideways`).toBe(0)
  }
  await page.setViewportSize(SIZES[before.phone === true ? 'phone' : 'desktop'])
  await page.emulateMedia({ colorScheme: before.dark === true ? 'dark' : 'light' })
}

/** A browser of its own for the pages at a path such as `/dashboard`. */
export async function openContext(browser: Browser, base: string, options: DashboardOptions = {}) {
  const context = await newContext(browser, {
    viewport: SIZES[options.phone === true ? 'phone' : 'desktop'],
    colorScheme: options.dark === true ? 'dark' : 'light',
    reducedMotion: 'reduce',
    permissions: ['clipboard-read', 'clipboard-write'],
  })
  const page = await context.newPage()
  const complaints = listen(page, `${base}/api/`)
  return {
    page,
    context,
    look: (state: string) => look(page, state, options),
    async leave() {
      await closeContext(context)
      expect(complaints).toEqual([])
    },
  }
}

/** Signs in with a key, as the form does (shell.browser.ts tests the form itself), and goes to a page. */
export async function openDashboard(
  browser: Browser,
  service: Service,
  tenant: Tenant,
  options: DashboardOptions = {},
): Promise<Dashboard> {
  const opened = await openContext(browser, '/dashboard', options)
  const { page, context } = opened
  const origin = originOf(service)
  const home = `${origin}/dashboard`
  const signedIn = await context.request.post(`${home}/api/session`, {
    data: { key: options.key ?? tenant.key },
    headers: { origin },
  })
  expect(signedIn.status(), await signedIn.text()).toBe(200)
  await page.goto(home + (options.path ?? '/'))
  // Only then the page listens to its keys.
  await page.locator('#content').waitFor({ state: 'attached' })
  return { ...opened, go: (path) => page.goto(home + path).then(() => undefined) }
}

export interface DashboardStage extends Stage {
  /** Signs in; whoever has arrived leaves when the test ends. */
  arrive(tenant: Tenant, options?: DashboardOptions): Promise<Dashboard>
}

/** A file's service, with these settings. A test fails if the dashboard complained about anything. */
export function useDashboard(settings?: () => Promise<Record<string, string>>): DashboardStage {
  const stage = useStage(settings)
  return Object.assign(stage, {
    async arrive(tenant: Tenant, options?: DashboardOptions) {
      return stage.host(await openDashboard(stage.browser, stage.service, tenant, options))
    },
  })
}
