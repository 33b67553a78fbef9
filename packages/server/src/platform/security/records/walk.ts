import type { Db } from '../../db/db.ts'
import { composed } from '../sealed-values.ts'
import type { RecordKind, RecordRow } from './kind.ts'
import { idOf } from './records.ts'

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
const keyOf = (kind: RecordKind) => (kind.owner === undefined ? ['tenant_id', ...kind.key] : kind.key)

/** Whether no row of a kind can be a tenant's. */
const isForeign = (kind: RecordKind, tenantId: string | null) => tenantId !== null && kind.owner === 'none'

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
    const columns = [...new Set(kind.read)].join(', ')
    const rows: RecordRow[] = await db.query<RecordRow>(
      composed(`select ${columns} from ${kind.table} where ${where} order by ${names} limit ${PORTION}`, values),
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
  for await (const rows of portions(db, kind, scope, condition)) {
    const bad: BadRecord[] = []
    for (const row of rows)
      if (!(await db.records.verifies(kind, row)))
        bad.push({ kind: kind.name, tenantId: (row.tenant_id as string | undefined) ?? null, id: idOf(kind, row) })
    yield { seen: rows.length, bad }
  }
}

const TYPES: Record<string, string> = { tenant_id: 'text', id: 'text', hash: 'bytea' }

/** Writes MACs to rows that are still as they were read. @returns how many */
function writeMacs(
  db: Db,
  kind: RecordKind,
  rows: readonly RecordRow[],
  macs: readonly (Buffer | null)[],
): Promise<number> {
  const key = keyOf(kind)
  const columns = [...key.map((name) => ({ name, type: TYPES[name] ?? 'text' })), { name: 'mac', type: 'bytea' }]
  const versioned = kind.versioned ? [{ name: 'version', type: 'integer' }] : []
  const all = [...columns, ...versioned]
  const values = all.map(({ name }) => (name === 'mac' ? macs : rows.map((row) => row[name])))
  const from = all.map(({ type }, at) => `$${at + 1}::${type}[]`).join(', ')
  const same = [...key, ...versioned.map(({ name }) => name)].map((name) => `t.${name} = x.${name}`).join(' and ')
  return db.run(
    composed(
      `update ${kind.table} t set mac = x.mac from unnest(${from}) x (${all.map(({ name }) => name).join(', ')})
      where t.mac is null and ${same}`,
      values,
    ),
  )
}

/**
 * Gives records their MACs that have none: those of a release before MACs, and imported ones. Beside everything that reads
 * and writes: a row that is changed meanwhile is left for the next round. Yields how many got one.
 */
export async function* macMissing(db: Db, kind: RecordKind, scope: WalkScope): AsyncGenerator<number> {
  for await (const rows of portions(db, kind, scope, 'mac is null')) {
    if (rows.length === 0) continue
    const macs = await Promise.all(rows.map((row) => db.records.mac(kind, row)))
    yield await writeMacs(db, kind, rows, macs)
  }
}
