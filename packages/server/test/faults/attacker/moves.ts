import type { Column, Database, Row, Table } from './database.ts'
import { q } from './database.ts'

type Kind = 'flip' | 'empty' | 'copy' | 'exchange' | 'insert' | 'delete' | 'restore'

/** One thing that the attacker does to one row. */
export interface Move {
  kind: Kind
  table: Table
  /** Of `flip`, `empty` and `copy`. */
  column: Column | null
}

/** Numbers that follow from a seed alone (mulberry32). */
export function random(seed: number): (below: number) => number {
  let state = seed >>> 0
  return (below) => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) % below
  }
}

/** Every move on every table and column. */
export function allMoves(tables: readonly Table[]): Move[] {
  return tables.flatMap((table) => [
    ...table.columns.flatMap((column) => [
      { kind: 'flip' as const, table, column },
      { kind: 'copy' as const, table, column },
      ...(column.isNullable ? [{ kind: 'empty' as const, table, column }] : []),
    ]),
    ...(['exchange', 'insert', 'delete', 'restore'] as const).map((kind) => ({ kind, table, column: null })),
  ])
}

/** Another value than `value`, as SQL over it. */
function flipped(type: string, value: string): string {
  if (type.endsWith('[]')) return `array_append(${value}, null)`
  if (type === 'boolean') return `not ${value}`
  if (/^(smallint|integer|bigint)$/.test(type)) return `case when ${value} > 0 then 0 else ${value} + 1 end`
  if (type.startsWith('timestamp'))
    return `case when ${value} > now() then now() - interval '1 day' else now() + interval '300 days' end`
  if (type === 'bytea')
    return `set_byte(${value} || '\\x00'::bytea, 0, (get_byte(${value} || '\\x00'::bytea, 0) + 1) % 256)`
  if (/^json/.test(type))
    return `regexp_replace(replace(replace(${value}::text, 'true', '"t"'), 'false', 'true'), '"amount": ?"[0-9.]+"', '"amount":"900"')::${type}`
  if (type === 'text') {
    // Words of which the schema knows some more.
    const words = `case ${value} when 'active' then 'revoked' when 'revoked' then 'active' when 'suspended' then 'active'
      when 'embedded' then 'self_custody' when 'shared' then 'self_custody' when 'publishable' then 'secret' else ${value} || 'x' end`
    return words
  }
  return value
}

const isKeyed = (table: Table, alias: string, from: string) =>
  table.key.map((name) => `${alias}.${q(name)} is not distinct from ${from}.${q(name)}`).join(' and ')

/** Does a move by SQL. @returns whether a row is another one now; false where the schema refused it, or there is no such row */
export async function make(
  database: Database,
  { kind, table, column }: Move,
  next: (below: number) => number,
): Promise<boolean> {
  const name = `public.${q(table.name)}`
  const rows = await database.query<Row>(
    `select ctid::text as at from ${name} order by ${table.key.map(q).join(', ') || 'ctid'}`,
  )
  if (rows.length === 0 && kind !== 'restore') return false
  const at = () => `'${rows[next(rows.length)]?.at}'::tid`
  const c = column === null ? '' : q(column.name)
  const others = table.columns.filter(({ isKey }) => !isKey).map((each) => q(each.name))
  const statements: Record<Exclude<Kind, 'restore'>, () => string> = {
    flip: () => {
      const other = flipped(column?.type ?? '', `t.${c}`)
      return `update ${name} t set ${c} = ${other} where ctid = ${at()} and t.${c}::text is distinct from (${other})::text`
    },
    empty: () => `update ${name} t set ${c} = null where ctid = ${at()} and ${c} is not null`,
    copy: () =>
      `update ${name} t set ${c} = o.${c} from ${name} o where t.ctid = ${at()} and o.ctid = ${at()} and t.${c}::text is distinct from o.${c}::text`,
    exchange: () =>
      `update ${name} t set ${others.map((each) => `${each} = o.${each}`).join(', ')} from ${name} o
       where t.ctid = ${at()} and o.ctid = ${at()} and t.ctid <> o.ctid`,
    insert: () => {
      const last = table.columns.find(
        ({ isKey, type, name: own }) => isKey && own !== 'tenant_id' && /text|bytea|int/.test(type),
      )
      const listed = table.columns.map((each) =>
        each === last ? flipped(each.type, `t.${q(each.name)}`) : `t.${q(each.name)}`,
      )
      return `insert into ${name} (${table.columns.map((each) => q(each.name)).join(', ')})
        select ${listed.join(', ')} from ${name} t where ctid = ${at()}`
    },
    delete: () => `delete from ${name} where ctid = ${at()}`,
  }
  try {
    if (kind === 'restore') return await restore(database, table, next)
    if (kind === 'exchange' && others.length === 0) return false
    const done = await database.query<{ n: number }>(
      `with done as (${statements[kind]()} returning 1) select count(*)::int as n from done`,
    )
    return (done[0]?.n ?? 0) > 0
  } catch (error) {
    // A value that the column does not take, or a second row with the same key.
    if (/^2[23]|^42/.test(String((error as { code?: string }).code))) return false
    throw error
  }
}

/** Puts one row back as it was in the attacker's copy. */
async function restore(database: Database, table: Table, next: (below: number) => number): Promise<boolean> {
  const name = q(table.name)
  const old = await database.query<{ at: string }>(
    `select o.ctid::text as at from earlier.${name} o
     where not exists (select from public.${name} t where t::text = o::text) order by 1`,
  )
  const chosen = old[old.length === 0 ? 0 : next(old.length)]
  if (chosen === undefined) return false
  const one = `earlier.${name} o where o.ctid = '${chosen.at}'::tid`
  const names = table.columns.map((each) => q(each.name)).join(', ')
  if (table.key.length > 0)
    await database.query(`delete from public.${name} t using ${one} and ${isKeyed(table, 't', 'o')}`)
  await database.query(`insert into public.${name} (${names}) select ${names} from ${one}`)
  return true
}
