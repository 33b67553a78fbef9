import { type Db, sql } from '../../platform/db/db.ts'
import { type AppScope, readRecordPage } from '../../platform/db/page.ts'
import { insertion, update, wire } from '../../platform/db/rows.ts'
import type { Page, PageQuery } from '../../platform/http/route.ts'
import type { Id } from '../../platform/ids.ts'
import { readRecord, resealed, sealed, type Versioned } from '../../platform/security/records/access.ts'
import { APP_RECORD } from '../../platform/security/records/app-record.ts'
import type { RecordRow } from '../../platform/security/records/kind.ts'
import { type BrandLook, wholeBranding } from './branding/branding.ts'
import type { BrandLinks } from './branding/schema.ts'
import type { BudgetLimit } from './budgets.ts'
import type { App } from './schema.ts'

/** A row of the table `apps`. */
export interface AppRow extends Versioned {
  tenant_id: Id<'ten'>
  id: Id<'app'>
  name: string
  allowed_origins: string[]
  allowed_redirect_urls: string[]
  /** null: derived from the service's URL and the app's name. */
  passkey: { rpId: string | null; rpName: string | null; userVerification: App['passkey']['userVerification'] }
  messenger: { provider: App['messenger']['provider']; botUsername: string | null; botId: string | null }
  bot_token_sealed: Buffer | null
  mfa: App['mfa']
  sessions: App['sessions']
  mpc: App['mpc']
  recovery: App['recovery']
  email: Omit<App['email'], 'webhookSecretSet'>
  email_webhook_secret_sealed: Buffer | null
  email_recovery: App['emailRecovery']
  budgets: { limits: BudgetLimit[] }
  address_book: App['addressBook']
  external_wallets: App['externalWallets']
  openid: Omit<App['openid'], 'issuer'>
  agents: App['agents']
  sign_in_hook: Omit<App['signInHook'], 'secretSet'>
  sign_in_hook_secret_sealed: Buffer | null
  branding: BrandLook
  brand_links: BrandLinks
  metadata: Record<string, string>
  created_at: Date
  updated_at: Date
}

/** Where users reach the service. */
export interface PublicAddress {
  /** Without a slash at its end. */
  url: string
  /** The default relying party. */
  host: string
}

/** The issuer of an app's ID tokens (OpenID Connect Core, section 2): one for each app, so that its verifiers trust no other's users. */
export const issuerAt = ({ url }: PublicAddress, appId: string): string => `${url}/apps/${appId}`

/** A row in its API form. */
export function toApp(row: AppRow, at: PublicAddress): App {
  const { rpId, rpName, userVerification } = row.passkey
  const passkey = { rpId: rpId ?? at.host, rpName: rpName ?? row.name, userVerification }
  const messenger = { ...row.messenger, configured: row.bot_token_sealed !== null }
  const email = { ...row.email, webhookSecretSet: row.email_webhook_secret_sealed !== null }
  const openid = { issuer: issuerAt(at, row.id), ...row.openid }
  const signInHook = { ...row.sign_in_hook, secretSet: row.sign_in_hook_secret_sealed !== null }
  const branding = wholeBranding(row)
  return wire(
    { ...row, passkey, messenger, email, openid, sign_in_hook: signInHook, branding, budgets: row.budgets.limits },
    `id name allowed_origins allowed_redirect_urls passkey messenger mfa sessions mpc recovery email email_recovery budgets
    address_book external_wallets openid agents sign_in_hook branding metadata created_at updated_at`,
  )
}

/** Inserts an app. */
export async function insertApp(db: Db, row: AppRow): Promise<void> {
  await db.run(insertion('apps', await sealed(db, APP_RECORD, row)))
}

/** The apps that a key can see: those of a tenant or, with `appId`, only that one. */
const inReach = ({ tenantId, appId }: AppScope) =>
  sql`tenant_id = ${tenantId} and (${appId}::text is null or id = ${appId})`

const select = (scope: AppScope, id: Id<'app'>) => sql`select * from apps where ${inReach(scope)} and id = ${id}`

/** The app. In the scope of an app, undefined for every other one. */
export function findApp(db: Db, scope: AppScope, id: Id<'app'>): Promise<AppRow | undefined> {
  return readRecord<AppRow>(db, APP_RECORD, select(scope, id))
}

/** The same, locked against other changes until the transaction ends. Users can still be created in it. */
export function lockApp(tx: Db, scope: AppScope, id: Id<'app'>): Promise<AppRow | undefined> {
  return readRecord<AppRow>(tx, APP_RECORD, sql`${select(scope, id)} for no key update`)
}

