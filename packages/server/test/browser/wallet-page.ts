// What somebody does on the hosted page of their wallet.
import type { Page } from 'playwright-core'

export const click = (page: Page, name: string) => page.getByRole('button', { name, exact: true }).click()
export const heading = (page: Page, name: string) => page.getByRole('heading', { name }).waitFor()

/** Makes the wallet, up to what is to be signed for its party. @returns the recovery share */
export async function create(page: Page): Promise<string> {
  await click(page, 'Create your wallet')
  await heading(page, 'Keep your recovery share')
  const sheet = (await page.locator('.sheet').textContent()) as string
  await click(page, 'I have kept it')
  return sheet
}

/** Makes it, and signs for its party. @returns the party, and the recovery share */
export async function onboarded(page: Page): Promise<{ party: string; sheet: string }> {
  const sheet = await create(page)
  await heading(page, 'Sign for your wallet')
  await click(page, 'Sign with your passkey')
  await heading(page, 'Your wallet is ready')
  return { party: (await page.locator('.facts .exact').textContent()) as string, sheet }
}
