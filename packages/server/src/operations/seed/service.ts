import { ConfigError, inspectConfig, readClientVariables } from '../../config.ts'
import type { Deps } from '../../platform/deps.ts'
import type { Id } from '../../platform/ids.ts'
import type { ApiKey } from '../../tenancy/api-keys/schema.ts'
import { createApiKeyByOperator } from '../../tenancy/api-keys/service.ts'
import type { Tenant } from '../../tenancy/tenant/schema.ts'
import { isTenant } from '../../tenancy/tenant/service.ts'
import { type CliContext, CommandError } from '../cli/command.ts'
import { findTenant } from '../cli/keys.ts'
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
  /** Its database; null where this machine has no way to it. What only that can do is left out then. */
  deps: Deps | null
  /** Closes the database before the rest. */
  closeDatabase(): Promise<void>
  close(): Promise<void>
}

const URL_DEFAULT = 'http://127.0.0.1:8080'
const PRODUCTION =
  'Sample data is for development. This is production (HALFKEY_ENV=production), and nothing was changed there.'

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

const NO_WAY =
  'Set HALFKEY_KEY to a key that may do everything: the first start printed one (export HALFKEY_KEY=…). Without it, run this where the database of the service can be reached: in the same folder, with the same DATABASE_URL or HALFKEY_DATA_DIR.'

/** Checks that a key may do everything: with less, a seed would end half-way. */
async function requireAll(api: Api, key: string): Promise<void> {
  const keys = await api.all<ApiKey>('/api-keys')
  const own = keys.find(({ prefix, last4 }) => key.startsWith(prefix) && key.endsWith(last4))
  if (own === undefined || own.appId !== null || !own.scopes.includes('*'))
    throw new CommandError('HALFKEY_KEY must be a secret key with the scope * that is bound to no app.')
}

/** In production there is no faucet: without one the service is not for this. */
async function requireDevelopment(api: Api): Promise<void> {
  const refusal = await api.post('/dev/faucet', {}).catch((error: unknown) => error)
  if (refusal instanceof CallError && refusal.status === 400) return
  if (refusal instanceof CallError && refusal.status === 404) throw new CommandError(PRODUCTION)
  throw refusal instanceof Error ? refusal : new CommandError('The service has a faucet without rules.')
}

async function tenantOf(api: Api, url: string, hint: string): Promise<Tenant> {
  return api.get<Tenant>('/tenant').catch((error: unknown): never => {
    if (error instanceof CallError && error.status === 401)
      throw new CommandError(`The service at ${url} refuses the key. ${hint}`)
    throw error
  })
}

async function byGivenKey(opened: Opened | null, url: string, key: string, tenant: string | undefined) {
  const api = openApi(url, { 'x-api-key': key })
  const { id } = await tenantOf(api, url, 'Is HALFKEY_KEY one of its keys, and HALFKEY_URL its address?')
  if (tenant !== undefined && tenant !== id)
    throw new CommandError(`HALFKEY_KEY is of tenant ${id}. For ${tenant}, set another key, or none.`)
  await requireAll(api, key)
  await requireDevelopment(api)
  const ofService = opened !== null && (await isTenant(opened.deps.db, id))
  return { api, tenantId: id, keyId: null, ofService }
}

/** Before a key is made for it: that there is a service at all. Without a key it answers 401. */
async function requireService(url: string): Promise<void> {
  const refusal = await openApi(url, {})
    .get('/tenant')
    .catch((error: unknown) => error)
  if (refusal instanceof CallError && refusal.status === 401) return
  throw refusal instanceof Error ? refusal : new CommandError(`What answers at ${url} is not a Halfkey.`)
}

/**
 * By a key that is made for this, and revoked afterwards: whoever holds the database may. One with an end could make no
 * lasting ones.
 */
async function byOperator({ deps }: Opened, url: string, tenant: string | undefined) {
  const tenantId = await findTenant(deps, tenant)
  await requireService(url)
  const name = 'halfkey seed (revoked when it ends)'
  const made = await createApiKeyByOperator(deps, tenantId, {
    name,
    type: 'secret',
    scopes: ['*'],
    metadata: marked(),
  })
  const api = openApi(url, { 'x-api-key': made.key })
  try {
    await tenantOf(
      api,
      url,
      'Is it on another database than DATABASE_URL or HALFKEY_DATA_DIR say here? Set HALFKEY_KEY.',
    )
    await requireDevelopment(api)
  } catch (error) {
    await api.delete(`/api-keys/${made.id}`).catch(() => {})
    await dropKey(deps.db, tenantId, made.id)
    throw error
  }
  return { api, tenantId: tenantId as string, keyId: made.id, ofService: true }
}

/**
 * Finds the service that HALFKEY_URL names, by HALFKEY_KEY or by right of holding its database, and the database.
 * @throws CommandError where there is none, it is in production, or the key may not do everything
 */
export async function openService(context: CliContext, tenant: string | undefined): Promise<SeededService> {
  const { url: given, key } = readClientVariables()
  const url = (given ?? URL_DEFAULT).replace(/\/+(v1\/?)?$/, '')
  let opened = await openDatabase(context)
  const closeDatabase = async () => {
    await opened?.close()
    opened = null
  }
  try {
    if (key === null && opened === null) throw new CommandError(NO_WAY)
    const found =
      key === null ? await byOperator(opened as Opened, url, tenant) : await byGivenKey(opened, url, key, tenant)
    const { api, tenantId, keyId, ofService } = found
    if (!ofService) await closeDatabase()
    const close = async () => {
      if (keyId !== null) {
        const revoked = await api.delete(`/api-keys/${keyId}`).catch(() => undefined)
        if (opened !== null) await dropKey((opened as Opened).deps.db, tenantId as Id<'ten'>, keyId)
        else if (revoked === undefined)
          context.err(`The key ${keyId} could not be revoked. Do it with: halfkey seed --remove, or in the dashboard.`)
      }
      await closeDatabase()
    }
    return { api, url, tenantId, keyId, deps: (opened as Opened | null)?.deps ?? null, closeDatabase, close }
  } catch (error) {
    await closeDatabase()
    throw error
  }
}
