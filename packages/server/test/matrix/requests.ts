import { transfer } from '../../src/delegation/delegated.fixture.ts'
import { linkBody, startIssuer, trust } from '../../src/identity/foreign-tokens/issuer.fixture.ts'
import { startSession } from '../../src/identity/sessions/service.ts'
import { signInAs } from '../../src/identity/sessions/sessions.fixture.ts'
import { beginDkg } from '../../src/keys/key-generations/key-generations.fixture.ts'
import { newSharedWallet } from '../../src/keys/key-shares/key-shares.fixture.ts'
import type { Route } from '../../src/platform/http/route.ts'
import { inlined, type JsonSchema, jsonSchema } from '../../src/platform/http/schema.ts'
import { type Id, type IdPrefix, newId } from '../../src/platform/ids.ts'
import { newDelegateToken } from '../../src/platform/security/api-key.ts'
import { register } from '../harness/authenticator.ts'
import { type DnsServer, startDnsServer } from '../harness/dns-server.ts'
import { type Answer, type CallOptions, call, type Service, type Tenant } from '../harness/harness.ts'
import { type StripeFake, startStripeFake } from '../harness/stripe-fake.ts'
import { BODIES, ISSUER, PROVIDER } from './bodies.ts'

/** Valid bodies that name a record of the tenant's. */
const BODIES_OF: Record<string, (tenant: Tenant) => Promise<object>> = {
  'POST /dev/faucet': async (tenant) => ({ userId: await tenant.userId(), symbol: 'USDX', amount: '1' }),
  'POST /members': async () => ({ email: newMemberEmail(), role: 'viewer' }),
  'POST /event-types': async () => ({ name: newTypeName() }),
  'POST /subscribers': async () => ({ externalId: newId('job') }),
  'POST /events': async (tenant) => ({ type: await newType(tenant), data: {} }),
  'POST /events/batch': async (tenant) => ({ events: [{ type: await newType(tenant), data: {} }] }),
  // One is never changed or removed, so each has a name of its own.
  'POST /templates': async () => newTemplate(),
  'POST /custom-domains': async () => ({ domain: newDomainName() }),
  'POST /custom-domains/verify': async (tenant) => ({ domain: await newDomain(tenant) }),
  'DELETE /custom-domains': async (tenant) => ({ domain: await newDomain(tenant) }),
  // There is one for who has been to the checkout.
  'POST /billing/portal': async (tenant) => {
    const answer = await tenant.post('/billing/checkout', BODIES['POST /billing/checkout'])
    if (answer.status !== 201) throw new Error(answer.text)
    return BODIES['POST /billing/portal'] as object
  },
}

/** The least of a template, under a new name. */
const newTemplate = () => ({
  templateId: `Shop:${newId('job')}`,
  fields: { author: { type: 'party' } },
  signatories: ['author'],
})

/** Of nobody who is a member yet. */
const newMemberEmail = () => `${newId('job')}@example.com`

const newTypeName = () => `acme.${newId('job')}`

/** Defines a type of events. @returns its name */
async function newType(tenant: Tenant): Promise<string> {
  const name = newTypeName()
  await idOf(tenant, '/event-types', { name })
  return name
}

let dns: Promise<DnsServer> | undefined

/** The name server of the domains that requests here are about, for the service under test. It goes with the test's process. */
export function dnsOfRequests(): Promise<DnsServer> {
  dns ??= startDnsServer()
  return dns
}

let stripe: Promise<StripeFake> | undefined

/** The payment processor of the service under test, in the same way. */
export function stripeOfRequests(): Promise<StripeFake> {
  stripe ??= startStripeFake()
  return stripe
}

/** Links an account of a login of the test's, which the tenant's first app trusts, to the tenant's user. @returns the identity's id */
async function newIdentity(tenant: Tenant, service: Service): Promise<string> {
  const login = await startIssuer(service)
  await trust(tenant, login)
  const headers = { 'x-user-id': await tenant.userId() }
  const answer = await tenant.post('/auth/identities', linkBody(await login.token()), { headers })
  await login.close()
  if (answer.status !== 201) throw new Error(answer.text)
  return answer.body.data.id
}

