import { and, type Sql, sql, statementName } from './db.ts'

/** The words of a list of columns, such as `'id name created_at'`, as a union. */
type Columns<List extends string> = List extends `${infer Head}\n${infer Tail}`
  ? Columns<Head> | Columns<Tail>
  : List extends `${infer Head} ${infer Tail}`
    ? Columns<Head> | Columns<Tail>
    : List extends ''
      ? never
      : List

type CamelCase<Name extends string> = Name extends `${infer Head}_${infer Tail}`
  ? `${Head}${Capitalize<CamelCase<Tail>>}`
  : Name

type OnWire<Value> = Value extends Date ? string : Value

const IDENTIFIER = /^[a-z][a-z0-9_]*$/

/** A name as part of a statement. Names stand in the source; one that was composed from data is refused. */
function named(name: string): Sql {
  if (!IDENTIFIER.test(name)) throw new Error(`"${name}" is no name of a table or column`)
  return { text: name, values: [], name: '' }
}

const camelCase = (name: string) => name.replace(/_([a-z0-9])/g, (_, letter: string) => letter.toUpperCase())

interface ColumnList {
  names: readonly string[]
  fields: readonly string[]
  /** `name = $1, created_at = $2` */
  assignments: string
}

const lists = new Map<string, ColumnList>()

function columnList(text: string): ColumnList {
  let list = lists.get(text)
  if (list === undefined) {
    const names = text.trim().split(/\s+/)
    const assignments = names.map((name, index) => `${named(name).text} = $${index + 1}`).join(', ')
    list = { names, fields: names.map(camelCase), assignments }
    lists.set(text, list)
  }
  return list
}

const insertions = new Map<string, string>()

/**
 * `insert into … values …` of a row whose keys are the columns, as a statement or as the end of one. A value that is
 * an array is stored as an array: for a JSON column, `json` comes before.
 */
export function insertion(table: string, row: object): Sql {
  const columns = Object.keys(row)
  const into = `${table} (${columns.join(', ')})`
  let text = insertions.get(into)
  if (text === undefined) {
    for (const name of [table, ...columns]) named(name)
    text = `insert into ${into} values (${columns.map((_, index) => `$${index + 1}`).join(', ')})`
    insertions.set(into, text)
  }
  return { text, values: Object.values(row), name: statementName(text) }
}

/** `a = …, b = …`: what an update sets, out of a row. */
export function change<List extends string>(row: Record<Columns<List>, unknown>, columns: List): Sql {
  const { names, assignments } = columnList(columns)
  return { text: assignments, values: names.map((name) => row[name as Columns<List>]), name: '' }
}

/** The statement that stores some columns of a tenant's record. */
export function update<List extends string>(
  table: string,
  row: Record<Columns<List> | 'tenant_id' | 'id', unknown>,
  columns: List,
): Sql {
  const { tenant_id: tenantId, id } = row as Record<'tenant_id' | 'id', unknown>
  return sql`update ${named(table)} set ${change(row, columns)} where tenant_id = ${tenantId} and id = ${id}`
}

/** The condition that columns have these values. Null and undefined match everything. */
export function matching(values: Readonly<Record<string, unknown>>): Sql {
  return and(Object.entries(values).flatMap(([name, value]) => (value == null ? [] : [sql`${named(name)} = ${value}`])))
}

/** A value of a JSON column. Null is the database's, not JSON's. */
export const json = (value: unknown): string | null => (value === null ? null : JSON.stringify(value))

/** Columns of a row as fields of the wire, in this order: names in camel case, times as ISO 8601. */
export function wire<List extends string, Row extends Record<Columns<List>, unknown>>(
  row: Row,
  columns: List,
): { [Name in Columns<List> as CamelCase<Name>]: OnWire<Row[Name]> } {
  const { names, fields } = columnList(columns)
  const shown: Record<string, unknown> = {}
  names.forEach((name, index) => {
    const value = row[name as Columns<List>]
    shown[fields[index] as string] = value instanceof Date ? value.toISOString() : value
  })
  return shown as ReturnType<typeof wire<List, Row>>
}
