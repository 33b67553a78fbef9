import { createHash, generateKeyPairSync, randomBytes, sign as signBytes } from 'node:crypto'
import { expect } from 'vitest'
import { loginOptions, loginVerify, register, signUp } from '../../../../test/harness/authenticator.ts'
import { type Answer, call, type Tenant } from '../../../../test/harness/harness.ts'
import { newRecoveryApp } from '../../email-recovery/recovery.fixture.ts'
import { type MailingService, newEmailApp } from '../../email-sign-in/email.fixture.ts'
import { exchange, newSubject, type TestIssuer, trust } from '../../foreign-tokens/issuer.fixture.ts'
import { newShop, widget } from '../../messenger/messenger.fixture.ts'
import { answering, type FakeProvider, newBrowser, newPkce, newProviderApp } from '../../providers/provider.fixture.ts'
import { publishableKey } from '../sessions.fixture.ts'

/** What the ways in need beside the service. */
export interface World {
  mailing: MailingService
  issuer: TestIssuer
  provider: FakeProvider
}

/** A tenant where somebody is about to sign in. */
interface AtTheDoor {
  tenant: Tenant
  /** Tries it, with nothing that an earlier try used up. */
  attempt(): Promise<Answer>
}

interface WayIn {
  /** As the app's server is told. */
  method: string
  isNewUser: boolean
  /** Whether the session that is there goes on. */
  keepsSession?: boolean
  /** The files of `src/identity` that begin the session. */
  places: readonly string[]
  /** Everything that has to be there before, without a hook. */
  prepare(world: World): Promise<AtTheDoor>
}

const SHOP_ORIGIN = { origin: 'http://localhost:3000' }
const ADDED = ['passkeys/registration.ts', 'users/service.ts']
const VOUCHED = 'identities/vouched.ts'

let people = 0
const newEmail = () => `person-${++people}@example.com`

const browserOf = async ({ mailing: { service } }: World, tenant: Tenant) => ({
  url: service.url,
  key: await publishableKey(tenant),
})

/** What came back to the page, as if a call had returned it. */
function asAnswer(back: URL): Answer {
  const code = back.searchParams.get('error')
  const body = code === null ? { data: {} } : { code, details: [{ code }] }
  return { status: code === null ? 200 : 403, body, text: back.href, headers: new Headers() } as Answer
}

async function newGuest(world: World, tenant: Tenant): Promise<Answer['body']> {
  const made = await tenant.post('/guests', {}, { key: (await browserOf(world, tenant)).key })
  expect(made.status, made.text).toBe(201)
  return made.body.data
}

