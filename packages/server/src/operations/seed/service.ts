import {
  type ClientOptions,
  createClient,
  type HalfkeyClient,
  HalfkeyError,
  type Tenant,
} from '../../../../sdk/src/index.ts'
import { CLIENT_VARIABLES, ConfigError, inspectConfig, readClientVariables } from '../../config.ts'
import type { Deps } from '../../platform/deps.ts'
import { createApiKeyByOperator } from '../../tenancy/api-keys/service.ts'
import { isTenant } from '../../tenancy/tenant/service.ts'
import { type CliContext, CommandError, findTenant } from '../cli/command.ts'
import { addressOf, explainNoService, serviceUrl } from '../cli/remote.ts'
import { connectToLook } from '../doctor/connect.ts'
import { marked } from './mark.ts'
import { dropKey } from './store.ts'

/** Who calls. Without `apiKey` it is by the key of the seed itself; `headers` are those that a browser adds. */
type Caller = Partial<Pick<ClientOptions, 'apiKey' | 'userId' | 'accessToken'>> & {
  headers?: Record<string, string>
}

/** Makes a client for a caller. */
export type Connect = (caller: Caller) => HalfkeyClient

/** The development service that is filled. */
export interface SeededService {
  api: HalfkeyClient
  connect: Connect
  url: string
  tenantId: string
  /** Of the key that was made for this; null where one was given. */
  keyId: string | null
  /** Its database; null where it cannot be reached from here. Work that needs it is left out then. */
  deps: Deps | null
  /** Closes the database before the rest. */
  closeDatabase(): Promise<void>
}

/** A seed may reach the limit of sign-ups, and a removal calls several times at once. */
const RETRIES_MAX = 8
const PAGE_SIZE = 100
const PRODUCTION =
  'Sample data is for development only. This is production (HALFKEY_ENV=production), so nothing was changed.'
const NO_WAY =
  "Set HALFKEY_KEY to a key with the scope *: the first start printed one (export HALFKEY_KEY=…). Or run this where the service's database can be reached: in the same folder, with the same DATABASE_URL or HALFKEY_DATA_DIR."
const KEY_REFUSED = {
  given: 'Check that HALFKEY_KEY is one of its keys and HALFKEY_URL is its address.',
  made: 'It may use another database than DATABASE_URL or HALFKEY_DATA_DIR name here. Set HALFKEY_KEY.',
}

interface Opened {
  deps: Deps
  close(): Promise<void>
}

/** The database, if the settings lead to one that runs: an embedded one is joined, never started or made. */
async function openDatabase(context: CliContext): Promise<Opened | null> {
  const { config, problems } = inspectConfig()
  if (config.env === 'production') throw new CommandError(PRODUCTION)
  if (problems.length > 0) throw new ConfigError(problems)
  const { db } = await connectToLook(config)
  if (db === null) return null
  await db.close()
  return context.openDeps()
}

function connector(url: string, apiKey: string): Connect {
  return ({ headers = {}, ...caller }) =>
    createClient({
      baseUrl: `${url}/v1`,
      apiKey,
      maxRetries: RETRIES_MAX,
      // The sample's keys are discarded: whoever relays them learns nothing of worth.
      trustOnFirstUse: true,
      fetch: (target, init) => fetch(target, { ...init, headers: { ...(init.headers as object), ...headers } }),
      ...caller,
    })
}

/** All records of a list, e.g. `all(api.users.list)`. */
export async function all<T>(list: (page: { pageSize: number }) => AsyncIterable<T>): Promise<T[]> {
  const found: T[] = []
  for await (const record of list({ pageSize: PAGE_SIZE })) found.push(record)
  return found
}

/** Why a call was refused, which it should be. */
async function refusalOf(call: Promise<unknown>, accepted: string): Promise<HalfkeyError> {
  const answer = await call.catch((error: unknown) => error)
  if (answer instanceof HalfkeyError) return answer
  throw answer instanceof Error ? answer : new CommandError(accepted)
}

/** Checks, before a key is made for it, that a service is there. It answers 401 to a key that is none. */
async function requireService(url: string): Promise<void> {
  const stranger = connector(url, 'none')({})
  const refusal = await refusalOf(stranger.tenant.get({ maxRetries: 0 }), `The server at ${url} is not Halfkey.`)
  if (refusal.status !== 401 || refusal.code === 'invalid_response') throw refusal
}

