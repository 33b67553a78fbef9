import { type Answer, type CallOptions, call, type Service, type Tenant } from '../../../test/harness/harness.ts'
import type { Id } from '../../platform/ids.ts'
import type { Tokens } from './schema.ts'
import { startSession } from './service.ts'

/** A user with a session, calling as a browser does: with a publishable key and an access token. */
export interface Person extends Tokens {
  userId: string
  appId: string
  /** The publishable key. */
  key: string
  bearer: { authorization: string }
  call(method: string, path: string, options?: CallOptions): Promise<Answer>
  get(path: string, options?: CallOptions): Promise<Answer>
  post(path: string, body?: unknown, options?: CallOptions): Promise<Answer>
  delete(path: string, options?: CallOptions): Promise<Answer>
}

/** Who signs in; a new user of the tenant's first app where nothing is said. */
export interface Who {
  userId?: string
  appId?: string
  email?: string
  name?: string
  /** Where the service listens, if not where the tenant was made. */
  url?: string
  /** Signs in by email instead, which is a weak way if the user has a passkey. */
  byEmail?: boolean
}

const keys = new WeakMap<Tenant, Map<string, Promise<string>>>()

/** One publishable key for each of a tenant's apps. */
export function publishableKey(tenant: Tenant, appId = tenant.appId): Promise<string> {
  const known = keys.get(tenant) ?? new Map<string, Promise<string>>()
  keys.set(tenant, known)
  const key = known.get(appId) ?? tenant.newKey({ publishable: true, appId })
  known.set(appId, key)
  return key
}

/** Calls with these tokens. */
export function personOf(url: string, key: string, who: { userId: string; appId: string }, tokens: Tokens): Person {
  const bearer = { authorization: `Bearer ${tokens.accessToken}` }
  const person: Person = {
    ...tokens,
    ...who,
    key,
    bearer,
    call: (method, path, options = {}) =>
      call(url, method, `/v1${path}`, { key, ...options, headers: { ...bearer, ...options.headers } }),
    get: (path, options) => person.call('GET', path, options),
    post: (path, body, options) => person.call('POST', path, body === undefined ? options : { body, ...options }),
    delete: (path, options) => person.call('DELETE', path, options),
  }
  return person
}

/** A new app of the tenant's. */
export async function newApp(tenant: Tenant, settings: object = {}): Promise<string> {
  const answer = await tenant.post('/apps', { name: 'Other', ...settings })
  if (answer.status !== 201) throw new Error(`no app: ${answer.text}`)
  return answer.body.data.id
}

/** Signs somebody in as every way of signing in does, once it knows who it is. */
export async function signInAs(
  service: Pick<Service, 'deps' | 'url'>,
  tenant: Tenant,
  { userId, appId = tenant.appId, url = service.url, byEmail = false, ...user }: Who = {},
): Promise<Person> {
  let id = userId
  if (id === undefined) {
    const made = await tenant.post('/users', { appId, ...user })
    if (made.status !== 201) throw new Error(`no user: ${made.text}`)
    id = made.body.data.id as string
  }
  const tokens = await startSession(service.deps, {
    tenantId: tenant.tenantId as Id<'ten'>,
    appId: appId as Id<'app'>,
    userId: id as Id<'usr'>,
    ...(byEmail
      ? { amr: ['email'], method: 'email', vouched: { mfaAt: null } }
      : { amr: ['hwk', 'user'], method: 'passkey' }),
    caller: { keyId: 'key_test' } as never,
    origin: { requestId: 'test', address: '203.0.113.7', userAgent: 'test', webOrigin: null, actor: null },
  })
  return personOf(url, await publishableKey(tenant, appId), { userId: id, appId }, tokens)
}

/** The data of a tenant's events of a kind, in order. */
export async function eventsOf(service: Service, tenant: Tenant, type: string): Promise<Record<string, unknown>[]> {
  const rows = await service.sql<{ body: string }>(
    'select body from events where tenant_id = $1 and type = $2 order by id',
    [tenant.tenantId, type],
  )
  return rows.map((row) => JSON.parse(row.body).data)
}

/** Every row of every table, but for those of `without`, as text: what somebody who steals a dump has. */
export async function dump(service: Service, without: readonly string[] = []): Promise<string> {
  const tables = await service.sql<{ name: string }>(
    `select quote_ident(tablename) as name from pg_tables where schemaname = 'public' and tablename <> all ($1)`,
    [without],
  )
  const parts = tables.map(async ({ name }) => {
    const rows = await service.sql<{ row: string }>(`select t::text as row from ${name} t`)
    return rows.map(({ row }) => row).join('\n')
  })
  return (await Promise.all(parts)).join('\n')
}
