import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Writable } from 'node:stream'
import pg from 'pg'
import { inject } from 'vitest'
import { loadConfig } from '../../src/config.ts'
import type { Deps } from '../../src/platform/deps.ts'
import { newId } from '../../src/platform/ids.ts'
import { openLog } from '../../src/platform/observability/log.ts'
import { type Running, type StartOptions, start } from '../../src/start.ts'
import { createTenant } from '../../src/tenancy/tenant/service.ts'
import { pooledUrl, settingsFor, withDirectUrl } from './environment.ts'
import { hurries, hurry } from './hurry.ts'
import { recode } from './recode.ts'

/** A JSON answer with what tests look at. */
export interface Answer {
  status: number
  headers: Headers
  // biome-ignore lint/suspicious/noExplicitAny: answers are looked into by path; the contract is what the tests state
  body: any
  text: string
}

export interface CallOptions {
  key?: string | null
  body?: unknown
  /** Sent as it is, instead of `body`. */
  raw?: string | Buffer
  headers?: Record<string, string>
}

/** Calls over HTTP as one tenant. */
export interface Tenant {
  tenantId: string
  appId: string
  /** A `*` key. */
  key: string
  call(method: string, path: string, options?: CallOptions): Promise<Answer>
  get(path: string, options?: CallOptions): Promise<Answer>
  post(path: string, body?: unknown, options?: CallOptions): Promise<Answer>
  patch(path: string, body?: unknown, options?: CallOptions): Promise<Answer>
  delete(path: string, options?: CallOptions): Promise<Answer>
  /** A user of the tenant's, the same at every call. */
  userId(): Promise<string>
  /** A key of this tenant with these scopes; bound to an app if one is given. */
  newKey(input: { scopes: string[]; appId?: string } | { publishable: true; appId?: string }): Promise<string>
}

export interface Service {
  /** `http://127.0.0.1:<port>` */
  url: string
  deps: Deps
  running: Running
  /** The first start's tenant. */
  admin: Tenant
  newTenant(): Promise<Tenant>
  /** Moves the service's clock. */
  advance(ms: number): void
  /** Rows out of the service's own database. */
  sql<Row extends object>(text: string, values?: unknown[]): Promise<Row[]>
  /** Gives records that a test has changed by SQL on purpose the MACs of what they say now; without a tenant, all. */
  recode(tenantId?: string): Promise<void>
  /** All log lines so far. */
  logs(): string
  /** The database, for a second process on it. */
  databaseUrl: string
  dataDir: string
  stop(): Promise<void>
}

/** Makes a database in the run's PostgreSQL: an empty one, or a clone of one that nobody uses, such as the template `migrated`. */
export async function newDatabase(template?: string): Promise<{ url: string; drop(): Promise<void> }> {
  const { host, port, user, password, database } = inject('postgres')
  const name = newId('job').toLowerCase()
  const run = async (statement: string) => {
    const admin = new pg.Client({ host, port, user, password, database })
    await admin.connect()
    try {
      await admin.query(statement)
    } finally {
      await admin.end()
    }
  }
  // Copying the files of a template takes a fraction of the time that writing them to the log does.
  await run(`create database ${name}${template === undefined ? '' : ` template ${template} strategy file_copy`}`)
  return {
    url: pooledUrl(`postgres://${user}:${encodeURIComponent(password)}@${encodeURIComponent(host)}:${port}/${name}`),
    async drop() {
      // Refused while an autovacuum worker, which is the superuser's, is in it.
      const dropped = () =>
        run(`drop database ${name} with (force)`).then(
          () => true,
          (error: { code?: string }) => {
            if (error.code !== '42501') throw error
            return false
          },
        )
      await eventually('the database is dropped', dropped)
    },
  }
}

export async function call(url: string, method: string, path: string, options: CallOptions = {}): Promise<Answer> {
  const headers: Record<string, string> = { ...(options.key ? { 'x-api-key': options.key } : {}), ...options.headers }
  let payload: string | Buffer | undefined
  if (options.raw !== undefined) payload = options.raw
  else if (options.body !== undefined) payload = JSON.stringify(options.body)
  if (payload !== undefined && headers['content-type'] === undefined) headers['content-type'] = 'application/json'
  const response = await fetch(url + path, {
    method,
    headers,
    redirect: 'manual',
    ...(payload === undefined ? {} : { body: payload as string }),
  })
  const text = await response.text()
  const json = response.headers.get('content-type')?.includes('json') ?? false
  return {
    status: response.status,
    headers: response.headers,
    text,
    body: json && text !== '' ? JSON.parse(text) : null,
  }
}