/** Makes a key: access to the database is the right to do so. It does not expire: such a key could make no lasting ones. */
async function makeKey({ deps }: Opened, url: string, tenant: string | undefined) {
  const tenantId = await findTenant(deps, tenant)
  await requireService(url)
  const name = 'halfkey seed (revoked when it ends)'
  const input = { name, type: 'secret' as const, scopes: ['*' as const], metadata: marked() }
  return { tenantId, ...(await createApiKeyByOperator(deps, tenantId, input)) }
}

function readTenant(api: HalfkeyClient, url: string, hint: string): Promise<Tenant> {
  return api.tenant.get({ maxRetries: 0 }).catch((error: unknown): never => {
    if (error instanceof HalfkeyError && error.status === 401 && error.code !== 'invalid_response')
      throw new CommandError(`The service at ${url} refuses the key. ${hint}`)
    throw error
  })
}

/** Checks that a key may do everything: with less, a seed would end half-way. */
async function requireAllScopes(api: HalfkeyClient, key: string): Promise<void> {
  const keys = await all(api.apiKeys.list)
  const own = keys.find(({ prefix, last4 }) => key.startsWith(prefix) && key.endsWith(last4))
  if (own === undefined || own.appId !== null || !own.scopes.includes('*'))
    throw new CommandError('HALFKEY_KEY must be a secret key with the scope * that is not bound to an app.')
}

/** Checks that the service has a faucet, which it has not in production. */
async function requireDevelopment(api: HalfkeyClient): Promise<void> {
  const nothing = api.dev.faucet({ userId: 'none', symbol: 'NONE', amount: 'none' })
  const refusal = await refusalOf(nothing, 'The service has a faucet without rules.')
  if (refusal.status === 404) throw new CommandError(PRODUCTION)
  if (refusal.status !== 400) throw refusal
}

function readUrl(given: string): string {
  const url = addressOf(given)
  if (url !== null) return url
  throw new CommandError(
    `${CLIENT_VARIABLES.url} must be the service's address, such as http://127.0.0.1:8080, not "${given}".`,
  )
}

/**
 * Works with the service at HALFKEY_URL, by HALFKEY_KEY or a key that is made in its database, and with the database.
 * @throws CommandError where there is none, it is in production, or the key may not do everything; and for a call that failed
 */
export async function withService<T>(
  context: CliContext,
  tenant: string | undefined,
  work: (service: SeededService) => Promise<T>,
): Promise<T> {
  const { key: givenKey } = readClientVariables()
  const url = readUrl(serviceUrl())
  let opened = await openDatabase(context)
  let made: Awaited<ReturnType<typeof makeKey>> | null = null
  const closeDatabase = async () => {
    await opened?.close()
    opened = null
  }
  const dropMadeKey = async ({ tenantId, id, key }: NonNullable<typeof made>) => {
    const revoked = connector(url, key)({}).apiKeys.revoke(id, { maxRetries: 0 })
    const failed = await revoked.then(
      () => false,
      () => true,
    )
    if (opened !== null) await dropKey(opened.deps.db, tenantId, id)
    else if (failed)
      context.err(`The key ${id} could not be revoked. Do it with: halfkey seed --remove, or in the dashboard.`)
  }
  try {
    if (givenKey === null && opened === null) throw new CommandError(NO_WAY)
    if (givenKey === null) made = await makeKey(opened as Opened, url, tenant)
    const key = made?.key ?? (givenKey as string)
    const connect = connector(url, key)
    const api = connect({})
    const { id } = await readTenant(api, url, made === null ? KEY_REFUSED.given : KEY_REFUSED.made)
    if (tenant !== undefined && tenant !== id)
      throw new CommandError(`HALFKEY_KEY belongs to tenant ${id}. For ${tenant}, set another key, or unset it.`)
    await requireAllScopes(api, key)
    await requireDevelopment(api)
    if (opened !== null && !(await isTenant(opened.deps.db, id))) await closeDatabase()
    const deps = opened?.deps ?? null
    return await work({ api, connect, url, tenantId: id, keyId: made?.id ?? null, deps, closeDatabase })
  } catch (error) {
    if (!(error instanceof HalfkeyError)) throw error
    throw new CommandError(explainNoService(error, url) ?? `${error.status} ${error.code}: ${error.message}`)
  } finally {
    if (made !== null) await dropMadeKey(made)
    await closeDatabase()
  }
}
