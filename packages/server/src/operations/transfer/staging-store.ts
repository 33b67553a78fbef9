import { type Db, sql } from '../../platform/db/db.ts'
import { raiseAuthEpoch } from '../../platform/security/authenticator.ts'
import { sealedPrefix } from '../../platform/security/crypto.ts'
import { composed, quoted, type SealedTable, sealedTables } from '../../platform/security/sealed-values.ts'
import { REMADE, type Row, staged, stagingSchema, TABLES, type Table, tenantColumn } from './tables.ts'

/** The progress of an import. `position` is the number of rows staged. */
export interface ImportRow {
  id: string
  tenant_id: string
  position: number
  /** The digests of the file, and of the schema when the import began. */
  state: { file: string; schema?: string }
  finished_at: Date | null
}

/** The import of this export, or an unfinished one of the same tenant; undefined without either. */
export function findImport(db: Db, id: string, tenantId: string | null): Promise<ImportRow | undefined> {
  // Imports of users stand in the same table; their state names no file.
  return db.one<ImportRow>(sql`
    select id, tenant_id, position, state, finished_at from imports
    where state->>'file' is not null and (id = ${id} or (tenant_id = ${tenantId} and finished_at is null))
    order by finished_at is null, id <> ${id}, created_at limit 1`)
}

/** Begins an import, with empty staging tables: columns only, without keys and references. */
export async function beginImport(
  tx: Db,
  { id, tenantId, state, now }: { id: string; tenantId: string; state: ImportRow['state']; now: Date },
  tables: readonly Table[],
): Promise<void> {
  await tx.run(sql`
    insert into imports (id, tenant_id, state, created_at)
    values (${id}, ${tenantId}, ${JSON.stringify(state)}, ${now})`)
  await tx.run(composed(`create schema ${stagingSchema(id)}`))
  for (const { name } of tables) {
    await tx.run(composed(`create table ${staged(id, name)} (like ${quoted(name)} including defaults)`))
    for (const column of Object.keys(REMADE[name] ?? {}))
      await tx.run(composed(`alter table ${staged(id, name)} alter column ${quoted(column)} drop not null`))
  }
}

/** Removes an unfinished import with all that it has staged. */
export async function discardImport(tx: Db, id: string): Promise<void> {
  await tx.run(composed(`drop schema if exists ${stagingSchema(id)} cascade`))
  await tx.run(sql`delete from imports where id = ${id} and finished_at is null`)
}

/**
 * Stages rows under the given tenant, and advances the import's position.
 * @returns false if the position has changed, because another process runs the same import
 */
export async function stageRows(
  tx: Db,
  { id, tenantId, position }: { id: string; tenantId: string; position: number },
  { name, columns }: Table,
  rows: readonly Row[],
): Promise<boolean> {
  // A crash of the database may undo whole portions, which are then staged again.
  await tx.run(sql`set local synchronous_commit = off`)
  const targets = [tenantColumn(name), ...columns.map((column) => column.name)]
  const values = ['$1', ...columns.map(({ type }, at) => `x.c${at}::${type}`)]
  const places = columns.map((_, at) => `$${at + 2}::text[]`)
  await tx.run(
    composed(
      `insert into ${staged(id, name)} (${targets.map(quoted).join(', ')})
      select ${values.join(', ')} from unnest(${places.join(', ')}) as x(${columns.map((_, at) => `c${at}`).join(', ')})`,
      [tenantId, ...columns.map((_, at) => rows.map((row) => row[at] ?? null))],
    ),
  )
  return (
    (await tx.run(sql`
      update imports set position = ${position + rows.length} where id = ${id} and position = ${position}`)) === 1
  )
}

/** A unique index without the tenant: its values are unique across the installation. */
interface GlobalIndex {
  table: string
  columns: string[]
  condition: string | null
  has_id: boolean
}

/** Tables whose ids are looked up without their tenant, so that they must be unique across tenants. */
const IDS_ALONE = ['delegated_sessions', 'lanes', 'wallets', 'webhooks']

async function globalIndexes(db: Db): Promise<GlobalIndex[]> {
  const copied = Object.keys(TABLES).filter((name) => TABLES[name] === 'copied')
  const rows = await db.query<GlobalIndex>(sql`
    select c.relname::text as table, array_agg(a.attname::text order by k.at) as columns,
      pg_get_expr(i.indpred, i.indrelid) as condition,
      exists (select from pg_attribute d where d.attrelid = c.oid and d.attname = 'id') as has_id
    from pg_index i join pg_class c on c.oid = i.indrelid, unnest(i.indkey::int2[]) with ordinality k (attnum, at)
      join pg_attribute a on a.attnum = k.attnum
    where c.relnamespace = current_schema()::regnamespace and c.relname = any(${copied}) and i.indisunique
      and k.at <= i.indnkeyatts and a.attrelid = c.oid
    group by i.indexrelid, i.indpred, i.indrelid, c.relname, c.oid having not bool_or(a.attname = 'tenant_id')
    order by c.relname, i.indexrelid`)
  const ids = IDS_ALONE.map((table) => ({ table, columns: ['id'], condition: null, has_id: true }))
  return [...rows.filter(({ table }) => table !== 'tenants'), ...ids]
}

