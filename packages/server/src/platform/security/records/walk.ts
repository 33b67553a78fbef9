import type { Db } from '../../db/db.ts'
import { composed } from '../sealed-values.ts'
import { GENERATION } from './enforcement.ts'
import type { RecordKind, RecordRow } from './kind.ts'
import { idOf, OLDER } from './records.ts'

/** Rows that one statement looks at. */
const PORTION = 500

/** Whose records to walk over: a tenant's, or all. */
export interface WalkScope {
  tenantId: string | null
  /** Called before each portion; throws to stop. */
  goOn(): void
}

/** A record that does not verify. */
export interface BadRecord {
  kind: string
  /** Null for the installation's own. */
  tenantId: string | null
  id: string
}

/** The columns by which rows are found: those of the primary key. */
export const keyOf = (kind: RecordKind): readonly string[] =>
  kind.owner === undefined ? ['tenant_id', ...kind.key] : kind.key

/** Whether no row of a kind can be a tenant's. */
const isForeign = (kind: RecordKind, tenantId: string | null) => tenantId !== null && kind.owner === 'none'

const holds = (list: string, set: { now: string; holds?: string }) => set.holds ?? `${list} = ${set.now}`

/** Columns of the select list that say what a kind's lists have to be now, and whether they hold. */
function listColumns(kind: RecordKind): string {
  return Object.entries(kind.sets ?? {})
    .map(([list, set]) => `, ${set.now} as now__${list}, (${holds(list, set)}) as holds__${list}`)
    .join('')
}

/** A row with its lists as they have to be, if it has any. */
export function withLists(kind: RecordKind, row: RecordRow): RecordRow {
  const lists = Object.keys(kind.sets ?? {}).map((list) => [list, row[`now__${list}`]])
  return { ...row, ...Object.fromEntries(lists) }
}

/** The statement's columns that `withLists` and a check need. */
export const walkColumns = (kind: RecordKind): string => `${kind.read.join(', ')}${listColumns(kind)}`

/** Which rows have no MAC and may get one, or a list that does not hold: of what has had them since the given generation of the mark, or earlier. */
const missing = (kind: RecordKind, upTo = GENERATION, imported = false) =>
  [
    ...(imported ? ['mac is null'] : []),
    ...(!imported && (kind.since ?? 1) <= upTo
      ? [`mac is null and (${kind.alwaysSealed?.rows ?? 'false'}) is not true`]
      : []),
    ...Object.entries(kind.sets ?? {}).flatMap(([list, set]) =>
      set.since <= upTo ? [`(${holds(list, set)}) is not true`] : [],
    ),
  ].join(' or ') || 'false'

/** What is wrong with a row's lists that count already. */
async function listFault({ records }: Db, kind: RecordKind, row: RecordRow): Promise<string | undefined> {
  for (const [list, { since }] of Object.entries(kind.sets ?? {}))
    if (row[`holds__${list}`] !== true && (await records.isEnforced(since))) return `its ${list} are others`
  return undefined
}

/** Walks through a kind's rows in the primary key's order, a bounded portion at a time. */
async function* portions(
  db: Db,
  kind: RecordKind,
  { tenantId, goOn }: WalkScope,
  condition: string,
): AsyncGenerator<RecordRow[]> {
  if (isForeign(kind, tenantId)) return
  const key = keyOf(kind)
  const names = key.join(', ')
  const filters = [`(${condition})`, kind.only?.rows ?? 'true']
  for (let after: unknown[] | null = null; ; ) {
    goOn()
    const values: unknown[] = [...(tenantId === null ? [] : [tenantId]), ...(after ?? [])]
    const from = values.length - (after?.length ?? 0)
    const place = key.map((_, at) => `$${from + at + 1}`).join(', ')
    const where = [
      ...filters,
      ...(tenantId === null ? [] : ['tenant_id = $1']),
      ...(after === null ? [] : [`(${names}) > (${place})`]),
    ].join(' and ')
    const rows: RecordRow[] = await db.query<RecordRow>(
      composed(
        `select ${walkColumns(kind)} from ${kind.table} where ${where} order by ${names} limit ${PORTION}`,
        values,
      ),
    )
    yield rows
    if (rows.length < PORTION) return
    after = key.map((column) => rows.at(-1)?.[column])
  }
}