/** Every way to begin a session. `places.test.ts` holds the list against the source. */
export const WAYS: Record<string, WayIn> = {
  'a passkey of a new user': {
    method: 'passkey',
    isNewUser: true,
    places: ADDED,
    async prepare(world) {
      const tenant = await world.mailing.service.newTenant()
      const browser = await browserOf(world, tenant)
      return { tenant, attempt: () => register(browser, { email: newEmail() }) }
    },
  },
  'another passkey': {
    method: 'passkey',
    isNewUser: false,
    places: ADDED,
    async prepare(world) {
      const tenant = await world.mailing.service.newTenant()
      const browser = await browserOf(world, tenant)
      const { accessToken } = await signUp(browser)
      const headers = { authorization: `Bearer ${accessToken}` }
      return { tenant, attempt: () => register(browser, {}, { headers }) }
    },
  },
  'a passkey': {
    method: 'passkey',
    isNewUser: false,
    places: ['passkeys/login.ts'],
    async prepare(world) {
      const tenant = await world.mailing.service.newTenant()
      const browser = await browserOf(world, tenant)
      const { authenticator } = await signUp(browser)
      return {
        tenant,
        async attempt() {
          const asked = await loginOptions(browser)
          return loginVerify(browser, asked.challengeId, authenticator.get(asked.publicKey))
        },
      }
    },
  },
  'a new passkey after a recovery by email': {
    method: 'passkey',
    isNewUser: false,
    places: ADDED,
    async prepare({ mailing }) {
      const app = await newRecoveryApp(mailing)
      const email = newEmail()
      await app.requested(email)
      await app.wait(email)
      return {
        tenant: app.tenant,
        async attempt() {
          const ready = await app.recover(email)
          expect(ready.status, ready.text).toBe(200)
          return app.complete(ready.body.data.registration)
        },
      }
    },
  },
  'the messenger': {
    method: 'messenger',
    isNewUser: true,
    places: ['messenger/service.ts', 'users/service.ts'],
    async prepare({ mailing: { service } }) {
      const shop = await newShop(service)
      let id = 1_000
      const attempt = () => shop.verify(widget(shop.token, { id: ++id, first_name: 'Ada', auth_date: shop.date() }))
      return { tenant: shop.tenant, attempt }
    },
  },
  'a code by email': {
    method: 'email',
    isNewUser: true,
    places: ['email-sign-in/service.ts', 'users/service.ts'],
    async prepare({ mailing }) {
      const app = await newEmailApp(mailing)
      return {
        tenant: app.tenant,
        async attempt() {
          const { challengeId, code } = await app.ask(newEmail())
          return app.verify(challengeId, code)
        },
      }
    },
  },
  'a token of a trusted issuer': {
    method: 'exchange',
    isNewUser: true,
    places: [VOUCHED],
    async prepare({ mailing: { service }, issuer }) {
      const tenant = await service.newTenant()
      await trust(tenant, issuer)
      return { tenant, attempt: async () => exchange(service, tenant, await issuer.token()) }
    },
  },
  'such a token of a known user': {
    method: 'exchange',
    isNewUser: false,
    places: [VOUCHED],
    async prepare({ mailing: { service }, issuer }) {
      const tenant = await service.newTenant()
      await trust(tenant, issuer)
      const sub = newSubject()
      const attempt = async () => exchange(service, tenant, await issuer.token({ claims: { sub } }))
      expect((await attempt()).status).toBe(200)
      return { tenant, attempt }
    },
  },
  'a provider, in a browser': {
    method: 'provider',
    isNewUser: true,
    places: [VOUCHED],
    async prepare({ mailing: { service }, provider }) {
      const app = await newProviderApp(service, provider.issuer)
      return {
        tenant: app.tenant,
        async attempt() {
          const [browser, pkce] = [newBrowser(), newPkce()]
          const sent = await app.begin(browser, pkce)
          answering(provider, () => provider.idToken({ claims: { nonce: sent.get('nonce') } }))
          return asAnswer(new URL((await app.comeBack(browser, sent)).location))
        },
      }
    },
  },
  'a provider, in a native app': {
    method: 'provider',
    isNewUser: true,
    places: [VOUCHED],
    async prepare({ mailing: { service }, provider }) {
      const app = await newProviderApp(service, provider.issuer)
      return {
        tenant: app.tenant,
        async attempt() {
          const nonce = randomBytes(32).toString('base64url')
          const hash = createHash('sha256').update(nonce).digest('hex')
          const body = { nonce, idToken: await provider.idToken({ claims: { nonce: hash } }) }
          return app.tenant.post(`/auth/providers/${app.id}/token`, body, { key: app.key })
        },
      }
    },
  },
  'an external wallet': {
    method: 'wallet',
    isNewUser: true,
    places: [VOUCHED],
    async prepare(world) {
      const tenant = await world.mailing.service.newTenant()
      const externalWallets = { types: ['ed25519'] }
      expect((await tenant.patch(`/apps/${tenant.appId}`, { externalWallets })).status).toBe(200)
      const { key } = await browserOf(world, tenant)
      return {
        tenant,
        async attempt() {
          const pair = generateKeyPairSync('ed25519')
          const publicKey = Buffer.from(pair.publicKey.export({ format: 'jwk' }).x as string, 'base64url').toString(
            'hex',
          )
          const options = { key, headers: SHOP_ORIGIN }
          const asked = await tenant.post('/auth/wallet/start', { type: 'ed25519', publicKey }, options)
          const { challengeId, message } = asked.body.data
          const signature = signBytes(null, Buffer.from(message), pair.privateKey).toString('base64')
          return tenant.post('/auth/wallet/verify', { challengeId, signature }, options)
        },
      }
    },
  },
  'a guest': {
    method: 'guest',
    isNewUser: true,
    places: ['guests/service.ts'],
    async prepare(world) {
      const tenant = await world.mailing.service.newTenant()
      const { key } = await browserOf(world, tenant)
      return { tenant, attempt: () => tenant.post('/guests', {}, { key }) }
    },
  },
  'a guest on the hosted page': {
    method: 'guest',
    isNewUser: true,
    places: ['guests/service.ts'],
    async prepare({ mailing: { service } }) {
      const tenant = await service.newTenant()
      const headers = { 'x-halfkey-app': tenant.appId }
      return { tenant, attempt: () => call(service.url, 'POST', '/signin/api/guests', { headers, body: {} }) }
    },
  },
  'a guest who becomes a user': {
    method: 'guest_conversion',
    isNewUser: false,
    keepsSession: true,
    places: ['guests/service.ts'],
    async prepare(world) {
      const tenant = await world.mailing.service.newTenant()
      const guest = await newGuest(world, tenant)
      const options = {
        key: (await browserOf(world, tenant)).key,
        headers: { authorization: `Bearer ${guest.accessToken}` },
      }
      return { tenant, attempt: () => tenant.post(`/guests/${guest.id}/convert`, { email: newEmail() }, options) }
    },
  },
  'a guest whom a server makes a user': {
    method: 'guest_conversion',
    isNewUser: false,
    places: ['guests/service.ts'],
    async prepare(world) {
      const tenant = await world.mailing.service.newTenant()
      const guest = await newGuest(world, tenant)
      return { tenant, attempt: () => tenant.post(`/guests/${guest.id}/convert`, { externalId: newEmail() }) }
    },
  },
}
