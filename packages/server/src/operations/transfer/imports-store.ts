import { type Db, sql } from '../../platform/db/db.ts'

/** An import as it stands: which file, and how many of its rows are staged. */
export interface ImportRow {
  id: string
  tenant_id: string
  position: number
  state: { file?: string }
  finished_at: Date | null
}

// Imports of users stand in the same table; theirs name no file in their state.

/** The import of an export, or undefined. */
export function findImport(db: Db, id: string): Promise<ImportRow | undefined> {
  return db.one<ImportRow>(sql`
    select id, tenant_id, position, state, finished_at from imports where id = ${id} and state->>'file' is not null`)
}

/** Another import of the tenant that was begun and not ended, or undefined. */
export function findOpenImport(db: Db, tenantId: string): Promise<ImportRow | undefined> {
  return db.one<ImportRow>(sql`
    select id, tenant_id, position, state, finished_at from imports where tenant_id = ${tenantId} and finished_at is null
      and state->>'file' is not null
    order by created_at limit 1`)
}

/** Notes that an import begins. */
export async function insertImport(
  tx: Db,
  row: { id: string; tenantId: string; file: string; now: Date },
): Promise<void> {
  await tx.run(sql`
    insert into imports (id, tenant_id, state, created_at)
    values (${row.id}, ${row.tenantId}, ${JSON.stringify({ file: row.file })}, ${row.now})`)
}

/** Moves the position on; false where it is not what it was, since another process is at the same import. */
export async function advanceImport(tx: Db, id: string, from: number, to: number): Promise<boolean> {
  return (await tx.run(sql`update imports set position = ${to} where id = ${id} and position = ${from}`)) === 1
}

/** Notes that the tenant is live. */
export async function finishImport(tx: Db, id: string, now: Date): Promise<void> {
  await tx.run(sql`update imports set finished_at = ${now} where id = ${id} and finished_at is null`)
}

/** Forgets an import that did not end. */
export async function deleteImport(tx: Db, id: string): Promise<void> {
  await tx.run(sql`delete from imports where id = ${id} and finished_at is null`)
}

/** Whether a tenant is here. */
export async function hasTenant(db: Db, tenantId: string): Promise<boolean> {
  return (await db.one(sql`select 1 as here from tenants where id = ${tenantId}`)) !== undefined
}
