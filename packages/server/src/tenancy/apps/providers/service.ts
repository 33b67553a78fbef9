import { isDeepStrictEqual } from 'node:util'
import { publicUrl } from '../../../platform/config.ts'
import type { Db } from '../../../platform/db/db.ts'
import type { Deps } from '../../../platform/deps.ts'
import { EgressRefused } from '../../../platform/egress/egress.ts'
import { type AuditOnlyEntry, recordAuditOnly } from '../../../platform/events/audit-only-entries.ts'
import { publish } from '../../../platform/events/events.ts'
import { existing, failures, invalid, pathId } from '../../../platform/http/errors.ts'
import type { Call, Caller, Page } from '../../../platform/http/route.ts'
import { type Id, isId, newId } from '../../../platform/ids.ts'
import { open, seal } from '../../../platform/security/crypto.ts'
import { webUrlProblem } from '../../../platform/security/web-origin.ts'
import { ISSUER_ERRORS } from '../issuers/service.ts'
import { getApp, lockOwnApp } from '../service.ts'
import { checkAppleKey, issuerFor, PRESET_FACTS } from './presets.ts'
import type { CreateProvider, ListProviders, Provider, ProviderParams, UpdateProvider } from './schema.ts'
import * as store from './store.ts'

export type { ProviderRow } from './store.ts'

/** How many providers an app can have: more buttons than anybody reads. */
const PROVIDERS_MAX = 10

export const PROVIDER_ERRORS = {
  provider_limit: [409, `An app can have at most ${PROVIDERS_MAX} providers. Remove one first.`],
} as const

const fail = failures({ ...PROVIDER_ERRORS, issuer_url_blocked: ISSUER_ERRORS.issuer_url_blocked })

/** Where a provider sends browsers back to. Each has its own, so that no other one can send them there (RFC 9700, section 4.4). */
export const callbackUrl = (deps: Pick<Deps, 'config'>, id: Id<'prv'>): string =>
  `${publicUrl(deps.config)}/signin/providers/${id}/callback`

const shown =
  (deps: Pick<Deps, 'config'>) =>
  (row: store.ProviderRow): Provider =>
    store.toProvider(row, callbackUrl(deps, row.id))

/** The same for an issuer, which errors call `field`. @throws validation_failed, issuer_url_blocked */
export async function checkIssuer(deps: Deps, issuer: string, field = 'issuer'): Promise<void> {
  const problem = webUrlProblem(new URL(issuer), deps.config.env === 'development')
  if (problem !== null) throw invalid(field, problem)
  try {
    await deps.egress.assertAllowed(issuer)
  } catch (error) {
    if (!(error instanceof EgressRefused)) throw error
    throw fail('issuer_url_blocked').about(field, error.message)
  }
}

/**
 * Refuses a provider from which Halfkey may not fetch. Needs the network, so it runs before the transaction.
 * @throws validation_failed, issuer_url_blocked
 */
export const checkProvider = (deps: Deps, input: CreateProvider): Promise<void> =>
  checkIssuer(deps, issuerFor(input.preset, input.issuer))

/** The context of a client secret: copied to another provider, it does not open. */
export const secretContext = (tenantId: Id<'ten'>, id: Id<'prv'>) => ['provider secret', tenantId, id] as const

/** The client secret of a provider, or Apple's private key. Null if there is none. */
export async function openSecret(
  deps: Pick<Deps, 'keys'>,
  row: Pick<store.ProviderRow, 'tenant_id' | 'id' | 'client_secret_sealed'>,
): Promise<string | null> {
  if (row.client_secret_sealed === null) return null
  return (await open(deps.keys, row.client_secret_sealed, secretContext(row.tenant_id, row.id))).toString()
}

/** @throws validation_failed for an incomplete or contradictory provider */
function checkComplete(row: store.ProviderRow): void {
  if (row.client_secret_sealed === null && PRESET_FACTS[row.preset].needsSecret)
    throw invalid('clientSecret', `Required for ${row.preset}.`, 'required')
  for (const [field, value] of [
    ['teamId', row.team_id],
    ['keyId', row.key_id],
  ] as const) {
    if (row.preset === 'apple' && value === null) throw invalid(field, 'Required for apple.', 'required')
    if (row.preset !== 'apple' && value !== null) throw invalid(field, 'Only apple has one.', 'not_allowed')
  }
  if (row.preset === 'github' && row.native_client_ids.length > 0)
    throw invalid('nativeClientIds', 'GitHub issues no ID tokens.', 'not_allowed')
}

/** The row with the given fields. @throws validation_failed */
function changed(before: store.ProviderRow, input: UpdateProvider, secret: Buffer | null | undefined) {
  const row: store.ProviderRow = {
    ...before,
    name: input.name?.trim().normalize('NFC') ?? before.name,
    client_id: input.clientId ?? before.client_id,
    client_secret_sealed: secret === undefined ? before.client_secret_sealed : secret,
    team_id: input.teamId === undefined ? before.team_id : input.teamId,
    key_id: input.keyId === undefined ? before.key_id : input.keyId,
    native_client_ids: input.nativeClientIds ?? before.native_client_ids,
    jit: input.jit ?? before.jit,
  }
  checkComplete(row)
  return row
}

/** Seals a given secret. Call it before any transaction, because the key provider may be on the network. @throws validation_failed */
async function sealSecret(
  deps: Deps,
  tenantId: Id<'ten'>,
  id: Id<'prv'>,
  preset: Provider['preset'],
  { clientSecret }: UpdateProvider,
): Promise<Buffer | null | undefined> {
  if (clientSecret == null) return clientSecret
  if (preset === 'apple') checkAppleKey(clientSecret)
  return seal(deps.keys, clientSecret, secretContext(tenantId, id))
}

