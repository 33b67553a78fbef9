import { randomUUID } from 'node:crypto'
import type { FileHandle } from 'node:fs/promises'
import { beginSnapshot, type Db } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import { writeWhole } from '../../platform/files.ts'
import type { KeyProvider } from '../../platform/security/key-provider.ts'
import { verifyRecords } from '../../platform/security/records/walk.ts'
import { VERSION } from '../../platform/version.ts'
import type { Progress } from '../cli/progress.ts'
import { copiedTables, schemaOf } from './catalogue-store.ts'
import { withConnection } from './connection.ts'
import { writeContainer } from './container.ts'
import { TransferError } from './errors.ts'
import { isSealed, openTransferKey, rewrapRows } from './keys.ts'
import { compress, countsOf, type Manifest, totalOf } from './lines.ts'
import { countRows, exactTexts, keepWrappingKey, readRows } from './rows-store.ts'
import type { Row, Table } from './tables.ts'

const BAD_SHOWN_MAX = 5

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

/** One export at work. */
interface Run {
  deps: Deps
  transfer: KeyProvider
  options: ExportOptions
}

async function* writeText(tx: Db, run: Run, manifest: Manifest, tables: readonly Table[]): AsyncGenerator<string> {
  const { deps, transfer, options } = run
  yield `${JSON.stringify(manifest)}\n`
  for (const table of tables) {
    const isRewrapped = table.columns.some(isSealed)
    for await (const lines of readRows(tx, table, options.tenantId)) {
      const rewrap = async () => {
        const rows = lines.map((line): Row => JSON.parse(line))
        return (await rewrapRows(table, rows, deps.keys, transfer)).map((row) => JSON.stringify(row))
      }
      yield `${(isRewrapped ? await rewrap() : lines).join('\n')}\n`
      options.progress.add(lines.length)
    }
  }
}

/** An export is believed where it is imported. @throws TransferError naming the first records that do not verify */
async function requireVerified(tx: Db, { deps, options: { tenantId, progress } }: Run): Promise<void> {
  progress.begin('Verifying records')
  for (const kind of deps.recordKinds)
    for await (const { bad } of verifyRecords(tx, kind, { tenantId, goOn: () => {} })) {
      const shown = bad.slice(0, BAD_SHOWN_MAX).map(({ kind: name, id }) => `\n  ${name} ${id}`)
      if (bad.length > 0)
        throw new TransferError(
          `Something other than Halfkey changed records of the tenant:${shown.join('')}\nNothing was exported. See: halfkey records verify`,
        )
    }
}

async function exportInto(db: Db, file: FileHandle, run: Run): Promise<Exported> {
  const { tenantId, progress } = run.options
  let begun = false
  return db.tx(async (tx) => {
    // A retry of the transaction would append to the rows already written.
    if (begun) throw new TransferError('The database ended the export. Run it again.')
    begun = true
    await beginSnapshot(tx)
    await exactTexts(tx)
    await keepWrappingKey(tx)
    const { schema } = await schemaOf(tx)
    const tables = await copiedTables(tx)
    await requireVerified(tx, run)
    progress.begin('Counting')
    const counts = await countRows(tx, tables, tenantId)
    const manifest = { tables: tables.map(({ name, columns }, at) => ({ name, columns, rows: counts[at] ?? 0 })) }
    if (countsOf(manifest).tenants !== 1) throw new TransferError(`There is no tenant ${tenantId}.`)
    const rows = totalOf(manifest)
    progress.begin('Exporting rows', rows)
    const exportId = randomUUID().replaceAll('-', '')
    const about = { exportId, tenantId, halfkey: VERSION, schema, createdAt: run.deps.now().toISOString() }
    await file.writeFile(writeContainer(run.transfer, about, compress(writeText(tx, run, manifest, tables))))
    const { size: bytes } = await file.stat()
    return { exportId, tenantId, rows, bytes, tables: countsOf(manifest) }
  })
}

/**
 * Writes everything of a tenant, as it is at one moment, to an encrypted file of mode 0600, while the service runs. The
 * file gets its name once it is complete.
 * @throws TransferError, FileError, KeyFileError
 */
export async function exportTenant(deps: Deps, options: ExportOptions): Promise<Exported> {
  const transfer = await openTransferKey(options.keyFile, deps.keys)
  try {
    return await writeWhole(options.out, (file) =>
      withConnection(deps, 'halfkey export', (db) => exportInto(db, file, { deps, transfer, options })),
    )
  } finally {
    options.progress.end()
  }
}
