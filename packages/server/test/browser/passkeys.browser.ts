import { expect, test } from 'vitest'
import { signOut, signUp } from './person.ts'
import { SMOKE, useSignIn } from './stage.ts'

const MINUTE_MS = 60_000

const stage = useSignIn()
const { arrive } = stage

const ADA = { email: 'ada@example.com', name: 'Ada Lovelace' }

test('signing up with a passkey makes a user who is signed in', SMOKE, async () => {
  const { ada, page, tenant } = await arrive()
  await page.getByRole('heading', { name: 'Sign in to Acme Wallet' }).waitFor()
  await ada.look('sign-in')
  await page.getByRole('button', { name: 'Create an account' }).click()
  await ada.look('sign-up')
  await page.getByRole('button', { name: 'I already have an account' }).click()
  await signUp(ada, ADA)
  await page.getByText('Ada Lovelace').waitFor()
  await page.getByRole('button', { name: /^Rename/ }).waitFor()
  await page.getByText('This device', { exact: true }).waitFor()
  await ada.look('account')
  expect(await ada.passkeys()).toBe(1)
  const { data } = (await tenant.get('/users')).body
  expect(data).toMatchObject([ADA])
})

test('email and name can be left out', async () => {
  const { ada, page, tenant } = await arrive()
  await signUp(ada)
  await page.getByRole('button', { name: 'Add a passkey' }).waitFor()
  expect((await tenant.get('/users')).body.data).toMatchObject([{ email: null, name: null }])
})

test('who signed out signs in again with the passkey, by its choice on the device or by email', SMOKE, async () => {
  const { ada, page, tenant } = await arrive()
  await signUp(ada, ADA)
  await page.getByText('Ada Lovelace').waitFor()
  await signOut(ada)
  await ada.look('signed-out')
  await page.getByRole('button', { name: 'Sign in with a passkey' }).click()
  await page.getByText('Ada Lovelace').waitFor()
  await signOut(ada)
  await page.getByLabel('Email').fill('ADA@example.com')
  await page.keyboard.press('Enter')
  await page.getByText('Ada Lovelace').waitFor()
  // The sessions signed out of are over, not forgotten.
  const userId = (await tenant.get('/users')).body.data[0].id
  const sessions = await tenant.get('/auth/sessions?page_size=100', { headers: { 'x-user-id': userId } })
  const live = sessions.body.data.filter((session: { status: string }) => session.status === 'active')
  expect(live).toHaveLength(1)
})

test('a passkey is offered by the email field where the browser can', async () => {
  const { ada, page } = await arrive()
  await signUp(ada, ADA)
  await page.getByText('Ada Lovelace').waitFor()
  // From here on as in browsers that offer; the device at hand takes the offer at once.
  await page.evaluate('PublicKeyCredential.isConditionalMediationAvailable = async () => true')
  const again = page.waitForResponse((answer) => answer.url().endsWith('/passkey/login-verify') && answer.ok())
  await page.getByLabel('Signed in as').getByRole('button', { name: 'Sign out' }).click()
  await again
  await page.getByText('Ada Lovelace').waitFor()
})

test('a prompt that ends without a passkey is told calmly, and can be repeated', async () => {
  const { ada, page } = await arrive()
  await signUp(ada, ADA)
  await page.getByText('Ada Lovelace').waitFor()
  await signOut(ada)
  await ada.recognised(false)
  await page.getByRole('button', { name: 'Sign in with a passkey' }).click()
  await page.getByRole('status').filter({ hasText: 'No passkey was used' }).waitFor()
  expect(await page.getByRole('alert').filter({ hasText: /./ }).count()).toBe(0)
  await ada.look('prompt-closed')
  await ada.recognised(true)
  await page.getByRole('button', { name: 'Sign in with a passkey' }).click()
  await page.getByText('Ada Lovelace').waitFor()
})

