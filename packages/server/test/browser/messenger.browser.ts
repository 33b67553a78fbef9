import { createHash, createHmac } from 'node:crypto'
import { expect, test } from 'vitest'
import { originOf } from './person.ts'
import { useSignIn } from './stage.ts'

const BOT_TOKEN = '110201543:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw'

const stage = useSignIn()

const lines = (fields: Record<string, string | number>) =>
  Object.keys(fields)
    .sort()
    .map((name) => `${name}=${fields[name]}`)
    .join('\n')

/** The login widget's answer, signed as core.telegram.org/widgets/login says, in the form that returns in a fragment. */
function authResult(fields: Record<string, string | number>, botToken = BOT_TOKEN): string {
  const secret = createHash('sha256').update(botToken).digest()
  const hash = createHmac('sha256', secret).update(lines(fields)).digest('hex')
  return Buffer.from(JSON.stringify({ ...fields, hash })).toString('base64url')
}

/** What a Mini App starts with, signed as core.telegram.org/bots/webapps says. */
function initData(fields: Record<string, string>): string {
  const secret = createHmac('sha256', 'WebAppData').update(BOT_TOKEN).digest()
  const hash = createHmac('sha256', secret).update(lines(fields)).digest('hex')
  return new URLSearchParams({ ...fields, hash }).toString()
}

const now = () => Math.floor(stage.service.deps.now().getTime() / 1000)
const grace = () => ({
  id: 4_294_967_296,
  first_name: 'Grace',
  last_name: 'Hopper ⚓',
  username: 'grace',
  auth_date: now(),
})

async function arrive() {
  const messenger = { botUsername: 'acme_login_bot', botToken: BOT_TOKEN }
  const arrival = await stage.arrive({ app: { messenger } })
  const { page } = arrival
  const url = page.url()
  /** Another arrival, with a fragment: a new document, as a link that somebody follows. */
  const openWith = async (fragment: string) => {
    await page.goto('about:blank')
    await page.goto(`${url}#${fragment}`)
  }
  return { ...arrival, url, openWith }
}

test('Telegram signs in: there, back, and the fragment is gone', async () => {
  const { page, tenant, url } = await arrive()
  let asked = ''
  await page.route('https://oauth.telegram.org/**', (route) => {
    asked = route.request().url()
    const to = new URL(asked).searchParams.get('return_to') ?? ''
    return route.fulfill({ status: 302, headers: { location: `${to}#tgAuthResult=${authResult(grace())}` } })
  })
  await page.getByRole('link', { name: 'Continue with Telegram' }).click()
  await page.getByText('Grace Hopper ⚓').waitFor()
  const query = new URL(asked).searchParams
  expect([query.get('bot_id'), query.get('origin'), query.get('return_to')]).toEqual([
    '110201543',
    originOf(stage.service),
    url,
  ])
  expect(page.url()).toBe(url)
  expect((await tenant.get('/users')).body.data).toMatchObject([{ name: 'Grace Hopper ⚓', email: null }])
})

test('an answer that this browser did not ask for signs in only after a yes', async () => {
  const { ada, page, tenant, url, openWith } = await arrive()
  await openWith(`tgAuthResult=${authResult(grace())}`)
  await page.getByRole('heading', { name: 'Continue as Grace Hopper ⚓?' }).waitFor()
  expect(page.url()).toBe(url)
  await ada.look('messenger-confirm')
  expect((await tenant.get('/users')).body.data).toEqual([])
  await page.getByRole('button', { name: 'Sign in another way' }).click()
  await page.getByRole('heading', { name: 'Sign in to Acme Wallet' }).waitFor()
  await openWith(`tgAuthResult=${authResult(grace())}`)
  await page.getByRole('button', { name: 'Continue', exact: true }).click()
  await page.getByText('Signed in to Acme Wallet').waitFor()
})

test('an answer of another bot is refused in words', async () => {
  const { ada, page, openWith } = await arrive()
  await openWith(`tgAuthResult=${authResult(grace(), '1:another-bot-token')}`)
  await page.getByRole('button', { name: 'Continue', exact: true }).click()
  await page.getByText('The response from Telegram could not be verified').waitFor()
  await ada.look('messenger-refused')
})

test('who turned back at Telegram is told calmly', async () => {
  const { page, openWith } = await arrive()
  for (const nothing of ['false', '', 'bnVsbA', '%%%']) {
    await openWith(`tgAuthResult=${nothing}`)
    await page.getByRole('status').filter({ hasText: 'Telegram did not sign you in' }).waitFor()
  }
})

test('a Mini App signs in with what Telegram started it with', async () => {
  const { page, url, openWith } = await arrive()
  const user = JSON.stringify({ id: 42, first_name: 'Grace', last_name: 'Hopper' })
  const data = initData({ auth_date: String(now()), query_id: 'AAF', user })
  // The object by which Telegram's own browser is known.
  await page.addInitScript('globalThis.TelegramWebviewProxy = {}')
  await openWith(`tgWebAppData=${encodeURIComponent(data)}&tgWebAppVersion=8.0`)
  await page.getByText('Grace Hopper').waitFor()
  expect(page.url()).toBe(url)
})
