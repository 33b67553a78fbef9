import { allowIdle, type Db, sql } from '../../../platform/db/db.ts'
import type { Id } from '../../../platform/ids.ts'

/** The progress of an import. */
export interface ImportState {
  /** Whether each user gets an event. */
  events: boolean
  imported: number
  /** Users that were skipped because their email or external id is taken. */
  skipped: number
  /** Invalid lines that were skipped. */
  invalid: number
}

/** An import. */
export interface ImportRow {
  id: string
  /** The number of records of the file that were processed. */
  position: number
  state: ImportState
  finished_at: Date | null
}

/** The import with this id, which is created unless it exists. */
export async function beginImport(
  db: Db,
  now: Date,
  { id, tenantId, state }: { id: string; tenantId: Id<'ten'>; state: ImportState },
): Promise<ImportRow> {
  await db.run(sql`
    insert into imports (id, tenant_id, state, created_at) values (${id}, ${tenantId}, ${state}, ${now}) on conflict do nothing`)
  return (await findImport(db, id)) as ImportRow
}

export function findImport(db: Db, id: string): Promise<ImportRow | undefined> {
  return db.one<ImportRow>(sql`select id, position, state, finished_at from imports where id = ${id}`)
}

/** Deletes the record of a finished import, so that it can start again. */
export async function forgetImport(db: Db, id: string): Promise<void> {
  await db.run(sql`delete from imports where id = ${id} and finished_at is not null`)
}

/** Advances an import, if it is still at the position that the caller read (optimistic lock). */
export async function advanceImport(
  tx: Db,
  { id, from, to, state }: { id: string; from: number; to: number; state: ImportState },
): Promise<boolean> {
  const moved = await tx.run(sql`
    update imports set position = ${to}, state = ${state} where id = ${id} and position = ${from} and finished_at is null`)
  return moved === 1
}

/** @returns whether it was not finished before */
export async function finishImport(tx: Db, now: Date, id: string): Promise<boolean> {
  return (await tx.run(sql`update imports set finished_at = ${now} where id = ${id} and finished_at is null`)) === 1
}

/** A value that is unique in an app, and its line in the file. */
export interface UniqueValue {
  line: number
  field: 'email' | 'externalId'
  /** An email's key. */
  value: string
}

/** A value that is taken: by another line of the file or, if `firstLine` is null, by a user. */
export type Taken = UniqueValue & { firstLine: number | null }

/** Creates the transaction's temporary table of the values in a file. The transaction may then wait for the file. */
export async function createSeenValues(tx: Db): Promise<void> {
  await allowIdle(tx)
  await tx.run(sql`
    create temporary table import_seen (field text collate "C", value text collate "C", line bigint, primary key (field, value)) on commit drop`)
}

const valueRows = (values: readonly UniqueValue[]) => sql`unnest(
  ${values.map(({ field }) => field)}::text[], ${values.map(({ value }) => value)}::text[], ${values.map(({ line }) => line)}::bigint[])
  as g(field, value, line)`

/** Adds values of the file. @returns those that an earlier line has */
export function addSeenValues(tx: Db, values: readonly UniqueValue[]): Promise<Taken[]> {
  return tx.query<Taken>(sql`
    with g as materialized (select * from ${valueRows(values)}),
    added as (
      insert into import_seen (field, value, line) select field, value, min(line) from g group by field, value
      on conflict do nothing returning field, value, line)
    select g.line, g.field, g.value, coalesce(a.line, s.line) as "firstLine" from g
    left join added a on a.field = g.field and a.value = g.value
    left join import_seen s on s.field = g.field and s.value = g.value
    where coalesce(a.line, s.line) <> g.line order by g.line`)
}

/** The values that a user of the app already has. */
export function findTaken(
  db: Db,
  tenantId: Id<'ten'>,
  appId: Id<'app'>,
  values: readonly UniqueValue[],
): Promise<Taken[]> {
  return db.query<Taken>(sql`
    with g as materialized (select * from ${valueRows(values)})
    select g.line, g.field, g.value, null::bigint as "firstLine" from g
    join users u on u.tenant_id = ${tenantId} and u.app_id = ${appId} and u.email_key = g.value where g.field = 'email'
    union all
    select g.line, g.field, g.value, null::bigint from g
    join users u on u.tenant_id = ${tenantId} and u.app_id = ${appId} and u.external_id = g.value where g.field = 'externalId'
    order by line`)
}