test('a passkey whose account is gone is refused in words', async () => {
  const { ada, page, tenant } = await arrive()
  await signUp(ada, ADA)
  await page.getByText('Ada Lovelace').waitFor()
  const userId = (await tenant.get('/users')).body.data[0].id
  await signOut(ada)
  expect((await tenant.delete(`/users/${userId}`)).status).toBe(200)
  await page.getByRole('button', { name: 'Sign in with a passkey' }).click()
  await page.getByRole('alert').filter({ hasText: 'That passkey did not work here' }).waitFor()
  await ada.look('passkey-refused')
})

test('an email that is taken is told at its field, and another one can be used', async () => {
  const { ada, page, tenant } = await arrive()
  await tenant.post('/users', { email: ADA.email })
  await signUp(ada, ADA)
  await page.getByText('already belongs to an account').waitFor()
  expect(await page.getByLabel('Email').getAttribute('aria-invalid')).toBe('true')
  await ada.look('email-taken')
  await page.getByLabel('Email').fill('ada@example.org')
  await page.getByRole('button', { name: 'Create a passkey' }).click()
  await page.getByText('ada@example.org').waitFor()
})

test('an email that is none is told at its field', async () => {
  const { page } = await arrive()
  await page.getByLabel('Email').fill('no address')
  await page.getByRole('button', { name: 'Sign in with a passkey' }).click()
  await page.getByText('Enter an email address').waitFor()
  expect(await page.evaluate('document.activeElement.name')).toBe('email')
})

test('a second device gets a passkey of its own, which signs in; the first is not made twice', async () => {
  const { ada, page, tenant } = await arrive()
  await signUp(ada, ADA)
  await page.getByRole('button', { name: 'Add a passkey' }).click()
  await page.getByText('This device already has a passkey').waitFor()
  await ada.takeAnotherDevice()
  await page.getByRole('button', { name: 'Add a passkey' }).click()
  await page.getByText('Passkey added.').waitFor()
  expect(await page.getByRole('button', { name: /^Rename/ }).count()).toBe(2)
  const headers = { 'x-user-id': (await tenant.get('/users')).body.data[0].id }
  const sessions = (await tenant.get('/auth/sessions', { headers })).body.data as { status: string }[]
  expect(
    sessions.filter(({ status }) => status === 'active'),
    'no session is left over',
  ).toHaveLength(1)
  await signOut(ada)
  await page.getByRole('button', { name: 'Sign in with a passkey' }).click()
  await page.getByText('Ada Lovelace').waitFor()
})

test('a passkey is renamed and removed, and then signs nobody in', async () => {
  const { ada, page } = await arrive()
  await signUp(ada, ADA)
  await page.getByRole('button', { name: /^Rename/ }).click()
  await ada.look('passkey-rename')
  await page.getByLabel('Name of the passkey').fill('<b>Work</b> laptop')
  await page.keyboard.press('Enter')
  await page.getByText('Passkey renamed.').waitFor()
  await page.getByRole('button', { name: 'Rename <b>Work</b> laptop' }).waitFor()
  await ada.takeAnotherDevice()
  await page.getByRole('button', { name: 'Add a passkey' }).click()
  await page.getByText('Passkey added.').waitFor()
  // The second one, just made, stands first.
  await page.getByRole('button', { name: 'Remove Linux computer' }).click()
  await page.getByRole('dialog', { name: 'Remove this passkey?' }).waitFor()
  await ada.look('passkey-remove')
  await page.getByRole('button', { name: 'Keep it' }).click()
  await page.getByRole('button', { name: 'Remove Linux computer' }).click()
  await page.getByRole('button', { name: 'Remove passkey' }).click()
  await page.getByText('Passkey removed.').waitFor()
  expect(await page.getByRole('button', { name: /^Rename/ }).count()).toBe(1)
  await signOut(ada)
  await page.getByRole('button', { name: 'Sign in with a passkey' }).click()
  await page.getByText('That passkey did not work here').waitFor()
})

