// What the tests of wallets, transactions and delegated sessions have in common.
import type { Browser, Page } from 'playwright-core'
import { afterAll, afterEach, beforeAll, expect } from 'vitest'
import { type Holder, newHolder } from '../../../src/delegated-sessions/delegated.fixture.ts'
import { type Service, startService, type Tenant } from '../../harness.ts'
import { startChromium } from '../person.ts'
import { type Dashboard, type DashboardOptions, openDashboard } from './support.ts'

/** The template of tokens. */
export const TOKENS = 'Token:Holding'
/** A name that would like to be markup. */
export const HOSTILE = `<img src=x onerror=alert(1)>"'& مرحبا `

/** The file's service and browser, and a way to arrive at the dashboard; whoever arrived leaves after each test. */
export function useDashboard(): {
  service: () => Service
  arrive: (tenant: Tenant, options: DashboardOptions) => Promise<{ page: Page; dash: Dashboard }>
} {
  let service: Service
  let browser: Browser
  let dashboard: Dashboard | undefined
  beforeAll(async () => {
    service = await startService()
    browser = await startChromium()
  })
  afterAll(async () => {
    await browser.close()
    await service.stop()
  })
  afterEach(async () => {
    const leaving = dashboard
    dashboard = undefined
    await leaving?.leave()
  })
  return {
    service: () => service,
    async arrive(tenant, options) {
      dashboard = await openDashboard(browser, service, tenant, options)
      return { page: dashboard.page, dash: dashboard }
    },
  }
}

/** The page's own heading. */
export const heading = (page: Page, name: string | RegExp) => page.getByRole('heading', { level: 1, name })

/** A button by its words: all of them, or what a pattern fits. */
export const button = (page: Page, name: string | RegExp) =>
  page.getByRole('button', { name, exact: typeof name === 'string' })

/** What a notice says that goes away by itself. */
export const notice = (page: Page, text: string) =>
  page.getByRole('region', { name: 'Notifications' }).getByText(text).waitFor()

/** What the API says. */
export async function dataOf(tenant: Tenant, path: string) {
  const answer = await tenant.get(path)
  expect(answer.status, answer.text).toBe(200)
  return answer.body.data
}

/** A new tenant with Ada, who has 100 USDX. */
export async function withAda(
  service: Service,
  name = 'Ada Lovelace',
): Promise<{ tenant: Tenant; ada: Holder; contractId: string }> {
  const tenant = await service.newTenant()
  const ada = await newHolder(tenant, { name, email: 'ada@example.com' })
  return { tenant, ada, contractId: await ada.receive('100') }
}
