import { randomUUID } from 'node:crypto'
import { type FileHandle, open, rename, rm, stat } from 'node:fs/promises'
import type { Db } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import type { KeyProvider } from '../../platform/security/key-provider.ts'
import { VERSION } from '../../platform/version.ts'
import { copiedTables, schemaOf } from './catalogue-store.ts'
import { withConnection } from './connection.ts'
import { writeContainer } from './container.ts'
import { TransferError } from './errors.ts'
import { handOver, openTransferKey } from './keys.ts'
import { compress, type Manifest } from './lines.ts'
import { beginSnapshot, countRows, isSealed, keepWrappingKey, type ReadRow, readRows } from './rows-store.ts'
import type { Table } from './table.ts'

/** How far long work has got. */
export interface Progress {
  begin(what: string, total?: number | null): void
  add(count: number): void
  end(): void
}

/** What to export, and where to. */
export interface ExportOptions {
  tenantId: string
  /** The file, which must not be there yet. */
  out: string
  /** The file with the transfer key. */
  keyFile: string
  progress: Progress
}

/** What was exported. */
export interface Exported {
  exportId: string
  tenantId: string
  rows: number
  bytes: number
  /** By table. */
  tables: Record<string, number>
}

/** A disk may stand still for so long before the database gives the snapshot up. */
const IDLE_MS = 120_000

/** A row with its sealed values handed over to the transfer key, as a line. */
async function toLine(read: ReadRow, places: readonly number[], convert: (sealed: Buffer) => Promise<Buffer>) {
  const values = JSON.parse(read.row) as (string | null)[]
  for (const [nth, place] of places.entries()) {
    const sealed = read.sealed[nth] ?? null
    if (sealed !== null) values[place] = `\\x${(await convert(sealed)).toString('hex')}`
  }
  return JSON.stringify(values)
}

async function* writeText(
  tx: Db,
  { tenantId, progress }: ExportOptions,
  manifest: Manifest,
  tables: readonly Table[],
  convert: (sealed: Buffer) => Promise<Buffer>,
): AsyncGenerator<string> {
  yield `${JSON.stringify(manifest)}\n`
  for (const table of tables) {
    const places = table.columns.flatMap((column, at) => (isSealed(column) ? [at] : []))
    for await (const batch of readRows(tx, table, tenantId)) {
      const lines = places.length === 0 ? batch : await Promise.all(batch.map((row) => toLine(row, places, convert)))
      yield `${lines.map((line) => (typeof line === 'string' ? line : line.row)).join('\n')}\n`
      progress.add(batch.length)
    }
  }
}

async function count(tx: Db, tables: readonly Table[], tenantId: string): Promise<Manifest> {
  const counted: Manifest['tables'] = []
  for (const { name, columns } of tables) counted.push({ name, columns, rows: await countRows(tx, name, tenantId) })
  return { tables: counted }
}

async function writeAll(file: FileHandle, parts: AsyncIterable<Buffer>): Promise<number> {
  let bytes = 0
  for await (const part of parts) {
    await file.writeFile(part)
    bytes += part.length
  }
  await file.sync()
  return bytes
}

async function exportInto(
  db: Db,
  file: FileHandle,
  options: ExportOptions,
  keys: { own: KeyProvider; transfer: KeyProvider },
  createdAt: Date,
): Promise<Exported> {
  const { tenantId, progress } = options
  let begun = false
  return db.tx(async (tx) => {
    // A transaction that is run once more would write behind what it has written.
    if (begun) throw new TransferError('The database has ended the export. Run it again.')
    begun = true
    await beginSnapshot(tx, IDLE_MS)
    if (!(await keepWrappingKey(tx)))
      throw new TransferError('The key-encryption key is being rotated just now. Run this again once that has ended.')
    const schema = await schemaOf(tx)
    const tables = await copiedTables(tx)
    progress.begin('Counting')
    const manifest = await count(tx, tables, tenantId)
    const counts = Object.fromEntries(manifest.tables.map(({ name, rows }) => [name, rows]))
    if (counts.tenants !== 1) throw new TransferError(`There is no tenant ${tenantId}.`)
    const rows = manifest.tables.reduce((sum, table) => sum + table.rows, 0)
    progress.begin('Exporting rows', rows)
    const exportId = randomUUID().replaceAll('-', '')
    const text = writeText(tx, options, manifest, tables, handOver(keys.own, keys.transfer))
    const about = { exportId, tenantId, halfkey: VERSION, schema, createdAt: createdAt.toISOString() }
    const bytes = await writeAll(file, writeContainer(keys.transfer, about, compress(text)))
    return { exportId, tenantId, rows, bytes, tables: counts }
  })
}

/**
 * Writes everything of a tenant, as it is at one moment, into an encrypted file of mode 0600, while the service runs. The
 * file has its name only once it is whole.
 * @throws TransferError, KeyFileError
 */
export async function exportTenant(deps: Deps, options: ExportOptions): Promise<Exported> {
  const transfer = await openTransferKey(options.keyFile, deps.keys)
  const part = `${options.out}.part`
  if ((await stat(options.out).catch(() => null)) !== null)
    throw new TransferError(`${options.out} is there already. Name another file, or take that one away.`)
  const file = await open(part, 'wx', 0o600).catch((error: NodeJS.ErrnoException) => {
    // Two that write one file would give it the name before it is whole.
    if (error.code === 'EEXIST')
      throw new TransferError(`${part} is there: an export is at work, or one was ended. If none is, delete it.`)
    throw new TransferError(`${part} cannot be written: ${error.message}`)
  })
  try {
    const keys = { own: deps.keys, transfer }
    const done = await withConnection(deps, 'halfkey export', (db) => exportInto(db, file, options, keys, deps.now()))
    await file.close()
    await rename(part, options.out)
    return done
  } catch (error) {
    await file.close().catch(() => {})
    await rm(part, { force: true })
    throw error
  } finally {
    options.progress.end()
  }
}
