// From the first sign-in to a payment, by each way that the hosted page offers beside passkeys, and back after the passkey is gone. The
// same by an app's own login is in shared-keys.browser.ts: such a login has no button on the hosted page.
import { generateKeyPairSync } from 'node:crypto'
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  answering,
  CLIENT_ID,
  type FakeProvider,
  startFakeProvider,
} from '../../src/identity/providers/provider.fixture.ts'
import { BOB, ISSUER, pay, settingsFile, settingsOf } from '../canton/canton.fixture.ts'
import { COIN } from '../canton/daml.ts'
import { SimulatedParticipant } from '../canton/participant.ts'
import { call, eventually, type Tenant } from '../harness/harness.ts'
import { newPerson, originOf } from './person.ts'
import { useStage } from './stage.ts'
import { click, heading, onboarded } from './wallet-page.ts'

const EMAIL = 'ada@example.com'
const HOUR_MS = 3_600_000
const SETTINGS = { name: 'Acme Wallet', email: { enabled: true }, emailRecovery: { enabled: true } }
const APPLE_KEY = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey.export({ type: 'pkcs8', format: 'pem' })

const participant = new SimulatedParticipant()
const stage = useStage(async () => {
  await participant.start()
  return { HALFKEY_LEDGERS: `canton:${settingsFile(settingsOf(participant))}` }
})
let provider: FakeProvider
beforeAll(async () => {
  participant.now = stage.service.deps.now
  provider = await startFakeProvider(stage.service)
})
afterAll(async () => {
  await provider.close()
  await participant.stop()
})

/** Somebody at the sign-in page of an app, with a device whose passkeys can seal a share. */
async function arrive() {
  const tenant = await stage.service.newTenant()
  await tenant.patch(`/apps/${tenant.appId}`, SETTINGS)
  const ada = stage.host(await newPerson(stage.browser, { prf: true }))
  const open = async (path: string, payment?: object) => {
    const link = payment === undefined ? '' : `#pay=${Buffer.from(JSON.stringify(payment)).toString('base64url')}`
    await ada.page.goto('about:blank')
    await ada.page.goto(`${originOf(stage.service)}${path}?app=${tenant.appId}${link}`)
  }
  return { tenant, ada, page: ada.page, open }
}

interface Mail {
  id: string
  appId: string
  purpose: string
  code: string
}

/** The newest email of a tenant for a purpose, unless it was seen before. */
const mailOf = ({ appId }: Tenant, purpose: string, seen?: Mail): Promise<Mail> =>
  eventually(`the email ${purpose}`, async () => {
    const mails: Mail[] = (await call(stage.service.url, 'GET', '/dev/mail.json')).body
    return mails.find((mail) => mail.appId === appId && mail.purpose === purpose && mail.id !== seen?.id)
  })

/** Adds a provider of a preset that is played by the test's own. */
async function addProvider(tenant: Tenant, settings: object): Promise<{ callbackUrl: string }> {
  const body = { issuer: provider.issuer, clientId: CLIENT_ID, clientSecret: 'a secret', ...settings }
  const made = await tenant.post(`/apps/${tenant.appId}/providers`, body)
  expect(made.status, made.text).toBe(201)
  return made.body.data
}

/** The provider's page: whoever comes there is somebody, and goes back at once. `asForm`: by a form, as Apple sends it. */
function playProvider({ callbackUrl }: { callbackUrl: string }, asForm: boolean): void {
  provider.paths['/authorize'] = ({ query: asked }) => {
    expect(asked.get('response_mode')).toBe(asForm ? 'form_post' : null)
    const claims = { sub: 'ada', nonce: asked.get('nonce'), email: EMAIL, email_verified: asForm ? 'true' : true }
    answering(provider, () => provider.idToken({ claims }))
    const back = { code: 'a code', state: asked.get('state') ?? '', iss: provider.issuer }
    if (!asForm) return { status: 302, headers: { location: `${callbackUrl}?${new URLSearchParams(back)}` } }
    const inputs = Object.entries(back).map(([name, value]) => `<input type="hidden" name="${name}" value="${value}">`)
    return {
      headers: { 'content-type': 'text/html' },
      body: `<!doctype html><title>A provider</title><link rel="icon" href="data:,">
<form method="post" action="${callbackUrl}">${inputs.join('')}</form><script>document.forms[0].submit()</script>`,
    }
  }
}

const signInByCode = async (page: Page, tenant: Tenant) => {
  await click(page, 'Email me a code')
  await page.getByLabel('Email').fill(EMAIL)
  await click(page, 'Send code')
  await page.getByLabel('6-digit code').fill((await mailOf(tenant, 'sign_in')).code)
  await click(page, 'Sign in')
}

