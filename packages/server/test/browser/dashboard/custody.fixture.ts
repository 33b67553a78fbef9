// What the tests of wallets, transactions and delegated sessions have in common.
import type { Page } from 'playwright-core'
import { expect } from 'vitest'
import { type Holder, newHolder } from '../../../src/delegation/delegated.fixture.ts'
import type { Service, Tenant } from '../../harness/harness.ts'

/** The template of tokens. */
export const TOKENS = 'Token:Holding'
/** A name that would like to be markup. */
export const HOSTILE = `<img src=x onerror=alert(1)>"'& مرحبا `

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
