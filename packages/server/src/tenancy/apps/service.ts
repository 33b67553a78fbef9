import { isDeepStrictEqual } from 'node:util'
import { publicUrl } from '../../platform/config.ts'
import { type Db, violatedConstraint } from '../../platform/db/db.ts'
import type { AppScope } from '../../platform/db/page.ts'
import type { Deps } from '../../platform/deps.ts'
import { type EventInput, publish } from '../../platform/events/events.ts'
import type { OfApp } from '../../platform/hooks.ts'
import { existing, failures, notFoundField, pathId } from '../../platform/http/errors.ts'
import type { Call, Caller, Page } from '../../platform/http/route.ts'
import { type Id, isId, newId } from '../../platform/ids.ts'
import { allows } from '../../platform/security/api-key.ts'
import { raiseAuthEpoch } from '../../platform/security/authenticator.ts'
import { listDomainOrigins } from '../../platform/security/domain-origins.ts'
import { wholeBranding } from './branding/branding.ts'
import { forgetBudgets } from './budgets.ts'
import { knownApps } from './known-apps.ts'
import type { App, CreateApp, DeleteApp, ListApps, UpdateApp } from './schema.ts'
import { appliedTo, changedFields, checkSettings, newAppRow, publicAddress, sealSecrets } from './settings.ts'
import { forgetSignInHooks } from './sign-in-hook.ts'
import * as store from './store.ts'

export { shownName } from './branding/branding.ts'
export { paletteOf } from './branding/colours.ts'
export type { Branding } from './branding/schema.ts'
export { type BudgetLimit, budgetKey, budgetLimit, budgetProblems, budgetsOfApp } from './budgets.ts'
export { METADATA_CLAIM_PREFIX, RESERVED_CLAIMS } from './openid.ts'
export { type SignInHook, signInHookOf } from './sign-in-hook.ts'
export { listAllApps } from './store.ts'
export { redirectUrlProblem } from './urls.ts'

export const APP_ERRORS = {
  default_app: [409, "The tenant's default app can't be deleted. Make another app the default one first."],
  app_not_empty: [409, 'The app has users. Delete them first, or delete them together with the app with ?force=true.'],
} as const

const fail = failures(APP_ERRORS)

function event(
  row: store.AppRow,
  type: 'app.created' | 'app.updated' | 'app.deleted',
  cause: EventInput['cause'],
  more: object = {},
): EventInput {
  return { tenantId: row.tenant_id, appId: row.id, type, data: { appId: row.id, name: row.name, ...more }, cause }
}

/** Drops cached API keys and apps: in this process after the commit, in others within a second. */
async function spread(tx: Db, deps: Deps): Promise<void> {
  await raiseAuthEpoch(tx)
  tx.afterCommit(() => {
    deps.auth.forget()
    knownApps(deps).forget()
  })
}

/** An app as a caller may see it: members who may not change it do not see what often is or contains a secret. */
function shownTo({ member, scopes }: Caller, app: App): App {
  if (member === undefined || allows(scopes, 'apps:write')) return app
  return {
    ...app,
    email: { ...app.email, testCodes: [], webhookUrl: null },
    signInHook: { ...app.signInHook, url: null },
  }
}

/** A page of the apps that the key can see, newest first. */
export async function listApps(deps: Deps, caller: Caller, query: ListApps): Promise<Page<App>> {
  const page = await store.listApps(deps.db, caller, query, publicAddress(deps))
  return { ...page, items: page.items.map((app) => shownTo(caller, app)) }
}

/** @throws not_found, also for apps of another tenant, and for other apps than the key's */
export async function getApp(deps: Deps, caller: Caller, id: string): Promise<App> {
  return shownTo(
    caller,
    store.toApp(existing(await store.findApp(deps.db, caller, pathId('app', id))), publicAddress(deps)),
  )
}

/** The app, locked against other changes until the transaction ends. @throws not_found */
export async function lockOwnApp(tx: Db, caller: Caller, id: string): Promise<store.AppRow> {
  return existing(await store.lockApp(tx, caller, pathId('app', id)))
}

/** Creates an app. Absent settings have their defaults. @throws validation_failed */
export async function createApp(deps: Deps, { caller, origin }: Call, input: CreateApp): Promise<App> {
  checkSettings(deps, input)
  const id = newId('app')
  const secrets = await sealSecrets(deps, caller.tenantId, id, input)
  const row = appliedTo(newAppRow(caller.tenantId, id, input.name, deps.now()), input, secrets)
  return deps.db.tx(async (tx) => {
    await store.insertApp(tx, row)
    if (row.passkey.rpId !== null) await store.claimRelyingParties(tx, caller.tenantId)
    await publish(tx, deps, event(row, 'app.created', { caller, origin }))
    return store.toApp(row, publicAddress(deps))
  })
}

