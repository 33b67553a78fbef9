import { createPublicKey, verify } from 'node:crypto'
import type { BrowserContext, CDPSession, Page } from 'playwright-core'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { startIssuer, trust } from '../../src/identity/foreign-tokens/issuer.fixture.ts'
import type { Tenant } from '../harness/harness.ts'
import { openSite, type Site } from './app-site.ts'
import { newContext } from './person.ts'
import { SMOKE, useStage } from './stage.ts'

const BOB = `bob::1220${'b0'.repeat(32)}`

const stage = useStage()
let site: Site
let context: BrowserContext | undefined
beforeAll(async () => {
  site = await openSite('shared-keys-page.js')
})
afterAll(async () => {
  await site.close()
})
afterEach(async () => {
  await context?.close()
  context = undefined
})

/** Makes passkeys that have the PRF extension, without asking anybody. */
const DEVICE = {
  protocol: 'ctap2',
  ctap2Version: 'ctap2_1',
  transport: 'internal',
  hasResidentKey: true,
  hasUserVerification: true,
  isUserVerified: true,
  automaticPresenceSimulation: true,
  hasPrf: true,
} as const

/** Somebody's browser at the app's page, with a device whose passkeys have the PRF extension. */
class Visitor {
  readonly page: Page
  readonly tenant: Tenant
  readonly #url: string
  readonly #cdp: CDPSession
  #authenticatorId = ''

  private constructor(page: Page, tenant: Tenant, url: string, cdp: CDPSession) {
    this.page = page
    this.tenant = tenant
    this.#url = url
    this.#cdp = cdp
  }

  static async arrive(tenant: Tenant): Promise<Visitor> {
    context = await newContext(stage.browser)
    const page = await context.newPage()
    const cdp = await context.newCDPSession(page)
    await cdp.send('WebAuthn.enable')
    const key = await tenant.newKey({ publishable: true })
    const visitor = new Visitor(
      page,
      tenant,
      `${site.origin}/?${new URLSearchParams({ service: stage.service.url, key, pin: stage.service.running.pin })}`,
      cdp,
    )
    await visitor.takeDevice()
    await visitor.reload()
    return visitor
  }

  /** Goes on with a new device: what was in the one before is out of reach. */
  async takeDevice(): Promise<void> {
    const before = this.#authenticatorId
    if (before !== '') await this.#cdp.send('WebAuthn.removeVirtualAuthenticator', { authenticatorId: before })
    const { authenticatorId } = await this.#cdp.send('WebAuthn.addVirtualAuthenticator', { options: DEVICE })
    this.#authenticatorId = authenticatorId
  }

