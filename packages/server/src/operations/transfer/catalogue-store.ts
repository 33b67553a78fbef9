import { createHash } from 'node:crypto'
import { type Db, sql } from '../../platform/db/db.ts'
import { TransferError } from './errors.ts'
import { REMADE, TABLES, type Table, tenantColumn } from './tables.ts'

/** A schema: its last migration, and a digest over all of them. */
export interface Schema {
  last: string
  digest: string
}

/** The schema of a database, and the digests of those that it had before. */
export async function schemaOf(db: Db): Promise<{ schema: Schema; earlier: readonly string[] }> {
  const rows = await db.query<{ name: string; checksum: string }>(
    sql`select name, checksum from migrations order by name`,
  )
  const hash = createHash('sha256')
  const digests = rows.map(({ name, checksum }) => hash.update(`${name} ${checksum}\n`).copy().digest('hex'))
  return {
    schema: { last: rows.at(-1)?.name ?? '', digest: digests.at(-1) ?? '' },
    earlier: digests.slice(0, -1),
  }
}

interface TableRow extends Table {
  /** Tables that its rows refer to. */
  parents: string[]
}

/** Tables in an order in which each follows the tables that it refers to; by name otherwise. */
function inOrder(rows: readonly TableRow[]): Table[] {
  const done = new Set<string>()
  const ordered: Table[] = []
  for (let left = rows; left.length > 0; left = left.filter((row) => !done.has(row.name))) {
    const next = left.find((row) => row.parents.every((parent) => done.has(parent) || parent === row.name))
    if (next === undefined) throw new Error(`tables refer to each other in a circle: ${left.map((row) => row.name)}`)
    done.add(next.name)
    ordered.push({ name: next.name, columns: next.columns, order: next.order })
  }
  return ordered
}

/**
 * The tables that move with a tenant.
 * @throws TransferError when the schema has a table that this release does not know
 */
export async function copiedTables(db: Db): Promise<Table[]> {
  const rows = await db.query<TableRow>(sql`
    select c.relname::text as name,
      (select json_agg(json_build_object('name', a.attname, 'type', format_type(a.atttypid, a.atttypmod)) order by a.attname)
        from pg_attribute a where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped and a.attgenerated = '') as columns,
      coalesce((select array_agg(a.attname::text order by k.at) from pg_index i, unnest(i.indkey::int2[]) with ordinality k (attnum, at), pg_attribute a
        where i.indrelid = c.oid and i.indisprimary and k.at <= i.indnkeyatts and a.attrelid = c.oid and a.attnum = k.attnum), '{}') as order,
      coalesce((select array_agg(p.relname::text) from pg_constraint f join pg_class p on p.oid = f.confrelid
        where f.conrelid = c.oid and f.contype = 'f'), '{}') as parents
    from pg_class c
    where c.relnamespace = current_schema()::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
    order by c.relname`)
  const unknown = rows.find(({ name }) => !Object.hasOwn(TABLES, name))
  if (unknown !== undefined)
    throw new TransferError(
      `The database has a table ${unknown.name} that this release of Halfkey does not know. Use the release that made it.`,
    )
  const copied = rows.filter(({ name }) => TABLES[name] === 'copied')
  return inOrder(
    copied.map((row) => {
      const stays = [tenantColumn(row.name), ...Object.keys(REMADE[row.name] ?? {})]
      const columns = row.columns.filter((column) => !stays.includes(column.name))
      return { ...row, columns, order: row.order.filter((name) => !stays.includes(name)) }
    }),
  )
}
