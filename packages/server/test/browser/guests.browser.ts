import type { Page } from 'playwright-core'
import { expect, test } from 'vitest'
import { signOut } from './person.ts'
import { SMOKE, useSignIn } from './stage.ts'

const { arrive } = useSignIn()

async function goOnAsGuest(page: Page): Promise<void> {
  await page.getByRole('button', { name: 'Continue as guest' }).click()
  // The view before has an email field too.
  await page.getByRole('heading', { name: 'Save your account' }).waitFor()
}

test(
  'a guest saves the account under an email, makes a passkey, and comes back with it as the same user',
  SMOKE,
  async () => {
    const { ada, page, tenant } = await arrive()
    await goOnAsGuest(page)
    await page.getByText('This device', { exact: true }).waitFor()
    await ada.look('guest')
    const [guest] = (await tenant.get('/guests')).body.data
    await page.getByLabel('Email').fill('ada@example.com')
    await page.getByRole('button', { name: 'Save your account' }).click()
    await page.getByRole('heading', { name: 'Your account is saved' }).waitFor()
    await ada.look('guest-saved')
    await page.getByRole('button', { name: 'Create a passkey' }).click()
    await page.getByText('Your account is saved, and your passkey is ready.').waitFor()
    await page.getByRole('button', { name: /^Rename/ }).waitFor()
    await ada.look('guest-done')
    expect((await tenant.get('/users')).body.data).toMatchObject([{ id: guest.userId, email: 'ada@example.com' }])
    await signOut(ada)
    await page.getByRole('button', { name: 'Sign in with a passkey' }).click()
    await page.getByText('ada@example.com').waitFor()
  },
)

test('the passkey can wait', async () => {
  const { page } = await arrive()
  await goOnAsGuest(page)
  await page.getByLabel('Email').fill('ada@example.com')
  await page.getByLabel('Name').fill('Ada Lovelace')
  await page.getByRole('button', { name: 'Save your account' }).click()
  await page.getByRole('button', { name: 'Not now' }).click()
  await page.getByText('Ada Lovelace').waitFor()
  await page.getByText('You have no passkey yet.').waitFor()
})

test('an email that is taken, missing or none is told at its field, and the guest stays one', async () => {
  const { page, tenant } = await arrive()
  await tenant.post('/users', { email: 'ada@example.com' })
  await goOnAsGuest(page)
  await page.getByRole('button', { name: 'Save your account' }).click()
  await page.getByText('Enter your email address.').waitFor()
  await page.getByLabel('Email').fill('nobody')
  await page.getByRole('button', { name: 'Save your account' }).click()
  await page.getByText('Enter an email address like').waitFor()
  await page.getByLabel('Email').fill('ada@example.com')
  await page.getByRole('button', { name: 'Save your account' }).click()
  await page.getByText('already belongs to an account').waitFor()
  expect((await tenant.get('/guests')).body.data).toMatchObject([{ status: 'active' }])
})

test('a guest whose time is over is led back to signing in', async () => {
  const { page, tenant } = await arrive()
  await goOnAsGuest(page)
  await page.getByLabel('Email').fill('ada@example.com')
  await page.getByText('This device', { exact: true }).waitFor()
  const [guest] = (await tenant.get('/guests')).body.data
  expect((await tenant.delete(`/guests/${guest.id}`)).status).toBe(200)
  await page.getByRole('button', { name: 'Save your account' }).click()
  await page.getByText('Your session has ended. Please sign in again.').waitFor()
})