/** Nobody else's: a verified one can be one tenant's alone. */
export const newDomainName = (): string => `${newId('dom').replace('_', '-')}.example.com`

/** Registers a domain whose record says what it should. @returns its name */
async function newDomain(tenant: Tenant): Promise<string> {
  const answer = await tenant.post('/custom-domains', { domain: newDomainName() })
  if (answer.status !== 201) throw new Error(answer.text)
  const { domain, verification } = answer.body.data
  const server = await dnsOfRequests()
  server.set(verification.name, [{ type: 'TXT', text: verification.value }])
  return domain
}

/** The ids in the paths of one record, by the parameter's name. */
export type PathIds = Record<string, string>

/** Begins a session of the tenant's user, as a sign-in does. @returns the tokens, and the user's id */
export async function signIn(service: Pick<Service, 'deps'>, tenant: Tenant) {
  const userId = (await tenant.userId()) as Id<'usr'>
  const tokens = await startSession(service.deps, {
    tenantId: tenant.tenantId as Id<'ten'>,
    appId: tenant.appId as Id<'app'>,
    userId,
    amr: ['hwk'],
    method: 'passkey',
    caller: { keyId: 'key_test' } as never,
    origin: { requestId: 'test', address: '127.0.0.1', userAgent: null, webOrigin: null, actor: null },
  })
  return { ...tokens, userId }
}

const ANY_NOTE = { allow: [{ templateId: 'Note:Note' }] }

/** Resources that are the tenant's and no app's: a key that is bound to an app reads them too. */
export const OF_NO_APP: readonly string[] = ['templates']

