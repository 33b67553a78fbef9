import type { Page } from 'playwright-core'
import { expect, test } from 'vitest'
import { call, eventually, type Tenant } from '../harness/harness.ts'
import { newPerson, signOut } from './person.ts'
import { useSignIn } from './stage.ts'

const stage = useSignIn()
const app = { email: { enabled: true }, emailRecovery: { enabled: true } }
const HOUR_MS = 3_600_000

interface Mail {
  id: string
  appId: string
  purpose: string
  code: string
  link: string
}

/** The newest email of a tenant for a purpose, unless it was seen before. */
function mailOf({ appId }: Tenant, purpose: string, seen?: Mail): Promise<Mail> {
  return eventually(`the email ${purpose}`, async () => {
    const mails: Mail[] = (await call(stage.service.url, 'GET', '/dev/mail.json')).body
    return mails.find((mail) => mail.appId === appId && mail.purpose === purpose && mail.id !== seen?.id)
  })
}

/** Signs up by a code, and adds a passkey. */
async function begin(page: Page, tenant: Tenant): Promise<void> {
  await page.getByRole('button', { name: 'Email me a code' }).click()
  await page.getByLabel('Email').fill('ada@example.com')
  await page.getByRole('button', { name: 'Send code' }).click()
  await page.getByLabel('6-digit code').fill((await mailOf(tenant, 'sign_in')).code)
  await page.getByRole('button', { name: 'Sign in', exact: true }).click()
  await page.getByRole('button', { name: 'Create a passkey' }).click()
  await page.getByText('This device', { exact: true }).waitFor()
}

/** Proves the mailbox on the page of a lost passkey. @returns the email with the code */
async function prove(page: Page, tenant: Tenant, seen?: Mail): Promise<Mail> {
  await page.getByRole('button', { name: 'I lost my passkey' }).click()
  await page.getByLabel('Email').fill('ada@example.com')
  await page.getByRole('button', { name: 'Send code' }).click()
  const mail = await mailOf(tenant, 'recovery', seen)
  await page.getByLabel('6-digit code').fill(mail.code)
  await page.getByRole('button', { name: 'Continue', exact: true }).click()
  return mail
}

test('somebody who lost their passkey asks, waits, and comes back for a new one', async () => {
  const { ada, page, tenant } = await stage.arrive({ app })
  await begin(page, tenant)
  await signOut(ada)
  await ada.takeAnotherDevice()
  await ada.look('recovery-first')
  await page.getByRole('button', { name: 'I lost my passkey' }).click()
  await page.getByRole('heading', { name: 'Lost your passkey?' }).waitFor()
  await ada.look('recovery-address')
  await page.getByRole('button', { name: 'Send code' }).click()
  await page.getByText('Enter the email address of your account.').waitFor()
  await page.getByLabel('Email').fill('ada@example.com')
  await page.getByRole('button', { name: 'Send code' }).click()
  const first = await mailOf(tenant, 'recovery')
  await ada.look('recovery-code')
  await page.getByLabel('6-digit code').fill(first.code === '000000' ? '000001' : '000000')
  await page.getByRole('button', { name: 'Continue', exact: true }).click()
  await page.getByText('Attempts left: 4').waitFor()
  await page.getByLabel('6-digit code').fill(first.code)
  await page.getByRole('button', { name: 'Continue', exact: true }).click()
  await page.getByRole('heading', { name: 'Your request is waiting' }).waitFor()
  await ada.look('recovery-waiting')
  await mailOf(tenant, 'recovery_requested')
  stage.service.advance(60 * HOUR_MS)
  stage.service.deps.wake.tasks()
  await mailOf(tenant, 'recovery_reminder')
  stage.service.advance(13 * HOUR_MS)
  await page.getByRole('button', { name: 'Back to signing in' }).click()
  await prove(page, tenant, first)
  await page.getByRole('heading', { name: 'Create your new passkey' }).waitFor()
  await ada.look('recovery-ready')
  await page.getByRole('button', { name: 'Create a passkey' }).click()
  await page.getByText('This device', { exact: true }).first().waitFor()
  expect(await ada.passkeys()).toBe(1)
  expect((await tenant.get('/users')).body.total).toBe(1)
  await mailOf(tenant, 'recovery_completed')
})

test('the link of the notice asks first, and then stops it', async () => {
  const { ada, page, tenant } = await stage.arrive({ app })
  await begin(page, tenant)
  await signOut(ada)
  await prove(page, tenant)
  await page.getByRole('heading', { name: 'Your request is waiting' }).waitFor()
  const { link } = await mailOf(tenant, 'recovery_requested')
  const owner = stage.host(await newPerson(stage.browser))
  await owner.page.goto(link)
  await owner.page.getByRole('heading', { name: 'Did you ask for a new passkey?' }).waitFor()
  expect(owner.page.url()).not.toContain('cancel_recovery')
  await owner.look('recovery-stop')
  const [user] = (await tenant.get('/users')).body.data
  const status = async () => (await tenant.get(`/users/${user.id}/recoveries`)).body.data[0].status
  expect(await status()).toBe('pending')
  await owner.page.getByRole('button', { name: 'Stop the recovery' }).click()
  await owner.page.getByRole('heading', { name: 'Stopped' }).waitFor()
  await owner.look('recovery-stopped')
  expect(await status()).toBe('canceled')
})

test('nobody is offered what the app does not have', async () => {
  const { page } = await stage.arrive({ app: { email: { enabled: true } } })
  await page.getByRole('button', { name: 'Email me a code' }).waitFor()
  expect(await page.getByRole('button', { name: 'I lost my passkey' }).count()).toBe(0)
})
