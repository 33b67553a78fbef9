import { ConfigError, inspectConfig, readClientVariables } from '../../config.ts'
import type { Deps } from '../../platform/deps.ts'
import type { ApiKey } from '../../tenancy/api-keys/schema.ts'
import { createApiKeyByOperator } from '../../tenancy/api-keys/service.ts'
import type { Tenant } from '../../tenancy/tenant/schema.ts'
import { isTenant } from '../../tenancy/tenant/service.ts'
import { type CliContext, CommandError, findTenant } from '../cli/command.ts'
import { connectToLook } from '../doctor/connect.ts'
import { type Api, CallError, openApi } from './api.ts'
import { marked } from './mark.ts'
import { dropKey } from './store.ts'

/** The development service that is filled. */
export interface SeededService {
  api: Api
  url: string
  tenantId: string
  /** Of the key that was made for this; null where one was given. */
  keyId: string | null
  /** Its database; null where it cannot be reached from here. Work that needs it is left out then. */
  deps: Deps | null
  /** Closes the database before the rest. */
  closeDatabase(): Promise<void>
  close(): Promise<void>
}

const URL_DEFAULT = 'http://127.0.0.1:8080'
const PRODUCTION =
  'Sample data is for development. This is production (HALFKEY_ENV=production), and nothing was changed there.'
const NO_WAY =
  'Set HALFKEY_KEY to a key that may do everything: the first start printed one (export HALFKEY_KEY=…). Without it, run this where the database of the service can be reached: in the same folder, with the same DATABASE_URL or HALFKEY_DATA_DIR.'
const KEY_REFUSED = {
  given: 'Is HALFKEY_KEY one of its keys, and HALFKEY_URL its address?',
  made: 'Is it on another database than DATABASE_URL or HALFKEY_DATA_DIR say here? Set HALFKEY_KEY.',
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

const refusalOf = (call: Promise<unknown>): Promise<unknown> => call.catch((error: unknown) => error)

/** Checks, before a key is made for it, that a service is there. It answers 401 to a call without a key. */
async function requireService(url: string): Promise<void> {
  const refusal = await refusalOf(openApi(url, {}).get('/tenant'))
  if (refusal instanceof CallError && refusal.status === 401) return
  throw refusal instanceof Error ? refusal : new CommandError(`What answers at ${url} is not a Halfkey.`)
}

/** Makes a key: access to the database is the right to do so. It does not expire: such a key could make no lasting ones. */
async function makeKey({ deps }: Opened, url: string, tenant: string | undefined) {
  const tenantId = await findTenant(deps, tenant)
  await requireService(url)
  const name = 'halfkey seed (revoked when it ends)'
  const input = { name, type: 'secret' as const, scopes: ['*' as const], metadata: marked() }
  return { tenantId, ...(await createApiKeyByOperator(deps, tenantId, input)) }
}

async function readTenant(api: Api, url: string, hint: string): Promise<Tenant> {
  return api.get<Tenant>('/tenant').catch((error: unknown): never => {
    if (error instanceof CallError && error.status === 401)
      throw new CommandError(`The service at ${url} refuses the key. ${hint}`)
    throw error
  })
}

/** Checks that a key may do everything: with less, a seed would end half-way. */
async function requireAllScopes(api: Api, key: string): Promise<void> {
  const keys = await api.all<ApiKey>('/api-keys')
  const own = keys.find(({ prefix, last4 }) => key.startsWith(prefix) && key.endsWith(last4))
  if (own === undefined || own.appId !== null || !own.scopes.includes('*'))
    throw new CommandError('HALFKEY_KEY must be a secret key with the scope * that is bound to no app.')
}

/** Checks that the service has a faucet, which it has not in production. */
async function requireDevelopment(api: Api): Promise<void> {
  const refusal = await refusalOf(api.post('/dev/faucet', {}))
  if (refusal instanceof CallError && refusal.status === 400) return
  if (refusal instanceof CallError && refusal.status === 404) throw new CommandError(PRODUCTION)
  throw refusal instanceof Error ? refusal : new CommandError('The service has a faucet without rules.')
}

/**
 * Finds the service at HALFKEY_URL, with HALFKEY_KEY or a key that is made in its database, and the database.
 * @throws CommandError where there is none, it is in production, or the key may not do everything
 */
export async function openService(context: CliContext, tenant: string | undefined): Promise<SeededService> {
  const { url: given, key: givenKey } = readClientVariables()
  const url = (given ?? URL_DEFAULT).replace(/\/+(v1\/?)?$/, '')
  let opened = await openDatabase(context)
  let made: Awaited<ReturnType<typeof makeKey>> | null = null
  const closeDatabase = async () => {
    await opened?.close()
    opened = null
  }
  const close = async () => {
    if (made !== null) {
      const revoked = openApi(url, { 'x-api-key': made.key }).delete(`/api-keys/${made.id}`)
      const failed = await revoked.then(
        () => false,
        () => true,
      )
      if (opened !== null) await dropKey(opened.deps.db, made.tenantId, made.id)
      else if (failed)
        context.err(`The key ${made.id} could not be revoked. Do it with: halfkey seed --remove, or in the dashboard.`)
    }
    await closeDatabase()
  }
  try {
    if (givenKey === null && opened === null) throw new CommandError(NO_WAY)
    if (givenKey === null) made = await makeKey(opened as Opened, url, tenant)
    const key = made?.key ?? (givenKey as string)
    const api = openApi(url, { 'x-api-key': key })
    const { id } = await readTenant(api, url, made === null ? KEY_REFUSED.given : KEY_REFUSED.made)
    if (tenant !== undefined && tenant !== id)
      throw new CommandError(`HALFKEY_KEY is of tenant ${id}. For ${tenant}, set another key, or none.`)
    await requireAllScopes(api, key)
    await requireDevelopment(api)
    if (opened !== null && !(await isTenant(opened.deps.db, id))) await closeDatabase()
    return { api, url, tenantId: id, keyId: made?.id ?? null, deps: opened?.deps ?? null, closeDatabase, close }
  } catch (error) {
    await close()
    throw error
  }
}
