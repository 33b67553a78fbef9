import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import {
  type Browser,
  type BrowserContext,
  type BrowserContextOptions,
  type CDPSession,
  chromium,
  type Page,
} from 'playwright-core'
import { expect, inject } from 'vitest'
import type { Service, Tenant } from '../harness/harness.ts'
import { violationsOf } from './accessibility.ts'
import { findChromium } from './chromium.ts'

declare module 'vitest' {
  interface ProvidedContext {
    /** Whether states are looked at in every size and colour scheme, or once. */
    everySize: boolean
  }
}

/** How long a step may take: on a busy machine a browser may draw no frame for half a minute. */
const PATIENCE_MS = 90_000
const DESKTOP = { width: 1280, height: 800 }
const TARGET_PX_MIN = 44
const PHONE = { width: 390, height: 844 }

/** Somebody with a browser of their own, and a device that makes passkeys without asking them. */
export interface Person {
  page: Page
  context: BrowserContext
  /** Goes on with another device: what was in the one before is out of reach. */
  takeAnotherDevice(): Promise<void>
  /** Whether the device lets them pass: a finger that it does not know. */
  recognised(yes: boolean): Promise<void>
  /** How many passkeys the device holds. */
  passkeys(): Promise<number>
  /** Holds the state to what assistive technology needs, in both colour schemes (a smoke test: in one), and draws it if that is asked for. */
  look(state: string): Promise<void>
  /** Fails if the page complained about anything. */
  leave(): Promise<void>
}

export interface PersonOptions {
  /** Offers passkeys in the email field, where the device here takes one at once, without anybody having chosen. */
  autofill?: boolean
  /** Whether their passkeys have the PRF extension, and can seal a share of a key. */
  prf?: boolean
  /** A browser that has no WebAuthn. */
  withoutPasskeys?: boolean
}

export function startChromium(): Promise<Browser> {
  const executablePath = findChromium()
  if (executablePath === undefined) throw new Error('no Chromium on PATH, and CHROMIUM names none')
  return chromium.launch({ executablePath, args: ['--no-sandbox', '--disable-gpu', '--disable-quic'] })
}

/** A context in which each step may take its time: what Playwright gives it, 30 s, is not enough on a busy machine. */
export async function newContext(browser: Browser, options: BrowserContextOptions = {}): Promise<BrowserContext> {
  const context = await browser.newContext(options)
  context.setDefaultTimeout(PATIENCE_MS)
  return context
}

/** Closes a context. A request of a page that still asks now and then may be at its route: what becomes of it is nobody's concern. */
export async function closeContext(context: BrowserContext): Promise<void> {
  for (const page of context.pages()) await page.unrouteAll({ behavior: 'ignoreErrors' })
  await context.close()
}

async function addAuthenticator(cdp: CDPSession, { prf = false }: PersonOptions): Promise<string> {
  const { authenticatorId } = await cdp.send('WebAuthn.addVirtualAuthenticator', {
    options: {
      protocol: 'ctap2',
      ...(prf && { ctap2Version: 'ctap2_1', hasPrf: true }),
      transport: 'internal',
      hasResidentKey: true,
      hasUserVerification: true,
      isUserVerified: true,
      automaticPresenceSimulation: true,
    },
  })
  return authenticatorId
}

/** What the page complained of: errors, and what its policy refused. Links and calls that fail are what tests are about. */
function listen(page: Page): string[] {
  const complaints: string[] = []
  page.on('pageerror', (error) => complaints.push(String(error)))
  page.on('console', (message) => {
    const failed = message.text().startsWith('Failed to load resource')
    const expected = failed && /\/signin(?:\?|\/api\/)/.test(message.location().url)
    if (message.type() === 'error' && !expected) complaints.push(message.text())
  })
  page.on('dialog', (dialog) => {
    complaints.push(`a dialog: ${dialog.message()}`)
    dialog.dismiss().catch(() => undefined)
  })
  return complaints
}

