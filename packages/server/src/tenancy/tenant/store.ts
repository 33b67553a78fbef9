import { type Db, sql } from '../../platform/db/db.ts'
import { insertion, wire } from '../../platform/db/rows.ts'
import type { Id } from '../../platform/ids.ts'
import type { Tenant } from './schema.ts'

/** A row of the table `tenants`, without its node's keys. */
export interface TenantRow {
  id: Id<'ten'>
  name: string
  plan: string
  default_app_id: Id<'app'>
  created_at: Date
  updated_at: Date
}

/** A row in its API form. */
export function toTenant(row: TenantRow): Tenant {
  return {
    ...wire(row, 'id name plan'),
    settings: { defaultAppId: row.default_app_id },
    ...wire(row, 'created_at updated_at'),
  }
}

/** Inserts a tenant. Its default app may follow in the same transaction. */
export async function insertTenant(
  tx: Db,
  row: Omit<TenantRow, 'plan'> & { node_public_key: Buffer; node_key_sealed: Buffer },
): Promise<void> {
  await tx.run(insertion('tenants', row))
}

const select = (id: Id<'ten'>) => sql`
  select id, name, plan, default_app_id, created_at, updated_at from tenants where id = ${id}`

/** The tenant, or undefined. */
export function findTenant(db: Db, id: Id<'ten'>): Promise<TenantRow | undefined> {
  return db.one<TenantRow>(select(id))
}

/** The same, locked against other changes until the transaction ends. */
export function lockTenant(tx: Db, id: Id<'ten'>): Promise<TenantRow | undefined> {
  return tx.one<TenantRow>(sql`${select(id)} for no key update`)
}

/** Stores the columns that a PATCH can change. */
export async function updateTenant(tx: Db, row: TenantRow): Promise<void> {
  await tx.run(sql`
    update tenants set name = ${row.name}, default_app_id = ${row.default_app_id}, updated_at = ${row.updated_at} where id = ${row.id}`)
}

/** The oldest tenants, at most `limit`: for the command line, which belongs to no tenant. */
export function listTenants(db: Db, limit: number): Promise<{ id: Id<'ten'>; name: string }[]> {
  return db.query<{ id: Id<'ten'>; name: string }>(sql`select id, name from tenants order by id limit ${limit}`)
}

/** The plan as stored, locked against other changes of the tenant until the transaction ends. */
export async function lockPlan(tx: Db, tenantId: Id<'ten'>): Promise<string | undefined> {
  return (await tx.one<{ plan: string }>(sql`select plan from tenants where id = ${tenantId} for no key update`))?.plan
}

/** Stores the plan of a tenant that the transaction has locked. */
export async function setPlan(tx: Db, tenantId: Id<'ten'>, plan: string, now: Date): Promise<void> {
  await tx.run(sql`update tenants set plan = ${plan}, updated_at = ${now} where id = ${tenantId}`)
}