/** Writes a new tenant's first app, in the transaction that creates the tenant. */
export async function createFirstApp(
  tx: Db,
  deps: Deps,
  app: { tenantId: Id<'ten'>; id: Id<'app'>; name: string; actor: string },
): Promise<void> {
  const row = newAppRow(app.tenantId, app.id, app.name, deps.now())
  await store.insertApp(tx, row)
  await publish(tx, deps, event(row, 'app.created', { actor: app.actor }))
}

/** Changes the given fields. Emits no event if nothing changed. @throws not_found, validation_failed */
export async function updateApp(deps: Deps, { caller, origin }: Call, id: string, input: UpdateApp): Promise<App> {
  const appId = pathId('app', id)
  checkSettings(deps, input)
  const secrets = await sealSecrets(deps, caller.tenantId, appId, input)
  return deps.db.tx(async (tx) => {
    const before = existing(await store.lockApp(tx, caller, appId))
    const row = appliedTo(before, input, secrets)
    const changed = changedFields(before, row)
    if (changed.length === 0) return store.toApp(before, publicAddress(deps))
    row.updated_at = deps.now()
    await store.updateApp(tx, row)
    await publish(tx, deps, event(row, 'app.updated', { caller, origin }, { changed }))
    if (changed.includes('passkey.rpId')) await store.claimRelyingParties(tx, caller.tenantId)
    if (changed.includes('allowedOrigins')) await spread(tx, deps)
    if (changed.includes('budgets')) tx.afterCommit(() => forgetBudgets(deps))
    if (changed.some((field) => field.startsWith('signInHook'))) tx.afterCommit(() => forgetSignInHooks(deps))
    return store.toApp(row, publicAddress(deps))
  })
}

/** Changes what the service itself writes of an app's branding, with `write` in the same transaction. @throws not_found */
export async function changeBranding(
  deps: Deps,
  { caller, origin }: Call,
  appId: Id<'app'>,
  change: Pick<App['branding'], 'logo'>,
  write: (tx: Db) => Promise<void>,
): Promise<App> {
  return deps.db.tx(async (tx) => {
    const before = existing(await store.lockApp(tx, caller, appId))
    const row = { ...before, branding: { ...before.branding, ...change } }
    if (isDeepStrictEqual(wholeBranding(before), wholeBranding(row))) return store.toApp(before, publicAddress(deps))
    row.updated_at = deps.now()
    await write(tx)
    await store.updateApp(tx, row)
    const changed = Object.keys(change).map((field) => `branding.${field}`)
    await publish(tx, deps, event(row, 'app.updated', { caller, origin }, { changed }))
    return store.toApp(row, publicAddress(deps))
  })
}

async function emptyApp(tx: Db, deps: Deps, of: OfApp, force: boolean): Promise<void> {
  if (!force && (await store.hasUsers(tx, of.tenantId, of.appId))) throw fail('app_not_empty')
  // Most users are deleted before the creation of users is locked out, so that the lock does not last that long.
  if (force) await deps.hooks.appEmptied(tx, deps, of)
  await store.lockOutUsers(tx, of.tenantId, of.appId)
  if (force) await deps.hooks.appEmptied(tx, deps, of)
}

/**
 * Deletes an app with its API keys and webhooks and, with `force`, its users and guests. Emits only `app.deleted`: there is
 * no event for each user, key and webhook. Returns the record in its final state.
 * @throws not_found, default_app, app_not_empty
 */
export async function deleteApp(deps: Deps, { caller, origin }: Call, id: string, query: DeleteApp): Promise<App> {
  const { tenantId } = caller
  const appId = pathId('app', id)
  const of = { tenantId, appId }
  const deleted = deps.db.tx(async (tx) => {
    // Locked before the app, in the same order as in a change of the default app.
    const defaultAppId = await store.lockDefaultAppForShare(tx, tenantId)
    const row = existing(await store.lockApp(tx, caller, appId))
    if (defaultAppId === appId) throw fail('default_app')
    await emptyApp(tx, deps, of, query.force === 'true')
    tx.afterCommit(() => deps.revocations.distrust())
    await deps.hooks.appDeleted(tx, deps, of)
    await store.deleteApp(tx, tenantId, appId)
    if (row.passkey.rpId !== null) await store.claimRelyingParties(tx, tenantId)
    await publish(tx, deps, event(row, 'app.deleted', { caller, origin }))
    await spread(tx, deps)
    return store.toApp({ ...row, updated_at: deps.now() }, publicAddress(deps))
  })
  const app = await deleted.catch((error: unknown): never => {
    throw violatedConstraint(error) === 'users_app_fk' ? fail('app_not_empty') : error
  })
  await deps.hooks.appGone(deps, of)
  return app
}

/** The settings of an app that signing in needs. */
export type SignInSettings = Pick<
  App,
  | 'id'
  | 'name'
  | 'allowedOrigins'
  | 'allowedRedirectUrls'
  | 'passkey'
  | 'messenger'
  | 'email'
  | 'emailRecovery'
  | 'externalWallets'
  | 'agents'
  | 'branding'
