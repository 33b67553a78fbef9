import { type Db, sql } from '../../../platform/db/db.ts'
import { readRecordPage } from '../../../platform/db/page.ts'
import { insertion, update, wire } from '../../../platform/db/rows.ts'
import type { Page, PageQuery } from '../../../platform/http/route.ts'
import type { Id } from '../../../platform/ids.ts'
import {
  readRecord,
  readRecords,
  readToEnd,
  resealed,
  sealed,
  type Versioned,
} from '../../../platform/security/records/access.ts'
import type { RecordRow } from '../../../platform/security/records/kind.ts'
import { PROVIDER_RECORD } from './provider-record.ts'
import type { Provider } from './schema.ts'

/** A row of the table `app_providers`. */
export interface ProviderRow extends Versioned {
  tenant_id: Id<'ten'>
  id: Id<'prv'>
  app_id: Id<'app'>
  preset: Provider['preset']
  name: string
  issuer: string
  client_id: string
  /** Sealed (context: `provider secret`, tenant, provider); null if there is none. */
  client_secret_sealed: Buffer | null
  team_id: string | null
  key_id: string | null
  native_client_ids: string[]
  jit: Provider['jit']
  created_at: Date
  updated_at: Date
}

/** A row in its API form. `callbackUrl`: where the provider sends browsers back to. */
export function toProvider(row: ProviderRow, callbackUrl: string): Provider {
  const shown = { ...row, client_secret_set: row.client_secret_sealed !== null, callback_url: callbackUrl }
  return wire(
    shown,
    `id app_id preset name issuer client_id client_secret_set team_id key_id native_client_ids jit callback_url created_at
    updated_at`,
  )
}

/** Which app's providers. */
export interface OfApp {
  tenantId: Id<'ten'>
  appId: Id<'app'>
}

/** Inserts a provider. */
export async function insertProvider(tx: Db, row: ProviderRow): Promise<void> {
  await tx.run(insertion('app_providers', await sealed(tx, PROVIDER_RECORD, row)))
}

/** Stores the columns that a PATCH can change, in the transaction that holds the row. */
export async function updateProvider(tx: Db, before: ProviderRow): Promise<void> {
  const row = await resealed(tx, PROVIDER_RECORD, before)
  const columns = 'name client_id client_secret_sealed team_id key_id native_client_ids jit updated_at version mac'
  await tx.run(update('app_providers', row, columns))
  tx.afterCommit(() => tx.records.committed(PROVIDER_RECORD, row as object as RecordRow))
}

export async function deleteProvider(tx: Db, tenantId: Id<'ten'>, id: Id<'prv'>): Promise<void> {
  await tx.run(sql`delete from app_providers where tenant_id = ${tenantId} and id = ${id}`)
}

const select = ({ tenantId, appId }: OfApp, id: Id<'prv'>) =>
  sql`select * from app_providers where tenant_id = ${tenantId} and app_id = ${appId} and id = ${id}`

/** One of an app's providers. */
export function findProvider(db: Db, app: OfApp, id: Id<'prv'>): Promise<ProviderRow | undefined> {
  return readRecord<ProviderRow>(db, PROVIDER_RECORD, select(app, id))
}

/** The same to remove it: it may have been changed by somebody else, see `readToEnd`. */
export async function findProviderToRemove(db: Db, app: OfApp, id: Id<'prv'>): Promise<ProviderRow | undefined> {
  const [row] = await readToEnd<ProviderRow>(db, PROVIDER_RECORD, select(app, id))
  return row
}

/** All of an app's providers, in the order in which they were made. */
export function providersOf(db: Db, { tenantId, appId }: OfApp): Promise<ProviderRow[]> {
  return readRecords<ProviderRow>(
    db,
    PROVIDER_RECORD,
    sql`select * from app_providers where tenant_id = ${tenantId} and app_id = ${appId} order by id`,
  )
}

/** A page of them, newest first. */
export function listProviders(
  db: Db,
  { tenantId, appId }: OfApp,
  query: PageQuery,
  shown: (row: ProviderRow) => Provider,
): Promise<Page<Provider>> {
  const found = sql`from app_providers where tenant_id = ${tenantId} and app_id = ${appId}`
  return readRecordPage(db, PROVIDER_RECORD, found, query, shown)
}

/** The tenant and app of a provider, for requests without a key. */
export function findPlace(db: Db, id: Id<'prv'>): Promise<OfApp | undefined> {
  return db.one<OfApp>(sql`select tenant_id as "tenantId", app_id as "appId" from app_providers where id = ${id}`)
}
