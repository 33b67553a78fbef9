import type { Opened } from './container.ts'
import { TransferError } from './errors.ts'
import { decompress, type Manifest, readManifest, readRow } from './lines.ts'
import type { Table } from './table.ts'

/** Rows of one table that are staged in one transaction. */
export interface Portion {
  table: Table
  rows: (string | null)[][]
  /** How many rows of the whole file came before them. */
  position: number
}

const PORTION_ROWS = 2_000
const PORTION_CHARS = 1_048_576

/** The first thing in which two lists of tables differ, in words; undefined where they are the same. */
function difference(found: Manifest, tables: readonly Table[]): string | undefined {
  for (const [at, { name, columns }] of found.tables.entries()) {
    const own = tables[at]
    if (own?.name !== name) return `the table ${JSON.stringify(name)}, which does not belong here`
    const text = (list: Table['columns']) => list.map((column) => `${column.name} ${column.type}`)
    const [have, want] = [text(columns), text(own.columns)]
    const strange = have.find((column) => !want.includes(column))
    if (strange !== undefined) return `the column ${JSON.stringify(strange)} in ${name}, which does not belong here`
    if (have.join() !== want.join()) return `${name} without some of its columns`
  }
  return found.tables.length === tables.length ? undefined : `no table ${tables[found.tables.length]?.name}`
}

/** @throws TransferError when its tables are not exactly those that move with a tenant */
function checkManifest(line: string | undefined, tables: readonly Table[]): Manifest {
  const manifest = readManifest(line)
  const wrong = difference(manifest, tables)
  if (wrong !== undefined) throw new TransferError(`The export holds ${wrong}. Nothing was imported.`)
  if (manifest.tables.find(({ name }) => name === 'tenants')?.rows !== 1)
    throw new TransferError('The export does not hold exactly one tenant. Nothing was imported.')
  return manifest
}

/**
 * The rows of an export from a position on, a bounded number at a time. What comes before is read and checked to be the
 * file's, not looked into.
 * @param begun told once how many rows of each table there are
 * @throws TransferError
 */
export async function* readPortions(
  opened: Opened,
  tables: readonly Table[],
  from: number,
  begun: (manifest: Manifest) => void,
): AsyncGenerator<Portion> {
  let manifest: Manifest | undefined
  let at = 0
  let ofTable = 0
  let position = 0
  let rows: Portion['rows'] = []
  let chars = 0
  const take = (): Portion[] => {
    const taken = rows.length === 0 ? [] : [{ table: tables[at] as Table, rows, position: position - rows.length }]
    rows = []
    chars = 0
    return taken
  }
  for await (const lines of decompress(opened.content())) {
    for (const line of lines) {
      if (manifest === undefined) {
        manifest = checkManifest(line, tables)
        begun(manifest)
        continue
      }
      while (at < tables.length && ofTable === manifest.tables[at]?.rows) {
        yield* take()
        at += 1
        ofTable = 0
      }
      const table = tables[at]
      if (table === undefined) throw new TransferError('The export holds more rows than it says. Nothing was imported.')
      if (position >= from) rows.push(readRow(line, table))
      ofTable += 1
      position += 1
      chars += line.length
      if (rows.length >= PORTION_ROWS || chars >= PORTION_CHARS) yield* take()
    }
  }
  yield* take()
  const total = manifest?.tables.reduce((sum, table) => sum + table.rows, 0)
  if (position !== total) throw new TransferError('The export holds fewer rows than it says. Nothing was imported.')
}
