import type { Page } from 'playwright-core'
import { expect, test } from 'vitest'
import { call, eventually, type Tenant } from '../harness/harness.ts'
import { newPerson, openSignIn, signOut, signUp } from './person.ts'
import { SMOKE, useSignIn } from './stage.ts'

const stage = useSignIn()
const app = { email: { enabled: true } }

/** The newest email of a tenant with another code than one that is known, out of the mailbox for development. */
function mailOf({ appId }: Tenant, known?: string): Promise<{ code: string; link: string }> {
  return eventually('the email', async () => {
    const { body } = await call(stage.service.url, 'GET', '/dev/mail.json')
    return body.find((mail: { appId: string; code: string }) => mail.appId === appId && mail.code !== known)
  })
}

async function askForCode(page: Page, email: string): Promise<void> {
  await page.getByRole('button', { name: 'Email me a code' }).click()
  await page.getByLabel('Email').fill(email)
  await page.getByRole('button', { name: 'Send code' }).click()
  await page.getByRole('heading', { name: 'Check your email' }).waitFor()
}

test(
  'somebody new signs in with a code, makes a passkey, and comes back with either as the same user',
  SMOKE,
  async () => {
    const { ada, page, tenant } = await stage.arrive({ app })
    await page.getByRole('button', { name: 'Email me a code' }).waitFor()
    await ada.look('email-first')
    await page.getByRole('button', { name: 'Email me a code' }).click()
    await page.getByRole('button', { name: 'Send code' }).click()
    await page.getByText('Enter your email address.').waitFor()
    await page.getByLabel('Email').fill('ada@example.com')
    await ada.look('email-address')
    await page.getByRole('button', { name: 'Send code' }).click()
    await page.getByRole('heading', { name: 'Check your email' }).waitFor()
    await ada.look('email-code')
    const { code } = await mailOf(tenant)
    await page.getByLabel('6-digit code').fill(code === '000000' ? '000001' : '000000')
    await page.getByRole('button', { name: 'Sign in', exact: true }).click()
    await page.getByText('Attempts left: 4').waitFor()
    await ada.look('email-code-wrong')
    await page.getByLabel('6-digit code').fill(`${code.slice(0, 3)} ${code.slice(3)}`)
    await page.getByRole('button', { name: 'Sign in', exact: true }).click()
    await page.getByRole('heading', { name: 'Sign in faster next time' }).waitFor()
    await ada.look('email-offer')
    await page.getByRole('button', { name: 'Create a passkey' }).click()
    await page.getByText('This device', { exact: true }).waitFor()
    expect(await ada.passkeys()).toBe(1)
    const users = await tenant.get('/users')
    expect(users.body.data).toMatchObject([{ email: 'ada@example.com', emailVerified: true }])
    await signOut(ada)
    await page.getByRole('button', { name: 'Sign in with a passkey' }).click()
    await page.getByText('This device', { exact: true }).waitFor()
    await signOut(ada)
    await askForCode(page, 'ada@example.com')
    await page.getByLabel('6-digit code').fill((await mailOf(tenant, code)).code)
    await page.getByRole('button', { name: 'Sign in', exact: true }).click()
    await page.getByText('This device', { exact: true }).waitFor()
    expect((await tenant.get('/users')).body.total).toBe(1)
    // What a passkey protects needs it in this session too.
    await page.getByRole('button', { name: /^Remove/ }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'Remove' }).click()
    await page.getByText('this also needs your passkey').waitFor()
    await ada.look('email-weak')
  },
)

test('a link finishes in the browser that asked; elsewhere it shows the code and signs nobody in', async () => {
  const { ada, page, tenant } = await stage.arrive({ app })
  await askForCode(page, 'ada@example.com')
  const { link, code } = await mailOf(tenant)
  // A mail scanner opens it, several times.
  for (let i = 0; i < 3; i += 1) await call(link.slice(0, link.indexOf('#')), 'GET', '')
  const stranger = stage.host(await newPerson(stage.browser))
  await stranger.page.goto(link)
  await stranger.page.getByRole('heading', { name: 'Your code' }).waitFor()
  await stranger.page.getByText(code, { exact: true }).waitFor()
  expect(stranger.page.url()).not.toContain(code)
  await stranger.look('email-elsewhere')
  expect((await tenant.get('/users')).body.total).toBe(0)
  const tab = await ada.context.newPage()
  await tab.goto(link)
  await tab.getByRole('heading', { name: 'Sign in faster next time' }).waitFor()
  expect(tab.url()).not.toContain(code)
  await tab.getByRole('button', { name: 'Not now' }).click()
  await tab.getByText('You have no passkey yet.').waitFor()
  expect((await tenant.get('/users')).body.data).toMatchObject([{ email: 'ada@example.com' }])
})