/** A record of the tenant's for each resource that has ids in its paths, by `resourceOf`. */
export const RECORDS: Record<string, (tenant: Tenant, service: Service) => Promise<PathIds>> = {
  async apps(tenant) {
    const id = await idOf(tenant, '/apps', { name: 'Shop' })
    const issuerId = await idOf(tenant, `/apps/${id}/issuers`, ISSUER)
    const providerId = await idOf(tenant, `/apps/${id}/providers`, PROVIDER)
    return { id, issuerId, providerId, kind: 'sign_in', language: 'en' }
  },
  'auth/sessions': async (tenant, service) => ({ id: (await signIn(service, tenant)).sessionId }),
  async 'auth/passkeys'(tenant, service) {
    const headers = { 'x-user-id': await tenant.userId() }
    const answer = await register({ url: service.url, key: tenant.key }, {}, { headers })
    const list = await tenant.get('/auth/passkeys', { headers })
    if (answer.status !== 200) throw new Error(answer.text)
    return { id: list.body.data[0].id }
  },
  'auth/identities': async (tenant, service) => ({ id: await newIdentity(tenant, service) }),
  async 'auth/providers'(tenant) {
    const path = `/apps/${tenant.appId}/providers`
    const [known] = (await tenant.get(path)).body.data
    return { id: known?.id ?? (await idOf(tenant, path, PROVIDER)) }
  },
  guests: async (tenant) => ({ id: await idOf(tenant, '/guests', {}) }),
  users: async (tenant) => ({ id: await idOf(tenant, '/users', { name: 'Ada' }) }),
  'users/bulk': async (tenant) => ({ id: await idOf(tenant, '/users/bulk', BODIES['POST /users/bulk']) }),
  async wallets(tenant, service) {
    const userId = await idOf(tenant, '/users', {})
    const answer = await tenant.post('/users/me/wallet', {}, { headers: { 'x-user-id': userId } })
    if (answer.status !== 201) throw new Error(answer.text)
    const { id } = answer.body.data
    const owner = await signInAs(service, tenant, { userId })
    const entry = await owner.post(`/wallets/${id}/recipients`, {
      recipient: `shop::1220${'5a'.repeat(32)}`,
      label: 'Shop',
    })
    if (entry.status !== 201) throw new Error(entry.text)
    // There are no offers on a ledger that is not followed.
    return { id, recipientId: entry.body.data.id, offerId: newId('ofr') }
  },
  async 'wallets/onboarding'(tenant) {
    await letServersTouchKeys(tenant)
    const userId = await tenant.userId()
    await tenant.post('/users/me/wallet', {}, { headers: { 'x-user-id': userId } })
    return { id: (await tenant.get(`/users/${userId}/wallet`)).body.data.id }
  },
  async 'mpc/shares'(tenant, service) {
    await letServersTouchKeys(tenant)
    const { walletId } = await newSharedWallet(service, tenant, { person: await someone(tenant, service) })
    return { walletId }
  },
  async 'mpc/dkg'(tenant, service) {
    await letServersTouchKeys(tenant)
    return { id: (await beginDkg(await someone(tenant, service))).dkgId }
  },
  'delegated-sessions': async (tenant) => ({ id: (await newDelegatedSession(tenant)).id }),
  async transactions(tenant) {
    const { id, author } = await newDelegatedSession(tenant)
    const commands = [{ create: { templateId: 'Note:Note', arguments: { author, text: 'Hello' } } }]
    const answer = await tenant.post(`/delegated-sessions/${id}/execute`, { commands })
    if (answer.status !== 200) throw new Error(answer.text)
    return { id: answer.body.data.transactionId }
  },
  async approvals(tenant) {
    const userId = await idOf(tenant, '/users', {})
    const asUser = { headers: { 'x-user-id': userId } }
    await tenant.post('/users/me/wallet', {}, asUser)
    const { issuer, contractId } = (await tenant.post('/dev/faucet', { userId, symbol: 'USDX', amount: '1' })).body.data
    const spend = [{ asset: { issuer, symbol: 'USDX' }, amount: '1' }]
    const policy = { allow: [{ templateId: 'Token:Holding' }], spend, requireApproval: [{ newRecipient: true }] }
    const made = await tenant.post('/delegated-sessions', { policy, expiresInSeconds: 86_400 }, asUser)
    const commands = [transfer(contractId)]
    const answer = await tenant.post(`/delegated-sessions/${made.body.data.id}/execute`, { commands })
    if (answer.status !== 200) throw new Error(answer.text)
    return { id: answer.body.data.approval.id }
  },
  async templates(tenant) {
    const answer = await tenant.post('/templates', newTemplate())
    if (answer.status !== 201) throw new Error(answer.text)
    return { id: answer.body.data.templateId }
  },
  'api-keys': async (tenant) => ({ id: await idOf(tenant, '/api-keys', BODIES['POST /api-keys']) }),
  async webhooks(tenant) {
    const id = await idOf(tenant, '/webhooks', BODIES['POST /webhooks'])
    return { id, deliveryId: await idOf(tenant, `/webhooks/${id}/test`, {}) }
  },
  'custom-domains': async (tenant) => ({ id: await idOf(tenant, '/custom-domains', { domain: newDomainName() }) }),
  async events(tenant) {
    await idOf(tenant, '/users', {})
    return { id: (await tenant.get('/events?type=user.created&last=1&wait=30')).body.data.events[0].id }
  },
  'event-types': async (tenant) => ({ id: await idOf(tenant, '/event-types', { name: newTypeName() }) }),
  members: async (tenant) => ({ id: await idOf(tenant, '/members', { email: newMemberEmail(), role: 'viewer' }) }),
  subscribers: async (tenant) => ({ id: await idOf(tenant, '/subscribers', { externalId: newId('job') }) }),
  async jobs(tenant) {
    const id = await idOf(tenant, '/webhooks', BODIES['POST /webhooks'])
    return { id: await idOf(tenant, `/webhooks/${id}/recover`, { since: new Date(0).toISOString() }) }
  },
}

const letServersTouchKeys = (tenant: Tenant) => tenant.patch(`/apps/${tenant.appId}`, { mpc: { allowServer: true } })

