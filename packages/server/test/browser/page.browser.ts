import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { call } from '../harness/harness.ts'
import { newContext, originOf, signUp } from './person.ts'
import { useSignIn } from './stage.ts'

const ASSETS = join(import.meta.dirname, '../../assets/signin')
const HOSTILE = `<img src=x onerror=alert(1)>"'&</script><script>alert(2)</script>\u2028 ]]> -->`

const stage = useSignIn()
const { arrive } = stage

test("hostile names of app and user stay text, in every place they're shown", async () => {
  const { ada, page } = await arrive({ app: { name: HOSTILE } })
  const heading = await page.getByRole('heading').textContent()
  expect(heading).toBe(`Sign in to ${HOSTILE}`)
  expect(await page.title()).toContain('<img src=x onerror=alert(1)>')
  await ada.look('hostile-name')
  await signUp(ada, { name: HOSTILE })
  await page.getByRole('button', { name: /^Rename/ }).click()
  await page.getByLabel('Name of the passkey').fill(HOSTILE)
  await page.getByRole('button', { name: 'Save' }).click()
  await page.getByText('Passkey renamed.').waitFor()
  await page.getByRole('button', { name: /^Remove/ }).click()
  await page.getByRole('dialog').getByText('<img src=x onerror=alert(1)>').waitFor()
  expect(await page.locator('img, main script, dialog script').count()).toBe(0)
})

test('the page allows no inline script, nothing of other servers, and no frame around it', async () => {
  const { tenant } = await arrive()
  const answer = await call(originOf(stage.service), 'GET', `/signin?app=${tenant.appId}`)
  const policy = answer.headers.get('content-security-policy') ?? ''
  for (const directive of ["default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "form-action 'none'"])
    expect(policy.split(/;\s*/)).toContain(directive)
  expect(answer.headers.get('x-frame-options')).toBe('DENY')
  expect(answer.headers.get('referrer-policy')).toBe('no-referrer')
  expect(answer.headers.get('cache-control')).toBe('no-store')
  expect(answer.text).not.toMatch(/\son\w+=|\sstyle=|<script>|https?:\/\/(?!www\.w3\.org)/)
})

test('a page of others that frames it shows nothing of it', async () => {
  const { tenant } = await arrive()
  const context = await newContext(stage.browser)
  const page = await context.newPage()
  await page.route('https://evil.example/', (route) =>
    route.fulfill({
      contentType: 'text/html',
      body: `<iframe src="${originOf(stage.service)}/signin?app=${tenant.appId}"></iframe>`,
    }),
  )
  await page.goto('https://evil.example/')
  expect(await page.frameLocator('iframe').getByText('Sign in').count()).toBe(0)
  await context.close()
})

test('signing up and out needs no mouse', async () => {
  const { page } = await arrive()
  await page.getByRole('button', { name: 'Continue as guest' }).waitFor()
  /** Tabs on, or back, until something of that name has the focus. */
  const tabTo = async (name: string, key = 'Tab') => {
    for (let presses = 0; presses < 20; presses++) {
      await page.keyboard.press(key)
      const found = await page.evaluate(
        `(document.activeElement.labels?.[0] ?? document.activeElement).textContent.trim().startsWith(${JSON.stringify(name)})`,
      )
      if (found === true) return
    }
    throw new Error(`no way to ${name} with the Tab key`)
  }
  const focused = () => page.evaluate('document.activeElement.textContent')
  await tabTo('Create an account')
  await page.keyboard.press('Enter')
  expect(await focused()).toBe('Create your account')
  await tabTo('Email')
  await page.keyboard.type('ada@example.com')
  await tabTo('Name')
  await page.keyboard.type('Ada Lovelace')
  await tabTo('Create a passkey')
  await page.keyboard.press('Space')
  await page.getByText('Ada Lovelace').waitFor()
  expect(await focused()).toBe('Your account')
  await page.getByRole('button', { name: /^Rename/ }).waitFor()
  await tabTo('Remove')
  await page.keyboard.press('Enter')
  await page.getByRole('dialog').waitFor()
  await page.keyboard.press('Escape')
  await page.getByRole('dialog').waitFor({ state: 'detached' })
  expect(await focused()).toMatch(/^Remove/)
  await tabTo('Sign out', 'Shift+Tab')
  await page.keyboard.press('Enter')
  await page.getByText('You are signed out.').waitFor()
  expect(await focused()).toBe('Sign in to Acme Wallet')
})

test('a browser without passkeys is told so and keeps the other ways', async () => {
  const { ada, page } = await arrive({ withoutPasskeys: true })
  await page.getByText('This browser cannot use passkeys').waitFor()
  await ada.look('without-passkeys')
  expect(await page.getByRole('button', { name: /passkey|account/ }).count()).toBe(0)
  await page.getByRole('button', { name: 'Continue as guest' }).click()
  await page.getByLabel('Email').fill('ada@example.com')
  await page.getByRole('button', { name: 'Save your account' }).click()
  await page.getByText('Your account is saved.').waitFor()
})

test('without a network it is said so, and the same button tries again', async () => {
  const { ada, page } = await arrive()
  await page.getByRole('button', { name: 'Continue as guest' }).waitFor()
  await ada.context.setOffline(true)
  await page.getByRole('button', { name: 'Continue as guest' }).click()
  await page.getByText('No connection to the server').waitFor()
  await ada.look('offline')
  await ada.context.setOffline(false)
  await page.getByRole('button', { name: 'Continue as guest' }).click()
  await page.getByRole('heading', { name: 'Save your account' }).waitFor()
})

test('a part of the account that did not load is loaded again by itself', async () => {
  const { ada, page } = await arrive()
  await page.route('**/signin/api/mfa/status', (route) =>
    route.fulfill({ status: 500, json: { code: 'internal_error' } }),
  )
  await signUp(ada)
  const part = page.getByRole('region', { name: 'Two-step verification' })
  await part.getByText('Something went wrong on our side').waitFor()
  await ada.look('part-failed')
  await page.unroute('**/signin/api/mfa/status')
  await part.getByRole('button', { name: 'Try again' }).click()
  await part.getByRole('button', { name: 'Set up' }).waitFor()
})

test('while something is under way, its button says so and the others wait', async () => {
  const { page, tenant } = await arrive()
  let answer = () => {}
  const held = new Promise<void>((done) => {
    answer = done
  })
  await page.route('**/signin/api/guests', async (route) => {
    await held
    await route.continue()
  })
  await page.getByRole('button', { name: 'Continue as guest' }).click()
  const busy = page.getByRole('button', { name: 'One moment…' })
  await busy.waitFor()
  expect(await busy.isDisabled()).toBe(true)
  expect(await page.getByRole('button', { name: 'Create an account' }).isDisabled()).toBe(true)
  await busy.click({ force: true })
  await page.getByRole('button', { name: 'Create an account' }).click({ force: true })
  expect(await page.getByRole('heading').textContent()).toBe('Sign in to Acme Wallet')
  answer()
  await page.getByRole('heading', { name: 'Save your account' }).waitFor()
  expect((await tenant.get('/guests')).body.data).toHaveLength(1)
})

test('the document asks for every module of the page at once, and for none that is not there', async () => {
  const { tenant } = await arrive()
  const { text } = await call(originOf(stage.service), 'GET', `/signin?app=${tenant.appId}`)
  const named = [...text.matchAll(/"\/signin\/([\w-]+\.js)"/g)].map((match) => match[1])
  const modules = readdirSync(ASSETS).filter((name) => name.endsWith('.js'))
  expect(named.sort()).toEqual([...modules, 'webauthn.js'].sort())
})