test('an account that only named the address is not opened, and a new one can be started', async () => {
  const { ada, page, tenant } = await stage.arrive({ app })
  await signUp(ada, { email: 'ada@example.com' })
  await page.getByText('This device', { exact: true }).waitFor()
  await signOut(ada)
  await askForCode(page, 'ada@example.com')
  await page.getByLabel('6-digit code').fill((await mailOf(tenant)).code)
  await page.getByRole('button', { name: 'Sign in', exact: true }).click()
  await page.getByRole('heading', { name: 'Is this your account?' }).waitFor()
  await ada.look('email-not-linked')
  await page.getByRole('button', { name: 'Create a new account' }).click()
  await page.getByRole('button', { name: 'Not now' }).click()
  await page.getByText('You have no passkey yet.').waitFor()
  expect((await tenant.get('/users')).body.data).toMatchObject([{ email: 'ada@example.com' }, { email: null }])
})

test('somebody who is signed in confirms their address, and signs in with it from then on', async () => {
  const { ada, page, tenant } = await stage.arrive({ app })
  await signUp(ada, { email: 'ada@example.com' })
  await page.getByRole('button', { name: 'Confirm your address' }).click()
  await page.getByText('Enter the code that we sent to ada@example.com.').waitFor()
  await ada.look('email-confirm')
  const { code } = await mailOf(tenant)
  await page.getByLabel('6-digit code').fill(code === '000000' ? '000001' : '000000')
  await page.getByRole('button', { name: 'Confirm', exact: true }).click()
  await page.getByText('Attempts left: 4').waitFor()
  await page.getByLabel('6-digit code').fill(code)
  await page.getByRole('button', { name: 'Confirm', exact: true }).click()
  await page.getByText('Your address is confirmed.').waitFor()
  await page.getByText('Codes are sent to ada@example.com.').waitFor()
  await ada.look('email-confirmed')
  await signOut(ada)
  await askForCode(page, 'ada@example.com')
  await page.getByLabel('6-digit code').fill((await mailOf(tenant, code)).code)
  await page.getByRole('button', { name: 'Sign in', exact: true }).click()
  await page.getByText('Codes are sent to ada@example.com.').waitFor()
  expect((await tenant.get('/users')).body.total).toBe(1)
})

test('somebody who is signed in changes their address by the codes of both, and signs in with the new one', async () => {
  const { ada, page, tenant } = await stage.arrive({ app })
  await askForCode(page, 'ada@example.com')
  const first = (await mailOf(tenant)).code
  await page.getByLabel('6-digit code').fill(first)
  await page.getByRole('button', { name: 'Sign in', exact: true }).click()
  await page.getByRole('button', { name: 'Not now' }).click()
  await page.getByRole('button', { name: 'Change your address' }).click()
  await page.getByLabel('New email').fill('ADA@example.com')
  await page.getByRole('button', { name: 'Send code' }).click()
  await page.getByText('This is your address already.').waitFor()
  await ada.look('email-change')
  await page.getByLabel('New email').fill('lovelace@example.com')
  await page.getByRole('button', { name: 'Send code' }).click()
  await page.getByText('We sent a code to each address.').waitFor()
  const mailFor = (purpose: string) =>
    eventually('the email', async () => {
      const { body } = await call(stage.service.url, 'GET', '/dev/mail.json')
      return body.find(
        (mail: { appId: string; purpose: string }) => mail.appId === tenant.appId && mail.purpose === purpose,
      )
    })
  const [ours, theirs] = [await mailFor('change'), await mailFor('change_current')]
  await page.getByLabel('Code sent to lovelace@example.com').fill(ours.code)
  await page.getByLabel('Code sent to ada@example.com').fill(theirs.code === '000000' ? '000001' : '000000')
  await page.getByRole('button', { name: 'Change address' }).click()
  await page.getByText('The code sent to ada@example.com is incorrect. Attempts left: 4').waitFor()
  await ada.look('email-change-codes')
  await page.getByLabel('Code sent to ada@example.com').fill(theirs.code)
  await page.getByRole('button', { name: 'Change address' }).click()
  await page.getByText('Your address is changed.').waitFor()
  await page.getByText('Codes are sent to lovelace@example.com.').waitFor()
  await ada.look('email-changed')
  expect((await tenant.get('/users')).body.data).toMatchObject([{ email: 'lovelace@example.com', emailVerified: true }])
})

test('email is offered where the app has it, also to browsers without passkeys, and returns to the app', async () => {
  const off = await stage.arrive()
  await off.page.getByRole('button', { name: 'Sign in with a passkey' }).waitFor()
  expect(await off.page.getByRole('button', { name: 'Email me a code' }).count()).toBe(0)
  const redirect = `${stage.service.url.replace('127.0.0.1', 'localhost')}/docs`
  const { page, tenant } = await stage.arrive({
    app: { ...app, allowedRedirectUrls: [redirect] },
    withoutPasskeys: true,
    query: {
      redirect_uri: redirect,
      state: 'xyz',
      code_challenge: 'E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM',
      code_challenge_method: 'S256',
    },
  })
  await askForCode(page, 'ada@example.com')
  const { code, link } = await mailOf(tenant)
  expect(link).toContain('state=xyz')
  await page.getByLabel('6-digit code').fill(code)
  await page.getByRole('button', { name: 'Sign in', exact: true }).click()
  await page.waitForURL(/\/docs\?code=hk_sc_[\w-]+&state=xyz/)
  expect((await tenant.get('/users')).body.total).toBe(1)
  await openSignIn(stage.host(await newPerson(stage.browser)), stage.service, tenant)
})