test('the last passkey stays: it is said that nobody would get in again', async () => {
  const { ada, page } = await arrive()
  await signUp(ada, ADA)
  await page.getByRole('button', { name: /^Remove/ }).click()
  await page.getByRole('button', { name: 'Remove passkey' }).click()
  await page.getByText('This is your only passkey').waitFor()
  await ada.look('passkey-last')
  await page.getByRole('button', { name: 'Keep it' }).click()
  expect(await page.getByRole('button', { name: /^Rename/ }).count()).toBe(1)
})

test('other sessions are listed and signed out, one or all', async () => {
  const { ada, page } = await arrive()
  await signUp(ada, ADA)
  await page.getByText('Ada Lovelace').waitFor()
  // Leaves its session behind: its tokens were in the page's memory alone.
  for (const _ of [1, 2, 3]) {
    await page.reload()
    await page.getByRole('button', { name: 'Sign in with a passkey' }).click()
    await page.getByText('Ada Lovelace').waitFor()
  }
  const sessions = page.getByRole('region', { name: 'Where you are signed in' })
  await sessions.getByRole('button', { name: 'Sign out everywhere else' }).waitFor()
  await ada.look('sessions')
  expect(await sessions.getByRole('listitem').count()).toBe(4)
  await sessions
    .getByRole('button', { name: /^Sign out Chrome/ })
    .first()
    .click()
  await page.getByText('Device signed out.').waitFor()
  await sessions.getByRole('button', { name: 'Sign out everywhere else' }).click()
  await page.getByText('Signed out everywhere else.').waitFor()
  expect(await sessions.getByRole('listitem').count()).toBe(1)
})

test('an access token that ran out is renewed without anybody noticing', async () => {
  const { ada, page } = await arrive()
  await signUp(ada, ADA)
  await page.getByRole('button', { name: /^Rename/ }).click()
  stage.service.advance(16 * MINUTE_MS)
  await page.getByLabel('Name of the passkey').fill('Laptop')
  await page.getByRole('button', { name: 'Save' }).click()
  await page.getByText('Passkey renamed.').waitFor()
})

test('a session that was ended elsewhere leads back to signing in', async () => {
  const { ada, page, tenant } = await arrive()
  await signUp(ada, ADA)
  await page.getByText('This device', { exact: true }).waitFor()
  await page.getByRole('button', { name: 'Set up two-step verification' }).waitFor()
  await page.getByRole('button', { name: /^Rename/ }).click()
  const headers = { 'x-user-id': (await tenant.get('/users')).body.data[0].id }
  const [session] = (await tenant.get('/auth/sessions', { headers })).body.data
  expect((await tenant.delete(`/auth/sessions/${session.id}`, { headers })).status).toBe(200)
  await page.getByRole('button', { name: 'Save' }).click()
  await page.getByText('Your session has ended. Please sign in again.').waitFor()
  await page.getByRole('button', { name: 'Sign in with a passkey' }).click()
  await page.getByText('Ada Lovelace').waitFor()
})

test('after five minutes something sensitive asks to sign in again, and then goes on', async () => {
  const { ada, page } = await arrive()
  await signUp(ada, ADA)
  await page.getByRole('button', { name: 'Set up two-step verification' }).waitFor()
  stage.service.advance(6 * MINUTE_MS)
  await page.getByRole('button', { name: 'Set up two-step verification' }).click()
  await page.getByRole('dialog', { name: 'Sign in again' }).waitFor()
  await ada.look('sign-in-again')
  await page.getByRole('button', { name: 'Cancel' }).click()
  await page.getByText('Nothing was changed.').waitFor()
  await page.getByRole('button', { name: 'Set up two-step verification' }).click()
  await page.getByRole('button', { name: 'Use your passkey' }).click()
  await page.getByRole('dialog', { name: 'Set up two-step verification' }).waitFor()
})
