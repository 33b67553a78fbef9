import { type Db, type Sql, sql } from '../db/db.ts'
import { rewrap, sealedPrefix } from './crypto.ts'
import type { KeyProvider } from './key-provider.ts'

/** A table that holds sealed values. Names and types are as they stand in SQL, quoted where they must be. */
export interface SealedTable {
  name: string
  /** The primary key. */
  key: { name: string; type: string }[]
  columns: SealedColumn[]
}

interface SealedColumn {
  name: string
  /** A condition under which the column's value is sealed; null for always. */
  when: string | null
}

/** One row's values that another key than the current one wraps. */
interface StaleRow {
  /** The primary key's parts as text, in the table's order. */
  key: string[]
  /** By the columns' order; null where there is nothing to do. */
  values: (Buffer | null)[]
}

/** A sealed value that cannot be rewrapped. */
export interface LostValue {
  /** Table, column and primary key. */
  where: string
  reason: string
}

/** The advisory lock of a rewrap of all values; held in share by work during which the wrapping key must not change. */
export const REWRAP_LOCK = 4_812_570_352

/** Rows that one statement looks at, and values that one statement changes, at most. */
const PORTION = 500

/** The only sealed values in columns with other names: kept responses that contain a secret. */
const EXCEPTIONS = new Map([['idempotency_keys.answer', 'sealed']])

interface TableRow {
  name: string
  key_names: string[]
  key_types: string[]
  columns: string[]
}

/**
 * Every place for sealed values in this schema, found by name: each `bytea` column that ends in `_sealed`, and the
 * exceptions. A column that a later release adds is among them by being named as the others.
 */
export async function sealedTables(db: Db): Promise<SealedTable[]> {
  const rows = await db.query<TableRow>(sql`
    with held as (
      select c.oid, c.relname, array_agg(a.attname::text order by a.attnum) as columns
      from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
      where c.relnamespace = current_schema()::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
        and a.atttypid = 'bytea'::regtype
        and (a.attname like '%\\_sealed' or c.relname || '.' || a.attname = any(${[...EXCEPTIONS.keys()]}))
      group by c.oid, c.relname)
    select h.relname::text as name, h.columns, k.key_names, k.key_types
    from held h left join lateral (
      select array_agg(a.attname::text order by p.at) as key_names,
        array_agg(format_type(a.atttypid, a.atttypmod) order by p.at) as key_types
      from pg_index i, unnest(i.indkey::int2[]) with ordinality p (attnum, at), pg_attribute a
      where i.indrelid = h.oid and i.indisprimary and p.at <= i.indnkeyatts
        and a.attrelid = h.oid and a.attnum = p.attnum) k on true
    order by h.relname`)
  return rows.map((row) => {
    if (row.key_names === null) throw new Error(`the table ${row.name} holds sealed values and has no primary key`)
    return {
      name: quoted(row.name),
      key: row.key_names.map((name, at) => ({ name: quoted(name), type: row.key_types[at] as string })),
      columns: row.columns.map((name) => ({
        name: quoted(name),
        when: EXCEPTIONS.get(`${row.name}.${name}`) ?? null,
      })),
    }
  })
}

/** A quoted SQL name. */
export const quoted = (name: string): string => `"${name.replaceAll('"', '""')}"`

/** A statement whose text follows from the schema. Not prepared, since the number of such texts is unbounded. */
export const composed = (text: string, values: readonly unknown[] = []): Sql => ({ text, values, name: '' })

const list = <T>(items: readonly T[], each: (item: T, at: number) => string) => items.map(each).join(', ')

/** The next rows after `after` in the primary key's order, with values that are not wrapped by the key of `prefix`. */
function readPortion({ name, key, columns }: SealedTable, prefix: Buffer, after: readonly string[] | null): Sql {
  const isStale = (column: SealedColumn) =>
    `${column.when === null ? '' : `${column.when} and `}substring(${column.name} from 2 for ${prefix.length}) <> $1`
  const following =
    after === null
      ? 'true'
      : `(${list(key, (part) => part.name)}) > (${list(key, (part, at) => `$${at + 2}::${part.type}`)})`
  return composed(
    `select array[${list(key, (part) => `${part.name}::text`)}] as key,
      array[${list(columns, (column) => `case when ${isStale(column)} then ${column.name} end`)}] as values
    from ${name} where ${following} order by ${list(key, (part) => part.name)} limit ${PORTION}`,
    [prefix, ...(after ?? [])],
  )
}

