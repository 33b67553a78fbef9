import type { Sql } from '../../db/db.ts'
import { type ColumnType, encode } from './canonical.ts'

/** A row as the database gives it, or as it is about to be written. */
export type RecordRow = Readonly<Record<string, unknown>>

/** A column that says which rows of other tables belong to a record. */
interface RecordList {
  now: string
  type: 'text' | 'bytea' | 'integer'
  holds?: string
  since: number
}

/** Some of a table's rows: a condition of SQL, and the same in code. */
interface Selection {
  rows: string
  holds(row: RecordRow): boolean
}

/** All of a table's rows. */
export const EVERY_ROW: Selection = { rows: 'true', holds: () => true }

interface Declaration {
  /** Names it in events, metrics and on the command line, e.g. `delegated_session`. */
  name: string
  table: string
  /** The primary key, without the tenant. */
  key: readonly string[]
  /**
   * Whose its rows are: a tenant's, unless said otherwise. `maybe`: a tenant's or the installation's; `none`: always the
   * installation's, and the table has no `tenant_id`. The primary key of these two is `key` alone.
   */
  owner?: 'maybe' | 'none'
  /** The generation of the mark that refuses its rows without a MAC, where rows were there before they had one; 1 otherwise. */
  since?: number
  /** Whether the table has a `version` that each change raises. Without one, a row is never changed. */
  versioned: boolean
  /**
   * Whether the floor holds the versions of its rows, so that an older one is refused after a restart, too: for kinds of which a tenant
   * has few, and which rarely change.
   */
  floor?: boolean
  /** What says who may do what: covered by the MAC. */
  columns: Readonly<Record<string, ColumnType>>
  /**
   * Of columns that came after rows had MACs: the value that those rows have. A column with it is left out of the text, so
   * that their MACs still hold.
   */
  initial?: Readonly<Record<string, unknown>>
  /** Every other column, and why nobody gains anything by changing it. */
  notAuthority: Readonly<Record<string, string>>
  /**
   * Columns that say which rows of other tables belong to the record, by name: what such a column has to be now, as SQL over the
   * table's own name, and when what it says is true, where equality would ask too much. In a row from before such columns it is null,
   * and counts from the generation of the mark `since`.
   */
  sets?: Readonly<Record<string, RecordList>>
  /** Which rows never count without a MAC, because no release wrote any such: not even where records without one are accepted. */
  alwaysSealed?: Selection
  /** Which rows carry a MAC, where not all do. */
  only?: Selection
}

/** A table whose rows carry a MAC: declared once, by the slice that owns the table. */
export interface RecordKind extends Declaration {
  /** All columns that a check needs, in order. */
  read: readonly string[]
  /** The canonical text (RFC 8785) of a row: what the MAC is over. @throws RangeError for a value without such a form */
  text(row: RecordRow): string
}

const byName = ([a]: readonly [string, unknown], [b]: readonly [string, unknown]) => (a < b ? -1 : 1)

/** Declares the kind of a table's rows. */
export function defineRecord(declaration: Declaration): RecordKind {
  const { name, key, versioned } = declaration
  const columns = Object.entries(declaration.columns).sort(byName)
  const initial = new Map(
    Object.entries(declaration.initial ?? {}).map(([column, value]) => [
      column,
      encode(declaration.columns[column] as ColumnType, value, column),
    ]),
  )
  const start = '{"columns":{'
  const kind = `,"kind":${JSON.stringify(name)},"tenant":`
  const read = [
    ...(declaration.owner === 'none' ? [] : ['tenant_id']),
    ...key,
    ...(versioned ? ['version'] : []),
    ...columns.map(([column]) => column),
    'mac',
  ]
  return {
    ...declaration,
    read: [...new Set(read)],
    text(row) {
      let text = start
      for (let at = 0; at < columns.length; at += 1) {
        const [column, type] = columns[at] as [string, ColumnType]
        const value = encode(type, row[column], column)
        if (value !== initial.get(column)) text += `${text === start ? '' : ','}"${column}":${value}`
      }
      const id = key.map((column) => encode(keyType(row[column]), row[column], column)).join(',')
      const tenant = JSON.stringify(row.tenant_id ?? null)
      return `${text}},"id":[${id}]${kind}${tenant},"version":${versioned ? encode('integer', row.version, 'version') : 0}}`
    },
  }
}

const keyType = (value: unknown): ColumnType => (Buffer.isBuffer(value) ? 'bytes' : 'text')

const lists = new Map<string, Sql>()

/**
 * A kind's columns of a joined table, as a part of a select list: `w.custody as wallet__custody, …`. Then `recordIn` finds the
 * record in the row.
 */
export function recordColumns(kind: RecordKind, alias: string): Sql {
  const known = lists.get(`${kind.name} ${alias}`)
  if (known !== undefined) return known
  const text = kind.read.map((column) => `${alias}.${column} as ${kind.name}__${column}`).join(', ')
  const list = { text, values: [], name: '' }
  lists.set(`${kind.name} ${alias}`, list)
  return list
}

/** The record of a kind in a row that was read with `recordColumns`; null if the join found none. */
export function recordIn<Row extends RecordRow>(kind: RecordKind, row: object): Row | null {
  const record: Record<string, unknown> = {}
  const all = row as Record<string, unknown>
  for (const column of kind.read) record[column] = all[`${kind.name}__${column}`]
  return kind.key.every((column) => record[column] === null) ? null : (record as Row)
}