const CLASHES_SHOWN_MAX = 5

/** Staged values that another tenant has already, as `table (columns): row`; some of each kind. */
export async function findClashes(db: Db, importId: string): Promise<string[]> {
  const found: string[] = []
  for (const { table, columns, condition, has_id } of await globalIndexes(db)) {
    const where = condition === null ? '' : `where ${condition}`
    const keys = columns.map(quoted).join(', ')
    const label = has_id ? 's.id' : `concat_ws(' ', ${columns.map((name) => `s.${quoted(name)}::text`).join(', ')})`
    const rows = await db.query<{ label: string }>(
      composed(
        `select ${label} as label from (select * from ${staged(importId, table)} ${where}) s
        where exists (select from (select ${keys} from ${quoted(table)} ${where}) p
          where ${columns.map((name) => `p.${quoted(name)} = s.${quoted(name)}`).join(' and ')})
        limit ${CLASHES_SHOWN_MAX}`,
      ),
    )
    const named = columns.length === 1 && columns[0] === 'id' ? table : `${table} (${columns.join(', ')})`
    found.push(...rows.map((row) => `${named}: ${row.label}`))
  }
  return found
}

/** The staged tables with values that another key wraps, each with an index to read it in portions. */
export async function staleStaging(tx: Db, importId: string, keyId: string): Promise<SealedTable[]> {
  const prefix = sealedPrefix(keyId)
  const stale: SealedTable[] = []
  for (const table of await sealedTables(tx)) {
    if (TABLES[table.name.replaceAll('"', '')] !== 'copied') continue
    const name = `${stagingSchema(importId)}.${table.name}`
    const differs = table.columns.map((column) => `substring(${column.name} from 2 for ${prefix.length}) <> $1`)
    const row = await tx.one(composed(`select 1 from ${name} where ${differs.join(' or ')} limit 1`, [prefix]))
    if (row === undefined) continue
    await tx.run(composed(`create index on ${name} (${table.key.map((part) => part.name).join(', ')})`))
    stale.push({ ...table, name })
  }
  return stale
}

/** Copies all staged rows into the service's tables, and ends the import. */
export async function publishStaging(tx: Db, importId: string, tables: readonly Table[], now: Date): Promise<void> {
  for (const { name, columns } of tables) {
    const columnsKept = [tenantColumn(name), ...columns.map((column) => column.name)].map(quoted)
    const remade = Object.entries(REMADE[name] ?? {}).filter(([, value]) => value !== null)
    const targets = [...columnsKept, ...remade.map(([column]) => quoted(column))]
    const values = [...columnsKept, ...remade.map(([, value]) => value)]
    await tx.run(
      composed(
        `insert into ${quoted(name)} (${targets.join(', ')}) select ${values.join(', ')} from ${staged(importId, name)}`,
      ),
    )
  }
  await raiseAuthEpoch(tx)
  await tx.run(composed(`drop schema ${stagingSchema(importId)} cascade`))
  await tx.run(sql`update imports set finished_at = ${now} where id = ${importId} and finished_at is null`)
}

/**
 * Moves the ledger's sequence past the staged offsets, so that later offsets are greater. It is never set back: other
 * users of the sequence wait meanwhile.
 */
export async function passOffsets(db: Db, importId: string): Promise<void> {
  const row = await db.one<{ top: number | null }>(
    composed(`select greatest(
      (select max("offset") from ${staged(importId, 'ledger_updates')}),
      (select max(greatest(created_offset, archived_offset)) from ${staged(importId, 'ledger_contracts')})) as top`),
  )
  const top = row?.top ?? 0
  const isBehind = async (at: Db) =>
    ((await at.one<{ last_value: number }>(sql`select last_value from ledger_offsets`))?.last_value ?? 0) <= top
  if (!(await isBehind(db))) return
  await db.tx(async (tx) => {
    // Takes the lock that `nextval` waits for, and changes nothing.
    await tx.run(composed('alter sequence ledger_offsets increment by 1'))
    if (await isBehind(tx)) await tx.run(composed(`alter sequence ledger_offsets restart with ${top + 1}`))
  })
}