/** The tenant of an app. */
export async function findTenantOfApp(db: Db, id: Id<'app'>): Promise<Id<'ten'> | undefined> {
  return (await db.one<{ tenant_id: Id<'ten'> }>(sql`select tenant_id from apps where id = ${id}`))?.tenant_id
}

/** An app and its tenant. */
export interface AppOfTenant {
  tenantId: Id<'ten'>
  appId: Id<'app'>
}

/** The next apps of all tenants by id. */
export function listAllApps(db: Db, after: string, limit: number): Promise<AppOfTenant[]> {
  return db.query<AppOfTenant>(
    sql`select tenant_id as "tenantId", id as "appId" from apps where id > ${after} order by id limit ${limit}`,
  )
}

/** Whether the app exists. If so, it cannot be deleted until the transaction ends. */
export async function lockAppForShare(tx: Db, tenantId: Id<'ten'>, id: Id<'app'>): Promise<boolean> {
  return (await tx.run(sql`select from apps where tenant_id = ${tenantId} and id = ${id} for share`)) === 1
}

/** A page of apps, newest first, in their API form. */
export function listApps(db: Db, scope: AppScope, query: PageQuery, at: PublicAddress): Promise<Page<App>> {
  return readRecordPage(db, APP_RECORD, sql`from apps where ${inReach(scope)}`, query, (row: AppRow) => toApp(row, at))
}

/** Stores the columns that a PATCH can change, in the transaction that holds the row. */
export async function updateApp(tx: Db, before: AppRow): Promise<void> {
  const row = await resealed(tx, APP_RECORD, before)
  const columns = `name allowed_origins allowed_redirect_urls passkey messenger bot_token_sealed mfa sessions mpc recovery email
    email_webhook_secret_sealed email_recovery budgets address_book external_wallets openid agents sign_in_hook
    sign_in_hook_secret_sealed branding brand_links metadata updated_at version mac`
  await tx.run(update('apps', row, columns))
  tx.afterCommit(() => tx.records.committed(APP_RECORD, row as object as RecordRow))
}

const selectDefaultApp = (tenantId: Id<'ten'>) => sql`select default_app_id from tenants where id = ${tenantId}`

/** The tenant's default app. Undefined if the tenant does not exist. */
export async function findDefaultApp(db: Db, tenantId: Id<'ten'>): Promise<Id<'app'> | undefined> {
  return (await db.one<{ default_app_id: Id<'app'> }>(selectDefaultApp(tenantId)))?.default_app_id
}

/** The same. It stays the default app until the transaction ends. */
export async function lockDefaultAppForShare(tx: Db, tenantId: Id<'ten'>): Promise<Id<'app'> | undefined> {
  return (await tx.one<{ default_app_id: Id<'app'> }>(sql`${selectDefaultApp(tenantId)} for share`))?.default_app_id
}

/** Locks out the creation of users: waits for running creations. Later ones wait, and find no app. */
export async function lockOutUsers(tx: Db, tenantId: Id<'ten'>, id: Id<'app'>): Promise<void> {
  await tx.run(sql`select from apps where tenant_id = ${tenantId} and id = ${id} for update`)
}

/** Whether the app has users, guests included. */
export async function hasUsers(tx: Db, tenantId: Id<'ten'>, id: Id<'app'>): Promise<boolean> {
  return (await tx.run(sql`select from users where tenant_id = ${tenantId} and app_id = ${id} limit 1`)) === 1
}

/** Claims for the tenant the relying parties of its apps that no other tenant has claimed. Releases those that none of its apps uses. */
export async function claimRelyingParties(tx: Db, tenantId: Id<'ten'>): Promise<void> {
  const named = sql`select passkey->>'rpId' from apps where tenant_id = ${tenantId} and passkey->>'rpId' is not null`
  await tx.run(sql`delete from relying_parties where tenant_id = ${tenantId} and rp_id not in (${named})`)
  await tx.run(sql`
    insert into relying_parties (rp_id, tenant_id) select distinct n.rp_id, ${tenantId} from (${named}) as n(rp_id)
    on conflict do nothing`)
}

/** Deletes the app's row. @throws the violation of users_app_fk while the app has a user */
export async function deleteApp(tx: Db, tenantId: Id<'ten'>, id: Id<'app'>): Promise<void> {
  await tx.run(sql`delete from apps where tenant_id = ${tenantId} and id = ${id}`)
}