/** Records a change of who can sign users in: as an event of the app, and in the audit log under the provider's id. */
async function tell(
  tx: Db,
  deps: Deps,
  call: Call,
  row: store.ProviderRow,
  action: AuditOnlyEntry['action'],
): Promise<void> {
  const of = { tenantId: row.tenant_id, appId: row.app_id, cause: call }
  await recordAuditOnly(tx, deps, { ...of, action, target: row.id })
  const { name } = await getApp({ ...deps, db: tx }, call.caller, row.app_id)
  await publish(tx, deps, { ...of, type: 'app.updated', data: { appId: row.app_id, name, changed: ['providers'] } })
}

const appOf = async (deps: Deps, caller: Caller, id: string): Promise<store.OfApp> => ({
  tenantId: caller.tenantId,
  appId: (await getApp(deps, caller, id)).id as Id<'app'>,
})

/** A page of an app's providers, newest first. @throws not_found */
export async function listProviders(
  deps: Deps,
  caller: Caller,
  id: string,
  query: ListProviders,
): Promise<Page<Provider>> {
  return store.listProviders(deps.db, await appOf(deps, caller, id), query, shown(deps))
}

async function findRow(deps: Deps, caller: Caller, { id, providerId }: ProviderParams): Promise<store.ProviderRow> {
  const app = await appOf(deps, caller, id)
  return existing(await store.findProvider(deps.db, app, pathId('prv', providerId)))
}

/** @throws not_found */
export async function getProvider(deps: Deps, caller: Caller, params: ProviderParams): Promise<Provider> {
  return shown(deps)(await findRow(deps, caller, params))
}

/** Adds a provider to an app. @throws not_found, validation_failed, already_exists (names `issuer`), provider_limit */
export async function createProvider(deps: Deps, call: Call, appId: string, input: CreateProvider): Promise<Provider> {
  const now = deps.now()
  const id = newId('prv')
  const { preset } = input
  const secret = await sealSecret(deps, call.caller.tenantId, id, preset, input)
  return deps.db.tx(async (tx) => {
    const app = await lockOwnApp(tx, call.caller, appId)
    const blank: store.ProviderRow = {
      tenant_id: app.tenant_id,
      id,
      app_id: app.id,
      preset,
      name: PRESET_FACTS[preset].name,
      issuer: issuerFor(preset, input.issuer),
      client_id: input.clientId,
      client_secret_sealed: null,
      team_id: null,
      key_id: null,
      native_client_ids: [],
      jit: 'create',
      created_at: now,
      updated_at: now,
      version: 0,
      mac: null,
    }
    const row = changed(blank, input, secret)
    const others = await store.providersOf(tx, { tenantId: app.tenant_id, appId: app.id })
    if (others.some(({ issuer }) => issuer === row.issuer))
      throw fail('already_exists').about('issuer', 'This app already has a provider with this issuer.')
    if (others.length >= PROVIDERS_MAX) throw fail('provider_limit')
    await store.insertProvider(tx, row)
    await tell(tx, deps, call, row, 'provider.created')
    return shown(deps)(row)
  })
}

async function lockProvider(
  tx: Db,
  { caller }: Call,
  { id, providerId }: ProviderParams,
  find = store.findProvider,
): Promise<store.ProviderRow> {
  const { tenant_id: tenantId, id: appId } = await lockOwnApp(tx, caller, id)
  return existing(await find(tx, { tenantId, appId }, pathId('prv', providerId)))
}

/** Changes the given fields. Emits no event if nothing changed. @throws not_found, validation_failed */
export async function updateProvider(
  deps: Deps,
  call: Call,
  params: ProviderParams,
  input: UpdateProvider,
): Promise<Provider> {
  const { tenant_id: tenantId, id, preset } = await findRow(deps, call.caller, params)
  const secret = await sealSecret(deps, tenantId, id, preset, input)
  return deps.db.tx(async (tx) => {
    const before = await lockProvider(tx, call, params)
    const row = changed(before, input, secret)
    // Each sealing produces different bytes, so a given secret always counts as a change.
    if (isDeepStrictEqual(row, before)) return shown(deps)(before)
    row.updated_at = deps.now()
    await store.updateProvider(tx, row)
    await tell(tx, deps, call, row, 'provider.updated')
    return shown(deps)(row)
  })
}

/** Removes a provider. Identities of it stay, and sign nobody in. @throws not_found */
export async function removeProvider(deps: Deps, call: Call, params: ProviderParams): Promise<Provider> {
  return deps.db.tx(async (tx) => {
    const row = await lockProvider(tx, call, params, store.findProviderToRemove)
    await store.deleteProvider(tx, row.tenant_id, row.id)
    await tell(tx, deps, call, row, 'provider.deleted')
    return shown(deps)(row)
  })
}

/** A provider by which users of an app sign in at present. Undefined for others, and for one that is refused. */
export async function activeProvider(deps: Deps, app: store.OfApp, id: string): Promise<store.ProviderRow | undefined> {
  const row = isId('prv', id) ? await store.findProvider(deps.db, app, id) : undefined
  return row?.jit === 'refuse' ? undefined : row
}

/** The providers by which users of an app sign in at present, in the order in which they were made. */
export async function activeProviders(deps: Deps, app: store.OfApp): Promise<store.ProviderRow[]> {
  return (await store.providersOf(deps.db, app)).filter(({ jit }) => jit !== 'refuse')
}

/** The tenant and app of a provider, for a browser that comes back from it. Undefined if it does not exist. */
export async function placeOfProvider(deps: Deps, id: string): Promise<store.OfApp | undefined> {
  return isId('prv', id) ? store.findPlace(deps.db, id) : undefined
}