/** Walks through a table, a bounded portion at a time; yields the rows that have something to do. */
async function* staleRows(db: Db, table: SealedTable, keyId: string): AsyncGenerator<StaleRow[]> {
  const prefix = sealedPrefix(keyId)
  for (let after: string[] | null = null; ; ) {
    const rows: StaleRow[] = await db.query<StaleRow>(readPortion(table, prefix, after))
    yield rows.filter((row) => row.values.some((value) => value !== null))
    if (rows.length < PORTION) return
    after = rows.at(-1)?.key as string[]
  }
}

/**
 * Swaps values that are still what was read; answers how many. What a transaction has in its hands is left for the next
 * round: waiting for it could end in a deadlock, and what it writes may replace the value anyway.
 */
async function swap(
  db: Db,
  { name, key }: SealedTable,
  column: SealedColumn,
  values: { key: string[]; old: Buffer; fresh: Buffer }[],
): Promise<number> {
  const names = key.map((_, at) => `k${at}`)
  const [old, fresh] = [`$${key.length + 1}::bytea[]`, `$${key.length + 2}::bytea[]`]
  const isSame = (row: string) => key.map((part, at) => `t.${part.name} = ${row}.k${at}`).join(' and ')
  return db.run(
    composed(
      `with wanted as materialized (
        select ${list(key, (part, at) => `k${at}::${part.type} as k${at}`)}, old, fresh
        from unnest(${list(key, (_, at) => `$${at + 1}::text[]`)}, ${old}, ${fresh}) x (${names.join(', ')}, old, fresh)),
      free as materialized (
        select ${list(names, (each) => `w.${each}`)}, w.fresh from ${name} t join wanted w on ${isSame('w')}
        where t.${column.name} = w.old for no key update of t skip locked)
      update ${name} t set ${column.name} = free.fresh from free where ${isSame('free')}`,
      [
        ...names.map((_, at) => values.map((value) => value.key[at])),
        values.map((value) => value.old),
        values.map((value) => value.fresh),
      ],
    ),
  )
}

/** How many sealed values the key of this id does not wrap. */
export async function countStale(
  db: Db,
  tables: readonly SealedTable[],
  keyId: string,
  goOn: () => void,
): Promise<number> {
  let count = 0
  for (const table of tables) {
    for await (const rows of staleRows(db, table, keyId)) {
      goOn()
      count += rows.flatMap((row) => row.values).filter((value) => value !== null).length
    }
  }
  return count
}

/**
 * Wraps anew, by the key that wraps now, every sealed value that another one wraps. Safe beside everything that reads
 * and writes: a value is swapped only while it is what was read, and one that cannot be unwrapped stays as it is and is
 * told of.
 * @param goOn called before each portion; throws to stop
 */
export async function* rewrapAll(
  db: Db,
  keys: KeyProvider,
  tables: readonly SealedTable[],
  goOn: () => void,
): AsyncGenerator<{ rewrapped: number; lost: LostValue[] }> {
  const { keyId } = keys
  for (const table of tables) {
    for await (const rows of staleRows(db, table, keyId)) {
      goOn()
      for (const [at, column] of table.columns.entries()) {
        const found = rows.flatMap(({ key, values }) => {
          const old = values[at] ?? null
          return old === null ? [] : [{ key, old }]
        })
        if (found.length === 0) continue
        const lost: LostValue[] = []
        const ready: { key: string[]; old: Buffer; fresh: Buffer }[] = []
        for (const { key, old } of found) {
          try {
            ready.push({ key, old, fresh: await rewrap(keys, old) })
          } catch (error) {
            const where = `${table.name}.${column.name} of ${key.join(', ')}`.replaceAll('"', '')
            lost.push({ where, reason: (error as Error).message })
          }
        }
        yield { rewrapped: ready.length === 0 ? 0 : await swap(db, table, column, ready), lost }
      }
    }
  }
}
