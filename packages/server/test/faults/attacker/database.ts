import pg from 'pg'

/** A column as the catalogue describes it. */
export interface Column {
  name: string
  /** As `format_type` writes it. */
  type: string
  isNullable: boolean
  isKey: boolean
}

export interface Table {
  name: string
  columns: Column[]
  key: string[]
  /** Whether there was no row in it, now or at the time of the first copy, when the stage was set. */
  isEmpty: boolean
}

export type Row = Record<string, unknown>

/** Changed by no attack: the schema's own history. */
const LEFT_OUT = ['migrations']

/** Quotes a name of the catalogue. */
export const q = (name: string): string => `"${name.replaceAll('"', '""')}"`

/** A value that a column of this type takes. */
function something(type: string): string {
  if (type.endsWith('[]')) return '{}'
  if (/^json/.test(type)) return '{}'
  if (type === 'boolean') return 'false'
  if (/^(smallint|integer|bigint|numeric)/.test(type)) return '1'
  if (type.startsWith('timestamp')) return '2020-01-01T00:00:00Z'
  if (type === 'date') return '2020-01-01'
  return type === 'bytea' ? '\\x01' : 'planted'
}

/** The attacker's connection: all tables and columns as they are now, so that a new one joins by itself. */
export class Database {
  readonly #client: pg.Client
  tables: Table[] = []

  constructor(url: string) {
    this.#client = new pg.Client({ connectionString: url })
  }

  async open(): Promise<void> {
    await this.#client.connect()
    const rows = await this.query<{ table: string; name: string; type: string; nullable: boolean; key: boolean }>(`
      select c.relname as table, a.attname as name, format_type(a.atttypid, a.atttypmod) as type, not a.attnotnull as nullable,
        coalesce(a.attnum = any(i.indkey), false) as key
      from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
      left join pg_index i on i.indrelid = c.oid and i.indisprimary
      where c.relnamespace = 'public'::regnamespace and c.relkind = 'r' order by c.relname, a.attnum`)
    for (const { table, name, type, nullable, key } of rows) {
      if (LEFT_OUT.includes(table)) continue
      let at = this.tables.find((each) => each.name === table)
      if (at === undefined) {
        at = { name: table, columns: [], key: [], isEmpty: false }
        this.tables.push(at)
      }
      at.columns.push({ name, type, isNullable: nullable, isKey: key })
      if (key) at.key.push(name)
    }
  }

  async query<R extends object>(text: string, values: unknown[] = []): Promise<R[]> {
    return (await this.#client.query<R & pg.QueryResultRow>(text, values)).rows
  }

  /** Takes away what holds other writers to the schema's rules: references between tables, and triggers. */
  async unbind(): Promise<void> {
    const references = await this.query<{ table: string; name: string }>(
      `select conrelid::regclass::text as table, conname as name from pg_constraint where contype = 'f'`,
    )
    for (const { table, name } of references) await this.query(`alter table ${table} drop constraint ${q(name)}`)
    for (const { name } of this.tables) await this.query(`alter table ${q(name)} disable trigger user`)
  }

  /** Copies all rows into a schema of the attacker's. */
  async copyTo(schema: string): Promise<void> {
    const copies = this.tables.map(({ name }) => `create table ${schema}.${q(name)} as table public.${q(name)};`)
    await this.query(`create schema ${schema}; ${copies.join('\n')}`)
  }

  /** Notes which tables have no rows, in none of the copies. */
  async noteEmpty(...schemas: string[]): Promise<void> {
    for (const table of this.tables) {
      const counts = schemas.map((schema) => `(select count(*) from ${schema}.${q(table.name)})`).join(' + ')
      const [row] = await this.query<{ none: boolean }>(`select ${counts} = 0 as none`)
      table.isEmpty = row?.none === true
    }
  }

  /** Puts a row that nothing needs into each table without any, once nothing holds references together. */
  async plant(values: Readonly<Record<string, string>>): Promise<void> {
    for (const { name, columns, isEmpty } of this.tables) {
      if (!isEmpty) continue
      const given = columns.filter(({ isNullable, name: own }) => !isNullable || own in values)
      const names = given.map((each) => q(each.name)).join(', ')
      const texts = given.map((each) => `'${values[each.name] ?? something(each.type)}'::${each.type}`)
      await this.query(`insert into public.${q(name)} (${names}) values (${texts.join(', ')})`)
    }
  }

  /** Whether a table's rows are others than in a copy. */
  async differs(table: Table, schema: string): Promise<boolean> {
    const rows = (from: string) => `select t::text from ${from}.${q(table.name)} t`
    const [row] = await this.query<{ other: boolean }>(
      `select exists (${rows('public')} except ${rows(schema)}) or exists (${rows(schema)} except ${rows('public')}) as other`,
    )
    return row?.other === true
  }

  /** Puts all rows back as they are in a copy, whatever refers to them. */
  async putBack(schema: string): Promise<void> {
    const statements = this.tables.map(({ name, columns }) => {
      const names = columns.map((column) => q(column.name)).join(', ')
      return `insert into public.${q(name)} (${names}) select ${names} from ${schema}.${q(name)};`
    })
    const deletions = this.tables.map(({ name }) => `delete from public.${q(name)};`)
    await this.query(`begin; ${deletions.join('\n')} ${statements.join('\n')} commit;`)
  }

  close(): Promise<void> {
    return this.#client.end()
  }
}