> & {
  /** The sealed bot token (context: `bot token`, tenant, app); null if there is none. */
  botTokenSealed: Buffer | null
  /** The sealed secret of the app's sender of emails (context: `email webhook secret`, tenant, app); null if there is none. */
  emailWebhookSecretSealed: Buffer | null
}

/**
 * Whether a browser may be sent to a URL after a sign-in: exactly one of the app's redirect URLs, or the hosted sign-in page of
 * this app, on the service's own origin or a domain of the app. It must be written as browsers write it.
 */
export async function isReturnUrl(
  deps: Deps,
  tenantId: Id<'ten'>,
  app: Pick<SignInSettings, 'id' | 'allowedRedirectUrls'>,
  url: string,
): Promise<boolean> {
  if (app.allowedRedirectUrls.includes(url)) return true
  if (URL.parse(url)?.href !== url || url.includes('#')) return false
  const origins = [
    new URL(publicUrl(deps.config)).origin,
    ...(await listDomainOrigins(deps.db, tenantId, app.id as Id<'app'>)),
  ]
  return origins.some((origin) => {
    const page = `${origin}/signin?app=${app.id}`
    return url === page || url.startsWith(`${page}&`)
  })
}

/** The settings of a tenant's app. @throws not_found (names `field`) */
export async function signInSettings(
  deps: Deps,
  tenantId: Id<'ten'>,
  appId: Id<'app'>,
  field = 'appId',
): Promise<SignInSettings> {
  const row = await store.findApp(deps.db, { tenantId, appId: null }, appId)
  if (row === undefined) throw notFoundField(field)
  return {
    ...store.toApp(row, publicAddress(deps)),
    botTokenSealed: row.bot_token_sealed,
    emailWebhookSecretSealed: row.email_webhook_secret_sealed,
  }
}

/** How the pages that an app shows to its customers look. The name is the app's if it has no other. */
export async function brandingOf(
  deps: Deps,
  tenantId: Id<'ten'>,
  appId: Id<'app'>,
): Promise<Pick<App['branding'], 'accentColor'> & { name: string }> {
  const row = existing(await store.findApp(deps.db, { tenantId, appId: null }, appId))
  const { accentColor, name } = wholeBranding(row)
  return { accentColor, name: name ?? row.name }
}

/** The issuer of an app's ID tokens, to the letter. */
export const issuerOf = (deps: Pick<Deps, 'config'>, appId: string): string =>
  store.issuerAt(publicAddress(deps), appId)

/** The tenant of an app, for callers without a key: the hosted page. Undefined if the app does not exist. */
export async function tenantOfApp(deps: Deps, appId: string): Promise<Id<'ten'> | undefined> {
  return isId('app', appId) ? store.findTenantOfApp(deps.db, appId) : undefined
}

/** Whether the tenant has this app. If so, it cannot be deleted until the transaction ends. */
export async function lockAppForShare(tx: Db, tenantId: Id<'ten'>, appId: string): Promise<boolean> {
  return isId('app', appId) && (await store.lockAppForShare(tx, tenantId, appId))
}

/** The tenant's default app. Cached for at most a second. */
export async function defaultApp(deps: Deps, tenantId: Id<'ten'>): Promise<Id<'app'>> {
  const known = knownApps(deps)
  const appId =
    known.defaultOf(tenantId) ?? (await known.learn(tenantId, () => store.findDefaultApp(deps.db, tenantId), 'default'))
  if (appId === undefined) throw new Error(`tenant ${tenantId} has no default app`)
  return appId
}

/** Drops cached apps: after a change of the default app, or when a cached app turns out to be deleted. */
export function forgetApps(deps: Pick<Deps, 'auth'>): void {
  knownApps(deps).forget()
}

/** The scope of a list: the app in its query or, without one, everything that the key can see. @throws not_found */
export async function listScope(
  deps: Deps,
  caller: Caller,
  { app_id: appId }: { app_id?: string | undefined },
): Promise<AppScope> {
  if (appId === undefined) return { tenantId: caller.tenantId, appId: caller.appId }
  return { tenantId: caller.tenantId, appId: await resolveApp(deps, caller, appId, 'app_id') }
}

/**
 * The app of a call (product.md, section 2, rule 6): the app of a bound key, otherwise the given app or the default app.
 * Queries the database at most once per second for each app. @throws not_found (404), names `field`
 */
export async function resolveApp(
  deps: Deps,
  caller: Caller,
  appId: string | undefined,
  field = 'appId',
): Promise<Id<'app'>> {
  if (caller.appId !== null) {
    if (appId !== undefined && appId !== caller.appId) throw notFoundField(field)
    return caller.appId
  }
  if (appId === undefined) return defaultApp(deps, caller.tenantId)
  if (!isId('app', appId)) throw notFoundField(field)
  const known = knownApps(deps)
  if (known.has(caller.tenantId, appId)) return appId
  const find = async () => (await store.findApp(deps.db, caller, appId))?.id
  if ((await known.learn(caller.tenantId, find, 'app')) === undefined) throw notFoundField(field)
  return appId
}
