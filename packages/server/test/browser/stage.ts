// What files of browser tests share: one Chromium for all of them, a service for each, and somebody at a sign-in page.
import type { Browser, Page } from 'playwright-core'
import { afterAll, afterEach, beforeAll, expect } from 'vitest'
import { type Service, startService, type Tenant } from '../harness/harness.ts'
import { newPerson, openSignIn, type Person, type PersonOptions, startChromium } from './person.ts'

/** On the tests that `npm test` runs: one or two of each family of pages. */
export const SMOKE = { tags: ['smoke'] }

let launched: Promise<Browser> | undefined

/** The browser of all files. It ends with the process that runs them. */
function sharedChromium(): Promise<Browser> {
  launched ??= startChromium()
  return launched
}

/** What a file of tests has to itself. */
export interface Stage {
  readonly service: Service
  /** Shared: every test opens its own context in it. */
  readonly browser: Browser
  /** `guest` leaves when the test ends. */
  host<T extends { leave(): Promise<void> }>(guest: T): T
}

/** A file's service, with these settings. A test fails if whoever leaves at its end has met a complaint. */
export function useStage(settings: () => Promise<Record<string, string>> = async () => ({})): Stage {
  let service: Service
  let browser: Browser
  let guests: { leave(): Promise<void> }[] = []
  beforeAll(async () => {
    service = await startService(await settings())
    browser = await sharedChromium()
  })
  afterAll(() => service.stop())
  afterEach(async () => {
    const leaving = guests
    guests = []
    for (const guest of leaving) await guest.leave()
  })
  return {
    get service() {
      return service
    },
    get browser() {
      return browser
    },
    host(guest) {
      guests.push(guest)
      return guest
    },
  }
}

export interface ArrivalOptions extends PersonOptions {
  /** Of the tenant's app; it is called Acme Wallet where no name is given. */
  app?: object
  /** What the link to the page says beside the app. */
  query?: Record<string, string>
}

/** Somebody at the sign-in page of a new tenant. */
export interface Arrival {
  ada: Person
  page: Page
  tenant: Tenant
}

/** A stage at whose sign-in pages somebody arrives; they leave when the test ends. */
export function useSignIn(): Stage & { arrive(options?: ArrivalOptions): Promise<Arrival> } {
  const stage = useStage()
  return Object.assign(stage, {
    async arrive({ app, query, ...options }: ArrivalOptions = {}) {
      const tenant = await stage.service.newTenant()
      const patched = await tenant.patch(`/apps/${tenant.appId}`, { name: 'Acme Wallet', ...app })
      expect(patched.status, patched.text).toBe(200)
      const ada = stage.host(await newPerson(stage.browser, options))
      await openSignIn(ada, stage.service, tenant, query)
      return { ada, page: ada.page, tenant }
    },
  })
}
