import { randomUUID } from 'node:crypto'
import { type FileHandle, open, rename, rm, stat } from 'node:fs/promises'
import { pipeline } from 'node:stream/promises'
import type { Db } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import type { KeyProvider } from '../../platform/security/key-provider.ts'
import { VERSION } from '../../platform/version.ts'
import type { Progress } from '../cli/progress.ts'
import { copiedTables, schemaOf } from './catalogue-store.ts'
import { withConnection } from './connection.ts'
import { writeContainer } from './container.ts'
import { TransferError } from './errors.ts'
import { isSealed, openTransferKey, rewrapRows } from './keys.ts'
import { compress, countsOf, type Manifest, totalOf } from './lines.ts'
import { beginSnapshot, countRows, keepWrappingKey, readRows } from './rows-store.ts'
import type { Table } from './tables.ts'

/** What to export, and where to. */
export interface ExportOptions {
  tenantId: string
  /** The file, which must not be there yet. */
  out: string
  /** The file with the transfer key. */
  keyFile: string
  progress: Progress
}

/** What was exported or imported. */
export interface Moved {
  exportId: string
  tenantId: string
  rows: number
  /** Rows by table. */
  tables: Record<string, number>
}

/** What was exported, and the size of the file. */
export type Exported = Moved & { bytes: number }

/** The keys before and after rewrapping. */
interface Keys {
  own: KeyProvider
  transfer: KeyProvider
}

async function* writeText(
  tx: Db,
  { tenantId, progress }: ExportOptions,
  manifest: Manifest,
  tables: readonly Table[],
  { own, transfer }: Keys,
): AsyncGenerator<string> {
  yield `${JSON.stringify(manifest)}\n`
  for (const table of tables) {
    for await (const lines of readRows(tx, table, tenantId)) {
      const rewrapped = table.columns.some(isSealed)
        ? await rewrapRows(
            table,
            lines.map((line) => JSON.parse(line)),
            own,
            transfer,
          )
        : null
      yield `${(rewrapped?.map((row) => JSON.stringify(row)) ?? lines).join('\n')}\n`
      progress.add(lines.length)
    }
  }
}

async function exportInto(
  db: Db,
  file: FileHandle,
  options: ExportOptions,
  keys: Keys,
  createdAt: Date,
): Promise<Exported> {
  const { tenantId, progress } = options
  let begun = false
  return db.tx(async (tx) => {
    // A retry of the transaction would append to the rows already written.
    if (begun) throw new TransferError('The database has ended the export. Run it again.')
    begun = true
    await beginSnapshot(tx)
    if (!(await keepWrappingKey(tx)))
      throw new TransferError('The key-encryption key is being rotated just now. Run this again once that has ended.')
    const { schema } = await schemaOf(tx)
    const tables = await copiedTables(tx)
    progress.begin('Counting')
    const counts = await countRows(tx, tables, tenantId)
    const manifest = { tables: tables.map(({ name, columns }, at) => ({ name, columns, rows: counts[at] ?? 0 })) }
    if (countsOf(manifest).tenants !== 1) throw new TransferError(`There is no tenant ${tenantId}.`)
    const rows = totalOf(manifest)
    progress.begin('Exporting rows', rows)
    const exportId = randomUUID().replaceAll('-', '')
    const about = { exportId, tenantId, halfkey: VERSION, schema, createdAt: createdAt.toISOString() }
    const text = compress(writeText(tx, options, manifest, tables, keys))
    const stream = file.createWriteStream({ flush: true })
    await pipeline(writeContainer(keys.transfer, about, text), stream)
    return { exportId, tenantId, rows, bytes: stream.bytesWritten, tables: countsOf(manifest) }
  })
}

/**
 * Writes everything of a tenant, as it is at one moment, to an encrypted file of mode 0600, while the service runs. The
 * file gets its name once it is complete.
 * @throws TransferError, KeyFileError
 */
export async function exportTenant(deps: Deps, options: ExportOptions): Promise<Exported> {
  const transfer = await openTransferKey(options.keyFile, deps.keys)
  const part = `${options.out}.part`
  if ((await stat(options.out).catch(() => null)) !== null)
    throw new TransferError(`${options.out} is there already. Name another file, or take that one away.`)
  const file = await open(part, 'wx', 0o600).catch((error: NodeJS.ErrnoException) => {
    // Of two exports to one file, the first to end would name an incomplete file.
    if (error.code === 'EEXIST')
      throw new TransferError(`${part} is there: an export is at work, or one was ended. If none is, delete it.`)
    throw new TransferError(`${part} cannot be written: ${error.message}`)
  })
  try {
    const keys = { own: deps.keys, transfer }
    const done = await withConnection(deps, 'halfkey export', (db) => exportInto(db, file, options, keys, deps.now()))
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