/** How many records of a kind meet a condition on their columns. */
export async function countRecords(
  db: Db,
  kind: RecordKind,
  tenantId: string | null,
  condition = 'true',
): Promise<number> {
  if (isForeign(kind, tenantId)) return 0
  const where = [condition, kind.only?.rows ?? 'true', ...(tenantId === null ? [] : ['tenant_id = $1'])]
  const values = tenantId === null ? [] : [tenantId]
  return db.count(composed(`select count(*) as n from ${kind.table} where ${where.join(' and ')}`, values))
}

/** Checks the records of a kind that meet a condition. Yields, portion by portion, how many it looked at and those that do not verify. */
export async function* verifyRecords(
  db: Db,
  kind: RecordKind,
  scope: WalkScope,
  condition = 'true',
): AsyncGenerator<{ seen: number; bad: BadRecord[] }> {
  let readAt = performance.now()
  for await (const rows of portions(db, kind, scope, condition)) {
    const bad: BadRecord[] = []
    for (const row of rows) {
      const beside = (await listFault(db, kind, row)) ?? (db.records.isOlder(kind, row, readAt) ? OLDER : undefined)
      if (!(await db.records.verifies(kind, row, beside)))
        bad.push({ kind: kind.name, tenantId: (row.tenant_id as string | undefined) ?? null, id: idOf(kind, row) })
    }
    yield { seen: rows.length, bad }
    readAt = performance.now()
  }
}

/** How many records of a kind have no MAC and may get one, or a list that does not hold, of what has had them since a generation of the mark. */
export const countMissing = (db: Db, kind: RecordKind, upTo?: number): Promise<number> =>
  countRecords(db, kind, null, missing(kind, upTo))

/** Whether a kind has rows, and none of them a MAC. */
export async function isUnsealed(db: Db, { table }: RecordKind): Promise<boolean> {
  const row = await db.one<{ unsealed: boolean }>(
    composed(
      `select exists (select from ${table}) and not exists (select from ${table} where mac is not null) as unsealed`,
      [],
    ),
  )
  return row?.unsealed === true
}

const TYPES: Record<string, string> = { hash: 'bytea', mac: 'bytea', was: 'bytea', version: 'integer' }

/** Writes MACs and lists to rows that are still as they were read. @returns how many */
function writeMacs(
  db: Db,
  kind: RecordKind,
  rows: readonly RecordRow[],
  macs: readonly (Buffer | null)[],
): Promise<number> {
  const key = [...keyOf(kind), ...(kind.versioned ? ['version'] : [])]
  const written = ['mac', ...Object.keys(kind.sets ?? {})]
  const names = [...key, ...written, 'was']
  const given: Record<string, (row: RecordRow, at: number) => unknown> = {
    mac: (_, at) => macs[at],
    was: (row) => row.mac,
  }
  const values = names.map((name) => rows.map((row, at) => given[name]?.(row, at) ?? row[name] ?? null))
  const typeOf = (name: string) => kind.sets?.[name]?.type ?? TYPES[name] ?? 'text'
  const from = names.map((name, at) => `$${at + 1}::${typeOf(name)}[]`).join(', ')
  const { table } = kind
  const same = [
    `${table}.mac is not distinct from x.was`,
    ...key.map((name) => `${table}.${name} = x.${name}`),
    ...Object.entries(kind.sets ?? {}).map(([list, { now }]) => `x.${list} = ${now}`),
  ]
  const set = written.map((name) => `${name} = x.${name}`).join(', ')
  return db.run(
    composed(
      `update ${table} set ${set} from unnest(${from}) x (${names.join(', ')}) where ${same.join(' and ')}`,
      values,
    ),
  )
}

/**
 * Gives records their MACs and lists that have none, or old ones: those of a release before them, and imported ones. Beside everything that
 * reads and writes: a row that is changed meanwhile is left for the next round. Yields how many got one.
 * @param imported the rows come from a file that was authenticated, so also those of kinds that never count without a MAC get one
 */
export async function* macMissing(
  db: Db,
  kind: RecordKind,
  scope: WalkScope,
  { imported = false }: { imported?: boolean } = {},
): AsyncGenerator<number> {
  for await (const found of portions(db, kind, scope, missing(kind, GENERATION, imported))) {
    const rows: RecordRow[] = []
    // What has a MAC and an old list gets another MAC only if it verifies.
    for (const row of found)
      if (row.mac === null || (await db.records.verifies(kind, row))) rows.push(withLists(kind, row))
    if (rows.length === 0) continue
    const macs = await Promise.all(rows.map((row) => db.records.mac(kind, row)))
    yield await writeMacs(db, kind, rows, macs)
  }
}