  /** As a new visit: what was in memory is gone. */
  async reload(): Promise<void> {
    await this.page.goto(this.#url)
    await this.page.waitForFunction('globalThis.app !== undefined')
  }

  // biome-ignore lint/suspicious/noExplicitAny: whatever the page answers
  do(what: string, ...given: unknown[]): Promise<any> {
    return this.page.evaluate(
      ([name, args]) => Reflect.get(globalThis, 'app')[name as string](...(args as unknown[])),
      [what, given] as const,
    )
  }
}

type SigningUp = (ada: Visitor, tenant: Tenant) => Promise<unknown>
const byPasskey: SigningUp = (ada) => ada.do('signUp', 'ada@example.com')

/** A user with a shared wallet, a device share that a passkey seals, a recovery sheet, and a hundred tokens. */
async function begun(signUp = byPasskey) {
  const tenant = await stage.service.newTenant()
  const ada = await Visitor.arrive(tenant)
  await signUp(ada, tenant)
  const { wallet, sheet } = await ada.do('createWallet')
  expect(wallet).toMatchObject({ custody: 'shared', keyOrigin: 'dkg', status: 'ready' })
  const dripped = await tenant.post('/dev/faucet', { userId: wallet.userId, symbol: 'USDX', amount: '100' })
  const { contractId, issuer } = dripped.body.data
  const policy = {
    allow: [{ templateId: 'Token:Holding', actions: ['exercise'] }],
    spend: [{ asset: { issuer, symbol: 'USDX' }, amount: '10' }],
  }
  let left = contractId
  /** Pays Bob one. */
  const pays = async (more: object = {}) => {
    const exercise = { templateId: 'Token:Holding', contractId: left, choice: 'Transfer' }
    const commands = [{ exercise: { ...exercise, arguments: { receiver: BOB, amount: '1' } } }]
    const paid = await ada.do('pay', { commands, policy, ...more })
    expect(paid.status).toBe('completed')
    left = paid.effects.find(
      (effect: { type: string; arguments: { owner: string } }) =>
        effect.type === 'created' && effect.arguments.owner === wallet.partyId,
    ).contractId
  }
  return { tenant, ada, wallet, sheet: sheet as string, pays }
}

const isSignedBy = (publicKey: string, text: string, signature: string) => {
  const x = Buffer.from(publicKey, 'hex').toString('base64url')
  const key = createPublicKey({ key: { kty: 'OKP', crv: 'Ed25519', x }, format: 'jwk' })
  return verify(null, Buffer.from(text), key, Buffer.from(signature, 'hex'))
}

test('a share sealed by a passkey comes back on a new visit, and pays together with the service', SMOKE, async () => {
  const { ada, pays } = await begun()
  await pays()
  await ada.reload()
  await ada.do('signIn')
  await pays()
})

test('somebody from the app’s own login adds a passkey, has a shared wallet and pays; the login’s token alone reaches none of it', async () => {
  const login = await startIssuer(stage.service)
  const token = () => login.token({ claims: { sub: 'ada', email: 'ada@example.com', email_verified: true } })
  const { ada, pays, wallet } = await begun(async (visitor, tenant) => {
    await trust(tenant, login)
    await visitor.do('signInWithToken', await token())
    await visitor.do('addPasskey')
  })
  await pays()
  await ada.reload()
  await ada.do('signInWithToken', await token())
  await expect(pays()).rejects.toThrow('Show a passkey or the second factor')
  await expect(ada.do('deviceSheet')).rejects.toThrow('Show a passkey or the second factor')
  await ada.do('prove')
  await pays()
  const { canSignIn } = (await ada.tenant.get(`/wallets/${wallet.id}/custody`)).body.data
  expect(canSignIn).toMatchObject([
    { who: 'passkey', reachesKey: true },
    { who: 'issuer', reachesKey: false },
  ])
  await login.close()
})

test('lost device: the recovery sheet shares the key anew, the new shares pay, and the lost one never again', async () => {
  const { tenant, ada, wallet, sheet, pays } = await begun()
  const lost = await ada.do('deviceSheet')
  await ada.takeDevice()
  await ada.reload()
  await expect(ada.do('signIn')).rejects.toThrow('NotAllowedError')
  // The way back in is the app's: its server lets her make a new passkey.
  const asAda = { headers: { 'x-user-id': wallet.userId } }
  await ada.do('register', (await tenant.post('/auth/passkey/register-options', {}, asAda)).body.data)
  const fresh = await ada.do('renew', sheet)
  await pays()
  await pays({ sheet: fresh.recovery })
  await expect(pays({ sheet: lost })).rejects.toThrow(/[Ww]rong|no signature|cannot be combined to a signature/)
  await expect(ada.do('signAlone', [lost, fresh.recovery], 'x')).rejects.toThrow('generations')
  const custody = (await tenant.get(`/wallets/${wallet.id}/custody`)).body.data
  expect(custody).toMatchObject({ generation: 2, serviceAlone: false, userAlone: true, exportedAt: null })
})

test('lost recovery sheet: the device shares the key anew, and the new sheet pays', async () => {
  const { ada, sheet, pays } = await begun()
  const fresh = await ada.do('renew')
  await pays({ sheet: fresh.recovery })
  await expect(pays({ sheet })).rejects.toThrow(/[Ww]rong|no signature|cannot be combined to a signature/)
  await ada.reload()
  await ada.do('signIn')
  await pays()
})

test('dead operator: two sheets sign without any call', async () => {
  const { ada, wallet, sheet } = await begun()
  const device = await ada.do('deviceSheet')
  await context?.setOffline(true)
  let calls = 0
  ada.page.on('request', () => {
    calls += 1
  })
  const signature = await ada.do('signAlone', [device, sheet], 'I am leaving')
  expect(calls).toBe(0)
  expect(isSignedBy(wallet.publicKey, 'I am leaving', signature)).toBe(true)
})

test('leaving with one sheet: the service gives its share out, once it is proven, and says so from then on', async () => {
  const { tenant, ada, wallet, sheet } = await begun()
  const signature = await ada.do('leave', sheet, 'I am leaving')
  expect(isSignedBy(wallet.publicKey, 'I am leaving', signature)).toBe(true)
  const custody = (await tenant.get(`/wallets/${wallet.id}/custody`)).body.data
  expect(custody.exportedAt).not.toBeNull()
  expect((await tenant.get(`/users/${wallet.userId}`)).body.data.trustLevel).toBe('self_custody')
})