/** Saves what there is to see, where `HALFKEY_SCREENSHOTS` names a folder. */
async function draw(page: Page, state: string): Promise<void> {
  const folder = process.env.HALFKEY_SCREENSHOTS
  if (folder === undefined || folder === '') return
  mkdirSync(folder, { recursive: true })
  for (const [size, viewport] of Object.entries({ desktop: DESKTOP, phone: PHONE }))
    for (const colorScheme of ['light', 'dark'] as const) {
      await page.setViewportSize(viewport)
      await page.emulateMedia({ colorScheme })
      // A dialog covers the window: the whole page behind it would only be seen in part.
      const fullPage = (await page.getByRole('dialog').count()) === 0
      await page.screenshot({ path: join(folder, `${state}-${size}-${colorScheme}.png`), fullPage })
    }
  await page.setViewportSize(DESKTOP)
}

/** Controls that a thumb would miss, by their words (WCAG 2.2, target size). */
const SMALL_TARGETS = `[...document.querySelectorAll('button, a, input')]
  .filter((control) => control.checkVisibility() && control.getBoundingClientRect().height < ${TARGET_PX_MIN})
  .map((control) => control.textContent || control.name)`

async function look(page: Page, state: string): Promise<void> {
  await draw(page, state)
  expect(await page.evaluate(SMALL_TARGETS), `${state}, small targets`).toEqual([])
  for (const colorScheme of inject('everySize') ? (['light', 'dark'] as const) : (['light'] as const)) {
    await page.emulateMedia({ colorScheme })
    const found = await violationsOf(page, colorScheme === 'light' ? 'all' : 'colours')
    expect(found, `${state}, ${colorScheme}`).toEqual([])
  }
  await page.emulateMedia({ colorScheme: 'light' })
}

export async function newPerson(browser: Browser, options: PersonOptions = {}): Promise<Person> {
  const context = await newContext(browser, { viewport: DESKTOP, reducedMotion: 'reduce' })
  if (options.withoutPasskeys === true) await context.addInitScript('delete globalThis.PublicKeyCredential')
  else if (options.autofill !== true)
    await context.addInitScript(
      'globalThis.PublicKeyCredential && (PublicKeyCredential.isConditionalMediationAvailable = async () => false)',
    )
  const page = await context.newPage()
  const complaints = listen(page)
  const cdp = await context.newCDPSession(page)
  await cdp.send('WebAuthn.enable')
  let authenticatorId = await addAuthenticator(cdp, options)
  return {
    page,
    context,
    async takeAnotherDevice() {
      await cdp.send('WebAuthn.removeVirtualAuthenticator', { authenticatorId })
      authenticatorId = await addAuthenticator(cdp, options)
    },
    recognised: (isUserVerified) =>
      cdp.send('WebAuthn.setUserVerified', { authenticatorId, isUserVerified }).then(() => undefined),
    passkeys: async () => (await cdp.send('WebAuthn.getCredentials', { authenticatorId })).credentials.length,
    look: (state) => look(page, state),
    async leave() {
      await closeContext(context)
      expect(complaints).toEqual([])
    },
  }
}

/** The service under the name that passkeys belong to. */
export const originOf = (service: Service) => service.url.replace('127.0.0.1', 'localhost')

/** Opens a tenant's sign-in page. */
export async function openSignIn(
  person: Person,
  service: Service,
  tenant: Tenant,
  query: Record<string, string> = {},
): Promise<void> {
  await person.page.goto(`${originOf(service)}/signin?${new URLSearchParams({ app: tenant.appId, ...query })}`)
}

/** Signs up with a passkey, from the first view. */
export async function signUp({ page }: Person, who: { email?: string; name?: string } = {}): Promise<void> {
  await page.getByRole('button', { name: 'Create an account' }).click()
  if (who.email !== undefined) await page.getByLabel('Email').fill(who.email)
  if (who.name !== undefined) await page.getByLabel('Name').fill(who.name)
  await page.getByRole('button', { name: 'Create a passkey' }).click()
}

/** Signs out of the account page. */
export async function signOut({ page }: Person): Promise<void> {
  await page.getByLabel('Signed in as').getByRole('button', { name: 'Sign out' }).click()
  await page.getByText('You are signed out.').waitFor()
}
