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

/**
 * The tables that move with a tenant, each after those that it refers to.
 * @throws TransferError when the schema has a table that this release does not know
 */
export async function copiedTables(db: Db): Promise<Table[]> {
  const rows = await db.query<Table>(sql`
    select c.relname::text as name,
      (select json_agg(json_build_object('name', a.attname, 'type', format_type(a.atttypid, a.atttypmod)) order by a.attname)
        from pg_attribute a where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped and a.attgenerated = '') as columns,
      coalesce((select array_agg(a.attname::text order by k.at) from pg_index i, unnest(i.indkey::int2[]) with ordinality k (attnum, at), pg_attribute a
        where i.indrelid = c.oid and i.indisprimary and k.at <= i.indnkeyatts and a.attrelid = c.oid and a.attnum = k.attnum), '{}') as order
    from pg_class c
    where c.relnamespace = current_schema()::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
    order by c.relname`)
  const unknown = rows.find(({ name }) => !Object.hasOwn(TABLES, name))
  if (unknown !== undefined)
    throw new TransferError(
      `The database has a table ${unknown.name} that this release of Halfkey does not know. Use the release that created it.`,
    )
  const places = Object.keys(TABLES)
  return rows
    .filter(({ name }) => TABLES[name] === 'copied')
    .sort((a, b) => places.indexOf(a.name) - places.indexOf(b.name))
    .map(({ name, columns, order }) => {
      const stays = [tenantColumn(name), ...Object.keys(REMADE[name] ?? {})]
      const moves = (column: string) => !stays.includes(column)
      return { name, columns: columns.filter((column) => moves(column.name)), order: order.filter(moves) }
    })
}