function tenantOf(
  service: { url: string; deps: Deps },
  made: { tenantId: string; appId: string; key: string },
): Tenant {
  let user: Promise<string> | undefined
  const tenant: Tenant = {
    ...made,
    userId() {
      user ??= tenant.post('/users', {}).then((answer) => answer.body.data.id as string)
      return user
    },
    call: (method, path, options = {}) => call(service.url, method, `/v1${path}`, { key: made.key, ...options }),
    get: (path, options) => tenant.call('GET', path, options),
    post: (path, body, options) => tenant.call('POST', path, body === undefined ? options : { body, ...options }),
    patch: (path, body, options) => tenant.call('PATCH', path, body === undefined ? options : { body, ...options }),
    delete: (path, options) => tenant.call('DELETE', path, options),
    async newKey(input) {
      const body =
        'publishable' in input
          ? { name: 'test', type: 'publishable', appId: input.appId ?? made.appId }
          : { name: 'test', type: 'secret', ...input }
      const answer = await tenant.post('/api-keys', body)
      if (answer.status !== 201) throw new Error(`no key: ${answer.text}`)
      return answer.body.data.key as string
    },
  }
  return tenant
}

/**
 * Starts the service in this process on a database of its own. Settings are environment variables. With `unhurried`, a test that
 * waits does not start its worker's next round.
 */
export async function startService(
  settings: Record<string, string> = {},
  { unhurried, ...options }: Pick<StartOptions, 'ledgers' | 'failpoint'> & { unhurried?: true } = {},
): Promise<Service> {
  const database = settings.DATABASE_URL === undefined ? await newDatabase('migrated') : null
  const dataDir = mkdtempSync(join(tmpdir(), 'halfkey-data-'))
  const lines: string[] = []
  const sink = new Writable({
    write(chunk, _, done) {
      lines.push(String(chunk))
      done()
    },
  })
  let offsetMs = 0
  const databaseUrl = settings.DATABASE_URL ?? (database?.url as string)
  const config = loadConfig(
    withDirectUrl({
      PORT: '0',
      ...(database === null ? { DATABASE_URL: databaseUrl } : settingsFor(databaseUrl)),
      HALFKEY_DATA_DIR: dataDir,
      HALFKEY_DRAIN: '0',
      // Tests set rows back on purpose, and those of the floor turn it on.
      HALFKEY_FLOOR: 'off',
      HALFKEY_RATE_LIMITS: 'off',
      HALFKEY_DATABASE_CONNECTIONS: '13',
      ...settings,
    }),
  )
  const running = await start(config, openLog(config.logLevel, sink as never), {
    ...options,
    now: () => new Date(Date.now() + offsetMs),
  })
  const url = `http://127.0.0.1:${running.address?.port}`
  const { deps } = running
  const reader = new pg.Pool({ connectionString: databaseUrl, max: 2 })
  // The database is dropped without waiting: a connection that is still closing may be ended by the server.
  reader.on('error', () => {})
  reader.on('connect', (client) => client.on('error', () => {}))
  const base = { url, deps }
  const leave = hurries(() => {
    if (unhurried) return
    deps.wake.tasks()
    void deps.requests.flush()
  })
  return {
    ...base,
    running,
    admin: tenantOf(base, running.first ?? { tenantId: '', appId: '', key: '' }),
    newTenant: async () => tenantOf(base, await createTenant(deps, { name: 'Test' })),
    advance(ms) {
      offsetMs += ms
    },
    sql: async <Row extends object>(text: string, values: unknown[] = []) =>
      (await reader.query<Row>(text, values)).rows,
    recode: (tenantId) => recode(deps, tenantId),
    logs: () => lines.join(''),
    databaseUrl,
    dataDir,
    async stop() {
      leave()
      await reader.end()
      await running.stop()
      await database?.drop()
      rmSync(dataDir, { recursive: true, force: true })
    },
  }
}

/** Moves the clock to noon in the middle of a month, so that neither a day nor a month ends while tests run. */
export function toMidMonth({ deps, advance }: Service): void {
  const now = deps.now()
  const noon = [0, 1].map((later) => Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + later, 15, 12))
  advance((noon.find((ms) => ms > now.getTime()) as number) - now.getTime())
}

/** Makes a limit's burst all that there is: a slow machine takes as many as a fast one. A setting is whole tokens a second. */
export function refillsNothing(
  { deps }: Service,
  limit: 'rateLimitSignIn' | 'rateLimitAccount' | 'rateLimitSecret',
): void {
  Object.assign(deps.config[limit], { perSecond: 1e-6 })
}

/** Looks again and again until it finds something, for `timeoutMs`, and once more. For what has no event to wait for. */
export async function eventually<T>(
  what: string,
  look: () => Promise<T | undefined | false | null>,
  timeoutMs = 60_000,
): Promise<T> {
  const deadline = performance.now() + timeoutMs
  for (;;) {
    const isLast = performance.now() > deadline
    const found = await look()
    if (found !== undefined && found !== false && found !== null) return found
    if (isLast) throw new Error(`${what}: not within ${timeoutMs} ms`)
    hurry()
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
}
