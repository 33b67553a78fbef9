import type { App, Body, HalfkeyClient, Webhook } from '../../../../sdk/src/index.ts'
import type { Progress } from '../cli/progress.ts'
import { marked, PATH, STATE } from './mark.ts'
import type { Dice } from './people.ts'
import type { SampleReceiver } from './receiver.ts'
import { all, type Connect } from './service.ts'

/** An API key of a sample app, and what happens to it after it was made. */
type KeySpec = Pick<Body<'/api-keys', 'post'>, 'name' | 'type' | 'scopes' | 'allowedIps'> & {
  expiresInDays?: number
  used?: true
  revoked?: true
}

interface AppSpec {
  name: string
  /** The first one is that of its pages. */
  keys: readonly [KeySpec, ...KeySpec[]]
  /** `path` is on the sample receiver; `down`: its receiver answers 503 until `--listen`. */
  webhook: Pick<Body<'/webhooks', 'post'>, 'events' | 'description'> & { path: string; down?: true }
  /** Nobody can prove it: these names are reserved for examples (RFC 2606). */
  domain: string
}

/** The two apps that hold all sample records. */
export const APPS: { shop: AppSpec; courier: AppSpec } = {
  shop: {
    name: 'Corner Shop (sample)',
    keys: [
      { name: 'Shop web', type: 'publishable' },
      {
        name: 'Shop backend',
        type: 'secret',
        scopes: [
          'users:write',
          'users:act_as',
          'wallets:write',
          'delegated_sessions:write',
          'delegated_sessions:execute',
        ],
        used: true,
      },
      {
        name: 'Nightly report',
        type: 'secret',
        scopes: ['analytics:read'],
        allowedIps: ['203.0.113.0/24'],
        expiresInDays: 30,
      },
      { name: 'Old backend', type: 'secret', scopes: ['users:write'], revoked: true },
    ],
    webhook: {
      path: '/hook',
      events: ['*'],
      description: 'The receiver of `halfkey seed --listen`. Paused while it does not run.',
    },
    domain: 'login.corner-shop.example.com',
  },
  courier: {
    name: 'Night Courier (sample)',
    keys: [
      { name: 'Courier app', type: 'publishable' },
      { name: 'Dispatch', type: 'secret', scopes: ['users:read', 'webhooks:read'] },
    ],
    webhook: {
      path: '/warehouse',
      events: ['user.*', 'wallet.*', 'tx.*'],
      description: 'A receiver that was down. Start it with `halfkey seed --listen`, then retry its dead letters.',
      down: true,
    },
    domain: 'id.night-courier.example.net',
  },
}

/** The template that is declared. It stays after a removal, as everything on the ledger does. */
export const VOUCHER = 'Sample:Voucher'

const VOUCHER_TEMPLATE: Body<'/templates', 'post'> = {
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
  api: HalfkeyClient
  connect: Connect
  dice: Dice
  progress: Progress
  receiver: SampleReceiver
}

/** An app of the sample data. */
export interface SampleApp {
  id: string
  createdAt: string
  /** The origin of its pages, to which its passkeys belong. */
  origin: string
  /** Its publishable key. */
  webKey: string
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

async function makeKey({ api, connect }: Seeding, appId: string, spec: KeySpec): Promise<string> {
  const { used, revoked, expiresInDays, ...about } = spec
  const expiresAt = expiresInDays && new Date(Date.now() + expiresInDays * DAY_MS).toISOString()
  const { id, key } = await api.apiKeys.create({ ...about, appId, ...(expiresAt && { expiresAt }), metadata: marked() })
  if (used) await connect({ apiKey: key }).users.list({ pageSize: 1 })
  if (revoked) await api.apiKeys.revoke(id)
  return key
}

/** The origin of an app's pages: apps without allowed origins take any on loopback. */
async function allowOrigin(api: HalfkeyClient, { id, passkey: { rpId } }: App): Promise<string> {
  if (rpId === 'localhost' || rpId.startsWith('127.')) return `http://${rpId}:3000`
  await api.apps.update(id, { allowedOrigins: [`https://${rpId}`] })
  return `https://${rpId}`
}

async function makeApp(seeding: Seeding, { name, keys, webhook, domain }: AppSpec): Promise<SampleApp> {
  const { api, receiver } = seeding
  const app = await api.apps.create({ name, metadata: marked({ [STATE]: 'unfinished' }) })
  const appId = app.id
  const origin = await allowOrigin(api, app)
  const [forPages, ...others] = keys
  const webKey = await makeKey(seeding, appId, forPages)
  for (const spec of others) await makeKey(seeding, appId, spec)
  const { path, down = false, ...endpoint } = webhook
  receiver.fails(path, down)
  const url = `${receiver.url}${path}`
  const { secret, ...made } = await api.webhooks.create({ ...endpoint, url, appId, metadata: marked({ [PATH]: path }) })
  receiver.knows(path, secret)
  await api.customDomains.create({ domain, appId })
  return { id: appId, createdAt: app.createdAt, origin, webKey, webhook: made }
}

/** Two apps with their keys, webhooks, a domain each, and the tenant's template, which an earlier seed may have left. */
export async function makeSample(seeding: Seeding): Promise<Sample> {
  const { api } = seeding
  const specs = [APPS.shop, APPS.courier]
  const [shop, courier] = await makeEach(seeding, 'Apps, keys, webhooks', specs, (spec) => makeApp(seeding, spec))
  const known = await all(api.templates.list)
  if (!known.some(({ templateId }) => templateId === VOUCHER)) await api.templates.create(VOUCHER_TEMPLATE)
  return { shop: shop as SampleApp, courier: courier as SampleApp }
}
