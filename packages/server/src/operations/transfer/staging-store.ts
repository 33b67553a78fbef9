import { type Db, sql } from '../../platform/db/db.ts'
import { raiseAuthEpoch } from '../../platform/security/authenticator.ts'
import { sealedPrefix } from '../../platform/security/crypto.ts'
import { type SealedTable, sealedTables } from '../../platform/security/sealed-values.ts'
import { composed, quoted, schemaName, staged, type Table } from './table.ts'
import { REMADE, TABLES, tenantColumn } from './tables.ts'

const names = (columns: readonly { name: string }[]) => columns.map((column) => quoted(column.name)).join(', ')

/** Makes the empty tables of an import: their columns alone, without keys and references. */
export async function createStaging(tx: Db, importId: string, tables: readonly Table[]): Promise<void> {
  await tx.run(composed(`create schema ${quoted(schemaName(importId))}`))
  for (const { name } of tables) {
    await tx.run(composed(`create table ${staged(importId, name)} (like ${quoted(name)} including defaults)`))
    for (const column of Object.keys(REMADE[name] ?? {}))
      await tx.run(composed(`alter table ${staged(importId, name)} alter column ${quoted(column)} drop not null`))
  }
}

/** Takes away what an import has staged. */
export async function dropStaging(tx: Db, importId: string): Promise<void> {
  await tx.run(composed(`drop schema if exists ${quoted(schemaName(importId))} cascade`))
}

/** Stages rows, their values as texts; each belongs to the tenant, whatever they say. */
export async function stageRows(
  tx: Db,
  importId: string,
  tenantId: string,
  table: Table,
  rows: readonly (readonly (string | null)[])[],
): Promise<void> {
  const { name, columns } = table
  if (rows.length === 0) return
  const places = columns.map((_, at) => `$${at + 2}::text[]`)
  const values = columns.map(({ type }, at) => `x.c${at}::${type}`)
  await tx.run(
    composed(
      `insert into ${staged(importId, name)} (${[quoted(tenantColumn(name)), names(columns)].filter((part) => part !== '').join(', ')})
      select ${['$1', ...values].join(', ')} from unnest(${places.join(', ')}) as x(${columns.map((_, at) => `c${at}`).join(', ')})`,
      [tenantId, ...columns.map((_, at) => rows.map((row) => row[at] ?? null))],
    ),
  )
}

/** A unique index that leaves the tenant out: what it holds is one tenant's of the whole installation. */
interface GlobalIndex {
  table: string
  columns: string[]
  condition: string | null
  has_id: boolean
}

/** Ids that are found without their tenant, so that no two tenants may share one. */
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

/** What is staged and another tenant has already, as `table (columns): row`; some of each kind. */
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

/** The staged tables that hold sealed values. */
async function sealedStaging(db: Db, importId: string): Promise<SealedTable[]> {
  const found = await sealedTables(db)
  const copied = found.filter(({ name }) => TABLES[name.replaceAll('"', '')] === 'copied')
  return copied.map((table) => ({ ...table, name: `${quoted(schemaName(importId))}.${table.name}` }))
}

/** Those of them where a value is wrapped by another key than this one; each with a primary key, for going through it. */
export async function staleStaging(db: Db, importId: string, keyId: string): Promise<SealedTable[]> {
  const prefix = sealedPrefix(keyId)
  const stale: SealedTable[] = []
  for (const table of await sealedStaging(db, importId)) {
    const differs = table.columns.map(({ name }) => `substring(${name} from 1 for ${prefix.length}) <> $1`)
    const row = await db.one(composed(`select 1 from ${table.name} where ${differs.join(' or ')} limit 1`, [prefix]))
    if (row !== undefined) stale.push(table)
  }
  return stale
}

/** Gives staged tables their keys, so that they can be gone through in portions. */
export async function addKeys(tx: Db, tables: readonly SealedTable[]): Promise<void> {
  for (const { name, key } of tables) {
    await tx.run(
      composed(`create index if not exists halfkey_walk on ${name} (${key.map((part) => part.name).join(', ')})`),
    )
  }
}

/** Moves everything staged into the service's own tables: in the transaction that makes the tenant live. */
export async function publishStaging(tx: Db, importId: string, tables: readonly Table[]): Promise<void> {
  for (const { name, columns } of tables) {
    const remade = Object.entries(REMADE[name] ?? {}).filter(([, value]) => value !== null)
    const targets = [tenantColumn(name), ...columns.map((column) => column.name), ...remade.map(([column]) => column)]
    const values = [
      ...[tenantColumn(name), ...columns.map((column) => column.name)].map(quoted),
      ...remade.map(([, value]) => value as string),
    ]
    await tx.run(
      composed(
        `insert into ${quoted(name)} (${targets.map(quoted).join(', ')}) select ${values.join(', ')} from ${staged(importId, name)}`,
      ),
    )
  }
  await raiseAuthEpoch(tx)
}

/**
 * Moves the ledger's sequence past what is staged, so that what comes after it has a greater offset. Whoever takes an
 * offset meanwhile waits: the sequence is never set back.
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
    // Changes nothing but takes the lock that `nextval` waits for.
    await tx.run(composed('alter sequence ledger_offsets increment by 1'))
    if (await isBehind(tx)) await tx.run(composed(`alter sequence ledger_offsets restart with ${top + 1}`))
  })
}
