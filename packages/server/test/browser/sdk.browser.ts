import { createHash, createHmac } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import type { Page } from 'playwright-core'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { bundle, FROM_SOURCES } from '../../../sdk/test/bundle.ts'
import { eventually, type Service, type Tenant } from '../harness/harness.ts'
import { newContext, newPerson, type Person, type PersonOptions, signUp as signUpOnHostedPage } from './person.ts'
import { SMOKE, useStage } from './stage.ts'

const MINUTE_MS = 60_000
const BOT_TOKEN = '110201543:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw'
const entry = (name: string) => fileURLToPath(new URL(name, import.meta.url))

/** The page with a policy that allows the page's own script and calls of the service, and nothing else. */
async function openSite(service: Service): Promise<{ origin: string; close(): Promise<void> }> {
  const script = await bundle(entry('sdk-page.js'), { alias: FROM_SOURCES })
  const folder = mkdtempSync(join(tmpdir(), 'halfkey-sdk-page-'))
  const serverFile = join(folder, 'server.mjs')
  writeFileSync(serverFile, await bundle(entry('sdk-server.js'), { alias: FROM_SOURCES, platform: 'node' }))
  const { html } = (await import(pathToFileURL(serverFile).href)) as { html(): string }
  rmSync(folder, { recursive: true })
  const page = `<!doctype html><html lang="en"><meta charset="utf-8"><title>Shop</title><div id="root">${html()}</div><script type="module" src="/page.js"></script>`
  const connect = `${service.url} ${service.url.replace('127.0.0.1', 'localhost')}`
  const policy = `default-src 'none'; script-src 'self'; connect-src ${connect}; base-uri 'none'; require-trusted-types-for 'script'`
  const server = createServer((request, response) => {
    const isScript = request.url === '/page.js'
    if (request.url === '/favicon.ico') return response.writeHead(204).end()
    return response
      .writeHead(200, {
        'content-type': isScript ? 'text/javascript' : 'text/html; charset=utf-8',
        'content-security-policy': policy,
      })
      .end(isScript ? script : page)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    origin: `http://localhost:${(server.address() as AddressInfo).port}`,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}

const stage = useStage()
let site: Awaited<ReturnType<typeof openSite>>
let person: Person | undefined
beforeAll(async () => {
  site = await openSite(stage.service)
})
afterAll(async () => {
  await site.close()
})
afterEach(async () => {
  const leaving = person
  person = undefined
  await leaving?.context.close()
})

interface Arrival {
  ada: Person
  page: Page
  tenant: Tenant
  url: string
  /** What the page complained of: a policy that was broken, a render that did not fit the server's. */
  complaints: string[]
}

async function arrive(options: PersonOptions & { query?: string; script?: string } = {}): Promise<Arrival> {
  const tenant = await stage.service.newTenant()
  person = await newPerson(stage.browser, options)
  if (options.script !== undefined) await person.context.addInitScript(options.script)
  const { page } = person
  const complaints: string[] = []
  page.on('pageerror', (error) => complaints.push(String(error)))
  page.on('console', (message) => {
    if (message.type() === 'error' && !message.text().startsWith('Failed to load')) complaints.push(message.text())
  })
  const key = await tenant.newKey({ publishable: true })
  const url = `${site.origin}/?${new URLSearchParams({ service: stage.service.url, key })}${options.query ?? ''}`
  await page.goto(url)
  await page.locator('#session', { hasText: 'signed_out' }).waitFor()
  return { ada: person, page, tenant, url, complaints }
}

const shows = (page: Page, id: string, text: string | RegExp) => page.locator(`#${id}`, { hasText: text }).waitFor()
const press = (page: Page, name: string) => page.getByRole('button', { name, exact: true }).click()

async function signUp(page: Page, email: string): Promise<void> {
  await page.getByLabel('Email').fill(email)
  await press(page, 'Sign up')
  await shows(page, 'session', `signed_in ${email}`)
}

/** Runs a function of the page; what it throws comes back by its reason or code. */
const inPage = (page: Page, code: string) =>
  page.evaluate(
    `(async () => { try { return await (${code}) } catch (error) { return 'failed: ' + (error.reason ?? error.code ?? error) } })()`,
  )

describe('the hooks', () => {
  test('somebody signs up by a passkey, gets a wallet, stays signed in, signs out and in again', SMOKE, async () => {
    const { ada, page, complaints } = await arrive()
    await signUp(page, 'ada@example.com')
    expect(await ada.passkeys()).toBe(1)
    await shows(page, 'wallet', 'none')
    await press(page, 'Create wallet')
    await shows(page, 'wallet', /ready wal_/)
    const wallet = await page.locator('#wallet').textContent()
    await page.reload()
    await shows(page, 'session', 'signed_in ada@example.com')
    await shows(page, 'wallet', wallet ?? '')
    await press(page, 'Sign out')
    await shows(page, 'session', 'signed_out')
    await shows(page, 'wallet', 'none')
    await press(page, 'Sign in')
    await shows(page, 'session', 'signed_in ada@example.com')
    await shows(page, 'wallet', wallet ?? '')
    expect(complaints).toEqual([])
  })

  test('tabs sign in and out together, and renew a token that ran out once between them', async () => {
    const { ada, page, url } = await arrive()
    const other = await ada.context.newPage()
    await other.goto(url)
    // Browsers prompt where the person looks.
    await page.bringToFront()
    await signUp(page, 'ada@example.com')
    await shows(other, 'session', 'signed_in ada@example.com')
    await press(page, 'Create wallet')
    await shows(page, 'wallet', /ready/)
    await press(other, 'Read wallet again')
    await shows(other, 'wallet', /ready/)
    const renewals: string[] = []
    ada.context.on('request', (request) => {
      if (request.url().endsWith('/v1/auth/refresh') && request.method() === 'POST') renewals.push(request.url())
    })
    stage.service.advance(16 * MINUTE_MS)
    const reads = 'Promise.all(Array.from({ length: 10 }, () => app.client.api.wallet.get())).then((all) => all.length)'
    expect(await Promise.all([inPage(page, reads), inPage(other, reads)])).toEqual([10, 10])
    expect(renewals).toHaveLength(1)
    await press(other, 'Sign out')
    await shows(page, 'session', 'signed_out')
  })

  test('passkeys are offered in the email field, where that is wished', async () => {
    const { page, url } = await arrive({ autofill: true })
    await signUp(page, 'ada@example.com')
    await press(page, 'Sign out')
    await shows(page, 'session', 'signed_out')
    await page.goto(`${url}&autofill`)
    // The device here takes one at once, without anybody having chosen.
    await shows(page, 'session', 'signed_in ada@example.com')
  })
})

describe('a passkey', () => {
  test('works where the browser cannot read and write its JSON', async () => {
    const script = `for (const name of ['parseCreationOptionsFromJSON', 'parseRequestOptionsFromJSON']) delete PublicKeyCredential[name]
      delete PublicKeyCredential.prototype.toJSON`
    const { page } = await arrive({ script })
    expect(await inPage(page, "'toJSON' in PublicKeyCredential.prototype")).toBe(false)
    await signUp(page, 'ada@example.com')
    await press(page, 'Sign out')
    await shows(page, 'session', 'signed_out')
    await press(page, 'Sign in')
    await shows(page, 'session', 'signed_in ada@example.com')
  })

  test('works where something stands in the way of the browser’s own toJSON', async () => {
    const script = `PublicKeyCredential.prototype.toJSON = () => { throw new TypeError('Illegal invocation') }`
    const { page } = await arrive({ script })
    await signUp(page, 'ada@example.com')
  })

  test('that fails says what the person did, and leaves them signed out', async () => {
    const { ada, page } = await arrive()
    await ada.recognised(false)
    await page.getByLabel('Email').fill('ada@example.com')
    await press(page, 'Sign up')
    await shows(page, 'way', 'cancelled')
    await shows(page, 'session', 'signed_out')
    await ada.recognised(true)
    await signUp(page, 'ada@example.com')
    await press(page, 'Add a passkey')
    await shows(page, 'way', 'already_registered')
    await ada.takeAnotherDevice()
    await press(page, 'Add a passkey')
    await shows(page, 'way', 'fine')
    expect(await ada.passkeys()).toBe(1)
    await shows(page, 'session', 'signed_in ada@example.com')
    // The session before the new passkey's own was ended.
    await eventually(
      'one session',
      async () => (await inPage(page, 'app.client.api.auth.sessions.list().then((page) => page.total)')) === 1,
    )
  })

  test('of an account that is there already is refused by the service', async () => {
    const { ada, page } = await arrive()
    await signUp(page, 'ada@example.com')
    await press(page, 'Sign out')
    await shows(page, 'session', 'signed_out')
    await ada.takeAnotherDevice()
    await press(page, 'Sign up')
    await shows(page, 'way', 'already_exists')
  })

  test('is said not to be supported where browsers have none', async () => {
    const { page } = await arrive({ withoutPasskeys: true })
    expect(await inPage(page, 'app.supportsPasskeys()')).toBe(false)
    expect(await inPage(page, 'app.supportsAutofill()')).toBe(false)
    await press(page, 'Sign in')
    await shows(page, 'way', 'not_supported')
  })

  test('is waited for until the signal aborts or another prompt takes its place', async ({ onTestFinished }) => {
    const context = await newContext(stage.browser)
    onTestFinished(() => context.close())
    const page = await context.newPage()
    // A device that waits for a touch, which does not come.
    const cdp = await context.newCDPSession(page)
    const options = {
      protocol: 'ctap2',
      transport: 'internal',
      hasResidentKey: true,
      hasUserVerification: true,
    } as const
    await cdp.send('WebAuthn.enable')
    await cdp.send('WebAuthn.addVirtualAuthenticator', { options: { ...options, automaticPresenceSimulation: false } })
    const key = await (await stage.service.newTenant()).newKey({ publishable: true })
    await page.goto(`${site.origin}/?${new URLSearchParams({ service: stage.service.url, key })}`)
    await shows(page, 'session', 'signed_out')
    const waiting = await inPage(
      page,
      `(async () => {
        const [first, second] = [new AbortController(), new AbortController()]
        const nameOf = (error) => error.reason ?? error.message
        // Each is asked for, and the prompt is open, before the next step.
        const begun = (act) => { const asked = navigator.credentials; let tell; const opened = new Promise((done) => { tell = done })
          for (const name of ['get', 'create']) { const own = CredentialsContainer.prototype[name]
            asked[name] = function (request) { delete asked.get; delete asked.create; const result = own.call(asked, request); tell(); return result } }
          return { result: act().catch(nameOf), opened } }
        const one = begun(() => app.signIn(app.client, { signal: first.signal }))
        await one.opened
        const two = begun(() => app.createPasskey(app.client, { email: 'ada@example.com', signal: second.signal }))
        await two.opened
        second.abort(new Error('moved on'))
        return [await one.result, await two.result]
      })()`,
    )
    expect(waiting).toEqual(['superseded', 'moved on'])
    const before = 'app.signIn(app.client, { signal: AbortSignal.abort(new Error("before")) })'
    expect(await inPage(page, before)).toBe('failed: Error: before')
  })
})

describe('the hosted page', () => {
  const start = (appId: string) =>
    `app.startHostedSignIn(app.client, ${JSON.stringify({ appId, redirectUri: `${site.origin}/` })})`

  async function arriveWithRedirect() {
    const arrival = await arrive()
    const allowedRedirectUrls = [`${site.origin}/`]
    await arrival.tenant.patch(`/apps/${arrival.tenant.appId}`, { name: 'Shop', allowedRedirectUrls })
    return arrival
  }

  test('signs somebody in and leaves no trace of the code in the address', async () => {
    const { ada, page, tenant } = await arriveWithRedirect()
    await inPage(page, start(tenant.appId))
    await page.getByRole('heading', { name: 'Sign in to Shop' }).waitFor()
    await signUpOnHostedPage(ada, { email: 'ada@example.com' })
    await page.waitForURL(`${site.origin}/?code=*`)
    await shows(page, 'session', 'signed_out')
    expect(await inPage(page, 'app.finishHostedSignIn(app.client).then((result) => result.user.email)')).toBe(
      'ada@example.com',
    )
    await shows(page, 'session', 'signed_in ada@example.com')
    expect(page.url()).toBe(`${site.origin}/`)
    expect(await inPage(page, 'app.finishHostedSignIn(app.client)')).toBeNull()
  })

  test('a way back that this tab did not begin, or another state, signs nobody in', async () => {
    const { page, tenant } = await arriveWithRedirect()
    await page.goto(`${site.origin}/?code=hk_sc_somebodyElses&state=theirs`)
    await shows(page, 'session', 'signed_out')
    expect(await inPage(page, 'app.finishHostedSignIn(app.client)')).toBe('failed: not_started_here')
    expect(page.url()).toBe(`${site.origin}/`)
    const options = JSON.stringify({ appId: tenant.appId, redirectUri: `${site.origin}/` })
    await inPage(page, `app.hostedSignInUrl(app.client, ${options})`)
    await page.goto(`${site.origin}/?code=hk_sc_somebodyElses&state=theirs`)
    await shows(page, 'session', 'signed_out')
    expect(await inPage(page, 'app.finishHostedSignIn(app.client)')).toBe('failed: state_mismatch')
    await shows(page, 'session', 'signed_out')
  })
})

describe('Telegram', () => {
  const lines = (fields: Record<string, string | number>) =>
    Object.keys(fields)
      .sort()
      .map((name) => `${name}=${fields[name]}`)
      .join('\n')

  function widgetResult(): string {
    const fields = {
      id: 4_294_967_296,
      first_name: 'Grace ⚓',
      auth_date: Math.floor(stage.service.deps.now().getTime() / 1000),
    }
    const secret = createHash('sha256').update(BOT_TOKEN).digest()
    const hash = createHmac('sha256', secret).update(lines(fields)).digest('hex')
    return Buffer.from(JSON.stringify({ ...fields, hash })).toString('base64url')
  }

  function initData(): string {
    const user = JSON.stringify({ id: 77, first_name: 'Grace' })
    const fields = { auth_date: String(Math.floor(stage.service.deps.now().getTime() / 1000)), user }
    const secret = createHmac('sha256', 'WebAppData').update(BOT_TOKEN).digest()
    const hash = createHmac('sha256', secret).update(lines(fields)).digest('hex')
    return new URLSearchParams({ ...fields, hash }).toString()
  }

  async function arriveWithBot() {
    const arrival = await arrive()
    const messenger = { botUsername: 'shop_login_bot', botToken: BOT_TOKEN }
    await arrival.tenant.patch(`/apps/${arrival.tenant.appId}`, { messenger })
    return arrival
  }

  /** Another arrival, as a link or Telegram's page leads to it: the fragment alone would load nothing. */
  async function comeBack(page: Page, fragment: string): Promise<void> {
    await page.goto(`${site.origin}/?back#${fragment}`)
    await page.reload()
    await shows(page, 'session', 'signed_out')
  }

  test('its page leads back to a sign-in, once, out of the address; and only in the tab that went there', async () => {
    const { page } = await arriveWithBot()
    await comeBack(page, `tgAuthResult=${widgetResult()}`)
    expect(await inPage(page, 'app.finishTelegramSignIn(app.client)')).toBe('failed: not_started_here')
    expect(page.url()).not.toContain('tgAuthResult')
    const url = new URL((await inPage(page, 'app.telegramSignInUrl(app.client)')) as string)
    expect(url.origin).toBe('https://oauth.telegram.org')
    expect([url.searchParams.get('origin'), url.searchParams.get('return_to')]).toEqual([
      site.origin,
      `${site.origin}/?back`,
    ])
    await comeBack(page, `tgAuthResult=${widgetResult()}`)
    const name = 'app.finishTelegramSignIn(app.client).then((result) => result.user.name)'
    expect(await inPage(page, name)).toBe('Grace ⚓')
    await shows(page, 'session', 'signed_in')
    expect(await inPage(page, 'app.finishTelegramSignIn(app.client)')).toBeNull()
  })

  test('whoever refused there, or came back with nonsense, is not signed in', async () => {
    const { page } = await arriveWithBot()
    for (const [fragment, result] of [
      ['false', null],
      ['%%%', 'failed: unreadable'],
      ['bnVsbA', 'failed: unreadable'],
      [Buffer.from('{"id":1,"auth_date":1,"hash":"00"}').toString('base64url'), 'failed: messenger_signature_invalid'],
    ] as const) {
      await inPage(page, 'app.telegramSignInUrl(app.client)')
      await comeBack(page, `tgAuthResult=${fragment}`)
      expect(await inPage(page, 'app.finishTelegramSignIn(app.client)'), fragment).toBe(result)
    }
  })

  test('a Mini App signs in by what it was opened with', async () => {
    const { page } = await arriveWithBot()
    expect(await inPage(page, 'app.miniAppInitData()')).toBeNull()
    await comeBack(page, `tgWebAppData=${encodeURIComponent(initData())}`)
    expect(await inPage(page, 'app.signInToMiniApp(app.client).then((result) => result.isNewUser)')).toBe(true)
    await shows(page, 'session', 'signed_in')
    const other = `app.signInToMiniApp(app.client, ${JSON.stringify(initData())}).then((result) => result.isNewUser)`
    await inPage(page, 'app.client.forget()')
    stage.service.advance(1_000)
    expect(await inPage(page, other.replace(/auth_date=\d+/, 'auth_date=1'))).toBe(
      'failed: messenger_signature_invalid',
    )
  })
})
