import type { Webhook } from '../../delivery/webhooks/schema.ts'
import type { ApiKeyWithKey } from '../../tenancy/api-keys/schema.ts'
import type { App } from '../../tenancy/apps/schema.ts'
import type { Progress } from '../cli/progress.ts'
import type { Api } from './api.ts'
import { marked, PATH, STATE } from './mark.ts'
import type { Dice } from './people.ts'
import type { SampleReceiver } from './receiver.ts'

/** Where the two webhooks of the sample data lead, on the sample receiver. */
export const PATHS = { shop: '/hook', courier: '/warehouse' } as const

/** Domains that the sample apps ask for. Nobody can prove them: they are set aside for examples (RFC 2606). */
export const DOMAINS = { shop: 'login.corner-shop.example.com', courier: 'id.night-courier.example.net' } as const

/** The template that is declared. It stays, as whatever is on the ledger. */
export const VOUCHER = 'Sample:Voucher'

/** What the steps of a seed share. */
export interface Seeding {
  /** By a tenant-wide `*` key. */
  api: Api
  dice: Dice
  progress: Progress
  receiver: SampleReceiver
}

/** An app of the sample data. */
export interface SampleApp {
  id: string
  /** The host that its passkeys belong to. */
  rpId: string
  /** By its publishable key: what a browser would call with. */
  browser: Api
}

/** What there is before there are people. */
export interface Sample {
  shop: SampleApp
  courier: SampleApp
  webhooks: { shop: Webhook; courier: Webhook }
}

const DAY_MS = 86_400_000

async function makeApp({ api }: Seeding, name: string, key: string): Promise<SampleApp> {
  const app = await api.post<App>('/apps', { name, metadata: marked({ [STATE]: 'unfinished' }) })
  const made = await api.post<ApiKeyWithKey>('/api-keys', {
    name: key,
    type: 'publishable',
    appId: app.id,
    metadata: marked(),
  })
  return { id: app.id, rpId: app.passkey.rpId, browser: api.as({ 'x-api-key': made.key }) }
}

async function makeKeys({ api }: Seeding, shop: SampleApp, courier: SampleApp): Promise<void> {
  const make = (appId: string, name: string, more: object) =>
    api.post<ApiKeyWithKey>('/api-keys', { name, type: 'secret', appId, metadata: marked(), ...more })
  const backend = await make(shop.id, 'Shop backend', {
    scopes: ['users:write', 'users:act_as', 'wallets:write', 'delegated_sessions:write', 'delegated_sessions:execute'],
  })
  // So that one has been used.
  await api.as({ 'x-api-key': backend.key }).get('/users?page_size=1')
  const expiresAt = new Date(Date.now() + 30 * DAY_MS).toISOString()
  await make(shop.id, 'Nightly report', { scopes: ['analytics:read'], allowedIps: ['203.0.113.0/24'], expiresAt })
  await make(courier.id, 'Dispatch', { scopes: ['users:read', 'webhooks:read'] })
  const old = await make(shop.id, 'Old backend', { scopes: ['users:write'] })
  await api.delete(`/api-keys/${old.id}`)
}

interface NewWebhook {
  appId: string
  path: string
  events: string[]
  description: string
}

async function makeWebhook({ api, receiver }: Seeding, of: NewWebhook): Promise<Webhook> {
  const { appId, path, events, description } = of
  const metadata = marked({ [PATH]: path })
  const url = `${receiver.url}${path}`
  const { secret, ...webhook } = await api.post<Webhook & { secret: string }>('/webhooks', {
    url,
    appId,
    events,
    description,
    metadata,
  })
  receiver.knows(path, secret)
  return webhook
}

/** Two apps with their keys, webhooks, a domain each, and the tenant's template. */
export async function makeSample(seeding: Seeding): Promise<Sample> {
  const { api, progress, receiver } = seeding
  progress.begin('Apps, keys, webhooks', 5)
  const shop = await makeApp(seeding, 'Corner Shop (sample)', 'Shop web')
  const courier = await makeApp(seeding, 'Night Courier (sample)', 'Courier app')
  progress.add(1)
  await makeKeys(seeding, shop, courier)
  progress.add(1)
  receiver.fails(PATHS.courier, true)
  const webhooks = {
    shop: await makeWebhook(seeding, {
      appId: shop.id,
      path: PATHS.shop,
      events: ['*'],
      description: 'The receiver of `halfkey seed --listen`; paused while that does not run.',
    }),
    courier: await makeWebhook(seeding, {
      appId: courier.id,
      path: PATHS.courier,
      events: ['user.*', 'wallet.*', 'tx.*'],
      description: 'A receiver that was down. `halfkey seed --listen` brings it up: then retry its dead letters.',
    }),
  }
  progress.add(1)
  for (const [app, domain] of [
    [shop, DOMAINS.shop],
    [courier, DOMAINS.courier],
  ] as const)
    await api.post('/custom-domains', { domain, appId: app.id })
  progress.add(1)
  await declareVoucher(api)
  progress.add(1)
  return { shop, courier, webhooks }
}

/** Of an earlier seed it may be there already. */
async function declareVoucher(api: Api): Promise<void> {
  const known = await api.all<{ templateId: string }>('/templates')
  if (known.some(({ templateId }) => templateId === VOUCHER)) return
  await api.post('/templates', {
    templateId: VOUCHER,
    description: 'Sample data of `halfkey seed`: a voucher that its owner redeems.',
    fields: { issuer: { type: 'party' }, owner: { type: 'party' }, value: { type: 'amount' }, note: { type: 'text' } },
    signatories: ['owner'],
    observers: ['issuer'],
    choices: { Redeem: { controllers: ['owner'] } },
  })
}
