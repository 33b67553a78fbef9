import type { Webhook } from '../../delivery/webhooks/schema.ts'
import type { ApiKeyWithKey, CreateApiKey } from '../../tenancy/api-keys/schema.ts'
import type { App } from '../../tenancy/apps/schema.ts'
import type { Progress } from '../cli/progress.ts'
import type { Api } from './api.ts'
import { marked, PATH, STATE } from './mark.ts'
import type { Dice } from './people.ts'
import type { SampleReceiver } from './receiver.ts'

/** A secret key of a sample app, and what happens to it after it was made. */
type KeySpec = Pick<CreateApiKey, 'name' | 'scopes' | 'allowedIps'> & {
  expiresInDays?: number
  used?: true
  revoked?: true
}

interface AppSpec {
  name: string
  /** The name of its publishable key. */
  webKey: string
  keys: readonly KeySpec[]
  /** `path` is on the sample receiver; `down`: its receiver answers 503 until `--listen`. */
  webhook: { path: string; events: string[]; description: string; down?: true }
  /** Nobody can prove it: these names are reserved for examples (RFC 2606). */
  domain: string
}

/** The two apps that hold all sample records. */
export const APPS: { shop: AppSpec; courier: AppSpec } = {
  shop: {
    name: 'Corner Shop (sample)',
    webKey: 'Shop web',
    keys: [
      {
        name: 'Shop backend',
        scopes: [
          'users:write',
          'users:act_as',
          'wallets:write',
          'delegated_sessions:write',
          'delegated_sessions:execute',
        ],
        used: true,
      },
      { name: 'Nightly report', scopes: ['analytics:read'], allowedIps: ['203.0.113.0/24'], expiresInDays: 30 },
      { name: 'Old backend', scopes: ['users:write'], revoked: true },
    ],
    webhook: {
      path: '/hook',
      events: ['*'],
      description: 'The receiver of `halfkey seed --listen`; paused while that does not run.',
    },
    domain: 'login.corner-shop.example.com',
  },
  courier: {
    name: 'Night Courier (sample)',
    webKey: 'Courier app',
    keys: [{ name: 'Dispatch', scopes: ['users:read', 'webhooks:read'] }],
    webhook: {
      path: '/warehouse',
      events: ['user.*', 'wallet.*', 'tx.*'],
      description: 'A receiver that was down. `halfkey seed --listen` brings it up: then retry its dead letters.',
      down: true,
    },
    domain: 'id.night-courier.example.net',
  },
}

/** The template that is declared. It stays after a removal, as everything on the ledger does. */
export const VOUCHER = 'Sample:Voucher'

const VOUCHER_TEMPLATE = {
  templateId: VOUCHER,
  description: 'Sample data of `halfkey seed`: a voucher that its owner redeems.',
  fields: { issuer: { type: 'party' }, owner: { type: 'party' }, value: { type: 'amount' }, note: { type: 'text' } },
  signatories: ['owner'],
  observers: ['issuer'],
  choices: { Redeem: { controllers: ['owner'] } },
}

/** What the steps of a seed share. */
export interface Seeding {
  /** With a tenant-wide `*` key. */
  api: Api
  dice: Dice
  progress: Progress
  receiver: SampleReceiver
}

/** An app of the sample data. */
export interface SampleApp {
  id: string
  /** The origin of its pages, to which its passkeys belong. */
  origin: string
  /** With its publishable key: what a browser would call with. */
  browser: Api
  webhook: Webhook
}

/** What there is before there are people. */
export type Sample = Record<keyof typeof APPS, SampleApp>

const DAY_MS = 86_400_000

/** Makes one record after the other, as a stage of the progress. */
export async function makeEach<Item, Made>(
  { progress }: Pick<Seeding, 'progress'>,
  stage: string,
  items: readonly Item[],
  make: (item: Item, index: number) => Promise<Made>,
): Promise<Made[]> {
  progress.begin(stage, items.length)
  const made: Made[] = []
  for (const [index, item] of items.entries()) {
    made.push(await make(item, index))
    progress.add(1)
  }
  return made
}

async function makeKey(api: Api, appId: string, { used, revoked, expiresInDays, ...spec }: KeySpec): Promise<void> {
  const expiresAt = expiresInDays && new Date(Date.now() + expiresInDays * DAY_MS).toISOString()
  const body = { ...spec, type: 'secret', appId, expiresAt, metadata: marked() }
  const { id, key } = await api.post<ApiKeyWithKey>('/api-keys', body)
  if (used) await api.as({ 'x-api-key': key }).get('/users?page_size=1')
  if (revoked) await api.delete(`/api-keys/${id}`)
}

/** The origin of an app's pages: apps without allowed origins take any on loopback. */
async function allowOrigin(api: Api, { id, passkey: { rpId } }: App): Promise<string> {
  if (rpId === 'localhost' || rpId.startsWith('127.')) return `http://${rpId}:3000`
  await api.patch(`/apps/${id}`, { allowedOrigins: [`https://${rpId}`] })
  return `https://${rpId}`
}

async function makeApp({ api, receiver }: Seeding, { name, webKey, keys, webhook, domain }: AppSpec) {
  const app = await api.post<App>('/apps', { name, metadata: marked({ [STATE]: 'unfinished' }) })
  const appId = app.id
  const origin = await allowOrigin(api, app)
  const publishable = { name: webKey, type: 'publishable', appId, metadata: marked() }
  const { key } = await api.post<ApiKeyWithKey>('/api-keys', publishable)
  for (const spec of keys) await makeKey(api, appId, spec)
  const { path, events, description, down = false } = webhook
  receiver.fails(path, down)
  const endpoint = { url: `${receiver.url}${path}`, appId, events, description, metadata: marked({ [PATH]: path }) }
  const { secret, ...made } = await api.post<Webhook & { secret: string }>('/webhooks', endpoint)
  receiver.knows(path, secret)
  await api.post('/custom-domains', { domain, appId })
  return { id: appId, origin, browser: api.as({ 'x-api-key': key }), webhook: made }
}

/** Two apps with their keys, webhooks, a domain each, and the tenant's template, which an earlier seed may have left. */
export async function makeSample(seeding: Seeding): Promise<Sample> {
  const { api } = seeding
  const specs = [APPS.shop, APPS.courier]
  const [shop, courier] = await makeEach(seeding, 'Apps, keys, webhooks', specs, (spec) => makeApp(seeding, spec))
  const known = await api.all<{ templateId: string }>('/templates')
  if (!known.some(({ templateId }) => templateId === VOUCHER)) await api.post('/templates', VOUCHER_TEMPLATE)
  return { shop: shop as SampleApp, courier: courier as SampleApp }
}