/** The tenant's user, signed in; a new one if that one has a wallet. */
async function someone(tenant: Tenant, service: Service) {
  const person = await signInAs(service, tenant, { userId: await tenant.userId() })
  return (await person.get('/users/me/wallet')).status === 404 ? person : signInAs(service, tenant)
}

/** A session, which a server uses, of a new user who may write notes. */
async function newDelegatedSession(tenant: Tenant): Promise<{ id: string; author: string; token: string }> {
  const headers = { 'x-user-id': await idOf(tenant, '/users', {}) }
  const wallet = await tenant.post('/users/me/wallet', {}, { headers })
  // Longer than the clocks of the matrices are moved.
  const body = { policy: ANY_NOTE, expiresInSeconds: 86_400 }
  const answer = await tenant.post('/delegated-sessions', body, { headers })
  if (answer.status !== 201) throw new Error(answer.text)
  const { id, token } = answer.body.data
  return { id, author: wallet.body.data.partyId, token }
}

async function idOf(tenant: Tenant, path: string, body: object | undefined): Promise<string> {
  const answer = await tenant.post(path, body)
  if (answer.status >= 300) throw new Error(`POST ${path}: ${answer.text}`)
  return answer.body.data.id
}

/** `GET /users/:id`, as tables name a route. */
export const nameOf = (route: Pick<Route, 'method' | 'path'>): string => `${route.method} ${route.path}`

/**
 * The resource that a route belongs to: the path's first part; of those below `/auth` and `/mpc`, the first two. A
 * delegated session's own transactions are transactions, and onboardings are of the user's own wallet.
 */
export function resourceOf(route: Pick<Route, 'path'>): string {
  if (route.path.startsWith('/delegated-sessions/me/transactions')) return 'transactions'
  if (route.path === '/wallets/:id/onboarding') return 'wallets/onboarding'
  const [, first, second] = route.path.split('/') as [string, string, string?]
  return first === 'auth' || first === 'mpc' || second === 'bulk' ? `${first}/${second}` : first
}

/** Whether a route is called for a user. */
export const isForUser = (route: Route): boolean => route.callers.kind === 'both' && route.callers.user === 'required'

/** The names of the ids in a route's path. */
export const paramsOf = (route: Pick<Route, 'path'>): string[] =>
  [...route.path.matchAll(/:(\w+)/g)].map(([, name]) => name as string)

/** Of what a record in a path has below it. */
const INNER: Record<string, IdPrefix> = {
  deliveryId: 'dlv',
  issuerId: 'iss',
  offerId: 'ofr',
  providerId: 'prv',
  recipientId: 'rcp',
}

/** Ids of the right form that name nothing. */
export function unknownIds(route: Pick<Route, 'path'>): PathIds {
  const prefixes: Record<string, IdPrefix> = {
    apps: 'app',
    'auth/sessions': 'ses',
    'auth/passkeys': 'pky',
    'auth/identities': 'idn',
    'auth/providers': 'prv',
    guests: 'gst',
    users: 'usr',
    'users/bulk': 'job',
    wallets: 'wal',
    'wallets/onboarding': 'wal',
    'mpc/shares': 'wal',
    'mpc/dkg': 'dkg',
    'delegated-sessions': 'dse',
    transactions: 'tx',
    approvals: 'apr',
    'api-keys': 'key',
    members: 'mem',
    webhooks: 'wh',
    'custom-domains': 'dom',
    jobs: 'job',
    events: 'evt',
    'event-types': 'ety',
    subscribers: 'sub',
  }
  return Object.fromEntries(
    paramsOf(route).map((name) => [name, newId(INNER[name] ?? prefixes[resourceOf(route)] ?? 'usr')]),
  )
}