const WAYS: [string, (page: Page, tenant: Tenant, open: (path: string) => Promise<void>) => Promise<void>][] = [
  ['a code by email', signInByCode],
  [
    'Google',
    async (page, tenant, open) => {
      playProvider(await addProvider(tenant, { preset: 'google' }), false)
      await open('/signin')
      await click(page, 'Continue with Google')
    },
  ],
  [
    'Apple',
    async (page, tenant, open) => {
      const settings = { preset: 'apple', clientSecret: APPLE_KEY, teamId: 'A1B2C3D4E5', keyId: 'F6G7H8J9K0' }
      playProvider(await addProvider(tenant, settings), true)
      await open('/signin')
      await click(page, 'Continue with Apple')
    },
  ],
]

const coinFor = (owner: string) => participant.mint(COIN, { issuer: ISSUER, owner, symbol: 'CC', amount: '10' })
const payment = (contractId: string) => ({ command: pay(contractId, '3'), assets: [{ issuer: ISSUER, symbol: 'CC' }] })
const amountsOf = (owner: string) => participant.active(COIN, { owner }).map(({ fields }) => fields.amount)

/** From the first sign-in to a payment. @returns what is needed to go on */
async function paidAfter(signUp: (typeof WAYS)[number][1]) {
  const arrived = await arrive()
  const { page, tenant, open, ada } = arrived
  await open('/signin')
  await signUp(page, tenant, open)
  await heading(page, 'Sign in faster next time')
  await click(page, 'Create a passkey')
  await page.getByText('This device', { exact: true }).waitFor()
  expect(await ada.passkeys()).toBe(1)
  await open('/wallet')
  await click(page, 'Sign in with a passkey')
  await heading(page, 'Create your wallet')
  const { party, sheet } = await onboarded(page)
  await open('/wallet', payment(coinFor(party)))
  await click(page, 'Sign in with a passkey')
  await click(page, 'See what you would sign')
  await click(page, 'Sign this')
  await heading(page, 'Paid')
  expect(amountsOf(party)).toEqual(['7.0000000000'])
  expect((await tenant.get('/users')).body).toMatchObject({ total: 1, data: [{ email: EMAIL, emailVerified: true }] })
  const [wallet] = (await tenant.get('/wallets')).body.data
  expect(wallet).toMatchObject({ custody: 'shared', status: 'ready', partyId: party })
  return { ...arrived, party, sheet }
}

test.each(WAYS)('somebody who comes by %s adds a passkey, has a shared wallet and pays', async (_, signUp) => {
  await paidAfter(signUp)
  expect(amountsOf(BOB)).toContain('3')
})

test('who came by a code, and lost their passkey, comes back by email and pays with the share that they wrote down', async () => {
  const { page, tenant, ada, open, party, sheet } = await paidAfter(signInByCode)
  await ada.takeAnotherDevice()
  const prove = async (seen?: Mail) => {
    await open('/signin')
    await click(page, 'I lost my passkey')
    await page.getByLabel('Email').fill(EMAIL)
    await click(page, 'Send code')
    const mail = await mailOf(tenant, 'recovery', seen)
    await page.getByLabel('6-digit code').fill(mail.code)
    await click(page, 'Continue')
    return mail
  }
  const first = await prove()
  await heading(page, 'Your request is waiting')
  // The reminder follows a notice that was sent.
  await mailOf(tenant, 'recovery_requested')
  stage.service.advance(60 * HOUR_MS)
  stage.service.deps.wake.tasks()
  await mailOf(tenant, 'recovery_reminder')
  stage.service.advance(13 * HOUR_MS)
  // Her own clock says how long what she signs may still happen.
  await page.clock.setSystemTime(stage.service.deps.now())
  await prove(first)
  await heading(page, 'Create your new passkey')
  await click(page, 'Create a passkey')
  await page.getByText('This device', { exact: true }).first().waitFor()
  expect((await tenant.get('/users')).body.total).toBe(1)

  await open('/wallet', payment(coinFor(party)))
  await click(page, 'Sign in with a passkey')
  await click(page, 'I lost the device that kept my share')
  await page.getByLabel('Recovery share').fill(sheet)
  await click(page, 'Get your wallet back')
  await heading(page, 'Keep your recovery share')
  await click(page, 'I have kept it')
  await click(page, 'See what you would sign')
  await click(page, 'Sign this')
  await heading(page, 'Paid')
  expect(amountsOf(party)).toContain('7.0000000000')
  expect(amountsOf(party).filter((amount) => amount === '7.0000000000')).toHaveLength(2)
})