function sample(schema: JsonSchema): unknown {
  if ('example' in schema) return schema.example
  if ('default' in schema) return schema.default
  if ('const' in schema) return schema.const
  if (Array.isArray(schema.enum)) return schema.enum[0]
  const [branch] = (schema.anyOf ?? schema.oneOf ?? []) as JsonSchema[]
  if (branch !== undefined) return sample(branch)
  if (schema.format === 'date-time') return '2026-01-01T00:00:00.000Z'
  switch ([schema.type].flat()[0]) {
    case 'string':
      return 'x'.repeat(Number(schema.minLength ?? 1))
    case 'integer':
    case 'number':
      return Number(schema.minimum ?? 1)
    case 'boolean':
      return false
    case 'array':
      return Array.from({ length: Number(schema.minItems ?? 0) }, () => sample(schema.items as JsonSchema))
    case 'object':
      return Object.fromEntries(
        ((schema.required ?? []) as string[]).map((name) => [
          name,
          sample((schema.properties as Record<string, JsonSchema>)[name] as JsonSchema),
        ]),
      )
    default:
      throw new Error(`no sample for ${JSON.stringify(schema)}: add the route to BODIES`)
  }
}

const inputOf = (shape: Route['body']) => (shape === undefined ? undefined : inlined(jsonSchema(shape, 'input')))

/** The fields that a route's body may have. */
export const fieldsOf = (route: Route): string[] => Object.keys((inputOf(route.body)?.properties ?? {}) as object)

/** A body that passes a route's schema: the least of it. Undefined where the route takes none. */
export function validBody(route: Route): object | undefined {
  const schema = inputOf(route.body)
  return BODIES[nameOf(route)] ?? (schema === undefined ? undefined : (sample(schema) as object))
}

/** The same, for a tenant whose records it may have to name. */
export async function bodyFor(route: Route, tenant: Tenant): Promise<object | undefined> {
  return BODIES_OF[nameOf(route)]?.(tenant) ?? validBody(route)
}

/** A path that matches a route, with these ids and the query parameters that the route demands. `ids` are put in as they are. */
export function pathOf(route: Route, ids: PathIds = unknownIds(route)): string {
  const path = route.path.replace(/:(\w+)/g, (_, name: string) => ids[name] as string)
  const schema = inputOf(route.query)
  const query = new URLSearchParams(schema === undefined ? {} : (sample(schema) as Record<string, string>)).toString()
  return query === '' ? path : `${path}?${query}`
}

/** `path` with one more query parameter. */
export const withQuery = (path: string, query: string): string => `${path}${path.includes('?') ? '&' : '?'}${query}`

/** Whether a route's body is looked at. */
export const takesBody = (route: Route): boolean => route.method !== 'GET'

export interface AskOptions extends CallOptions {
  ids?: PathIds
  /** Instead of the route's own. */
  path?: string
}

const delegates = new WeakMap<Tenant, Promise<{ token: string }>>()

/** The token of a delegated session of the tenant's, the same at every call. */
async function delegateOf(tenant: Tenant): Promise<string> {
  const known = delegates.get(tenant) ?? newDelegatedSession(tenant)
  delegates.set(tenant, known)
  return (await known).token
}

/** The header by which a server calls a route for the tenant's user or delegated session; none where it needs none. */
export async function actAs(route: Route, tenant: Tenant): Promise<Record<string, string>> {
  const { user } = route.callers as { user?: string }
  if (user === 'delegate_only') return { authorization: `Bearer ${await delegateOf(tenant)}` }
  return isForUser(route) ? { 'x-user-id': await tenant.userId() } : {}
}

/** The bearer that a route takes beside a publishable key: somebody's session, or a delegated session's token of the right form. */
export async function bearerFor(route: Route, service: Pick<Service, 'deps'>, tenant: Tenant): Promise<string> {
  const { user } = route.callers as { user?: string }
  const token = user?.startsWith('delegate') ? newDelegateToken().token : (await signIn(service, tenant)).accessToken
  return `Bearer ${token}`
}

/** Calls a route with a request that passes its schema, except for what `options` say. */
export function askRoute(url: string, route: Route, options: AskOptions): Promise<Answer> {
  const path = options.path ?? pathOf(route, options.ids)
  const body = takesBody(route) ? validBody(route) : undefined
  return call(url, route.method, `/v1${path}`, { ...(body === undefined ? {} : { body }), ...options })
}
