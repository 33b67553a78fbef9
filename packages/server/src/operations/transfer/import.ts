import { randomBytes } from 'node:crypto'
import { type Db, violatedConstraint } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import { rewrapAll } from '../../platform/security/sealed-values.ts'
import { copiedTables, schemaOf } from './catalogue-store.ts'
import { findBroken, findSharedElsewhere, findStrangeLedgers } from './checks-store.ts'
import { withConnection } from './connection.ts'
import { type Opened, openContainer } from './container.ts'
import { type Portion, readPortions } from './content.ts'
import { TransferError } from './errors.ts'
import type { Progress } from './export.ts'
import * as store from './imports-store.ts'
import { handOver, openTransferKey } from './keys.ts'
import { asyncCommit, exactTexts, isSealed, keepWrappingKey, patience } from './rows-store.ts'
import * as staging from './staging-store.ts'
import type { Table } from './table.ts'

/** What to import. */
export interface ImportOptions {
  file: string
  /** The file with the transfer key. */
  keyFile: string
  /** Checks everything and writes nothing. */
  dryRun: boolean
  progress: Progress
  /** Called before each step; throws to stop. */
  goOn(): void
}

/** What was imported. */
export interface Imported {
  exportId: string
  tenantId: string
  rows: number
  /** How many rows an earlier run had staged. */
  resumedAt: number
  dryRun: boolean
  /** By table. */
  tables: Record<string, number>
}

/** Reading the file on may take so long between two statements. */
const IDLE_MS = 120_000
const GO_LIVE_TRIES = 3
const PROBE_AAD = Buffer.from('halfkey/v1/which-key-wraps')

/** One import at work. */
interface Run {
  deps: Deps
  db: Db
  opened: Opened
  tables: Table[]
  convert: (sealed: Buffer) => Promise<Buffer>
  options: ImportOptions
}

/** @throws TransferError unless the export fits this installation */
async function checkFits(db: Db, { header }: Opened): Promise<void> {
  const own = await schemaOf(db)
  if (own.digest !== header.schema.digest) {
    const how =
      header.schema.last > own.last
        ? `a newer schema (${header.schema.last}, of Halfkey ${header.halfkey}) than this database (${own.last}). Upgrade this installation first.`
        : `another schema (${header.schema.last}, of Halfkey ${header.halfkey}) than this database (${own.last}). Upgrade the old installation to this release, and export again.`
    throw new TransferError(`The export has ${how}`)
  }
}

/** @throws TransferError when the tenant, or another import of it, is here */
async function checkIsNew(db: Db, { header, digest }: Opened): Promise<store.ImportRow | undefined> {
  const begun = await store.findImport(db, header.exportId)
  if (begun?.finished_at != null)
    throw new TransferError(
      `This export was imported already, at ${begun.finished_at.toISOString()}: the tenant ${header.tenantId} is live here.`,
    )
  if (await store.hasTenant(db, header.tenantId))
    throw new TransferError(
      `The tenant ${header.tenantId} is in this installation already. An export is imported into another one, once.`,
    )
  const other = await store.findOpenImport(db, header.tenantId)
  if (other !== undefined && other.id !== header.exportId)
    throw new TransferError(
      `Another export of the tenant, ${other.id}, was imported half-way. Go on with that one, or run: halfkey import --discard ${other.id}`,
    )
  if (begun !== undefined && begun.state.file !== digest)
    throw new TransferError(`An import of another file with the id ${begun.id} was begun. Nothing was imported.`)
  return begun
}

/** Values that the database does not take are the file's fault. */
function blameFile(error: unknown, where: string): never {
  const code = error instanceof Error ? String((error as { code?: unknown }).code) : ''
  if (!/^2[23]/.test(code)) throw error
  const constraint = violatedConstraint(error)
  const what = constraint === undefined ? (error as Error).message : `it violates ${constraint}`
  throw new TransferError(`The export holds what cannot stand ${where}: ${what}. The tenant is not live.`, {
    cause: error,
  })
}

/** @throws TransferError unless each is what is sent of an event: who erases users takes it apart, of all tenants together */
function checkBodies({ table, rows }: Portion): void {
  const place = table.columns.findIndex(({ name }) => name === 'body')
  for (const row of rows) {
    let body: { data?: unknown } | null
    try {
      body = JSON.parse(row[place] ?? '')
    } catch {
      body = null
    }
    if (typeof body?.data !== 'object' || body.data === null)
      throw new TransferError('The export holds an event whose body is none. The tenant is not live.')
  }
}

/** The rows with their sealed values handed over to this installation's key. */
async function adopt(portion: Portion, convert: Run['convert']): Promise<Portion['rows']> {
  const { table, rows } = portion
  if (table.name === 'events') checkBodies(portion)
  const places = table.columns.flatMap((column, at) => (isSealed(column) ? [at] : []))
  if (places.length === 0) return rows
  const adopted = async (row: (string | null)[]) => {
    const copy = [...row]
    for (const place of places) {
      const value = copy[place] ?? null
      if (value === null) continue
      const sealed = Buffer.from(value.slice(2), 'hex')
      copy[place] = await convert(sealed).then(
        (fresh) => `\\x${fresh.toString('hex')}`,
        (error: Error) => {
          throw new TransferError(`The export holds a sealed value in ${table.name} that its key does not open.`, {
            cause: error,
          })
        },
      )
    }
    return copy
  }
  return Promise.all(rows.map(adopted))
}

/** Stages all rows from a position on, each portion in a transaction with its position. Answers how many of each table. */
async function stageAll(run: Run, id: string, from: number, dryRun: boolean): Promise<Record<string, number>> {
  const { db, opened, tables, options } = run
  const { tenantId } = opened.header
  let counts: Record<string, number> = {}
  const portions = readPortions(opened, tables, from, (manifest) => {
    counts = Object.fromEntries(manifest.tables.map(({ name, rows }) => [name, rows]))
    options.progress.begin(
      dryRun ? 'Checking rows' : 'Staging rows',
      Object.values(counts).reduce((sum, n) => sum + n, 0),
    )
    options.progress.add(from)
  })
  for await (const portion of portions) {
    options.goOn()
    const rows = await adopt(portion, run.convert)
    await db
      .tx(async (tx) => {
        await exactTexts(tx)
        await asyncCommit(tx)
        await staging.stageRows(tx, id, tenantId, portion.table, rows)
        if (dryRun) return
        if (!(await store.advanceImport(tx, id, portion.position, portion.position + rows.length)))
          throw new TransferError('Another process is at the same import. Wait for its end, and run this again.')
      })
      .catch((error: unknown) => blameFile(error, `in ${portion.table.name}`))
    options.progress.add(rows.length)
    await run.deps.failpoint('import portion staged')
  }
  return counts
}

/** @throws TransferError naming what cannot go live here, or is another tenant's already */
async function checkStaged({ db, deps, tables, options }: Run, id: string): Promise<void> {
  const refuse = (why: string, found: readonly string[], way: string) => {
    if (found.length === 0) return
    const rest = options.dryRun
      ? 'Nothing was written.'
      : `The tenant is not live. ${way}give up with: halfkey import --discard ${id}`
    throw new TransferError(`The export holds ${why}:${found.map((one) => `\n  ${one}`).join('')}\n${rest}`)
  }
  options.progress.begin('Looking for clashes')
  refuse('what no service writes', await findBroken(db, id, tables), 'Export again, and ')
  const ledgers = await findStrangeLedgers(db, id, [...deps.ledgers.keys()])
  refuse('wallets on ledgers that are not configured here', ledgers, 'Configure them and run this again, or ')
  const clashes = await staging.findClashes(db, id)
  clashes.push(...(await findSharedElsewhere(db, id)).map((wallet) => `wallets (public_key): ${wallet}`))
  refuse('what is here already', clashes, 'Make room and run this again, or ')
}

/** Wraps anew what was staged under a key that has been rotated since. */
async function renewStaged({ db, deps, options }: Run, id: string): Promise<void> {
  // Wrapping notices a changed key file.
  const { keyId } = await deps.keys.wrap(randomBytes(32), PROBE_AAD)
  const stale = await staging.staleStaging(db, id, keyId)
  await staging.addKeys(db, stale)
  for await (const { lost } of rewrapAll(db, deps.keys, stale, options.goOn)) {
    if (lost[0] !== undefined)
      throw new TransferError(
        `${lost[0].where}: ${lost[0].reason}\nThe tenant is not live. Put the key back, or run: halfkey import --discard ${id}`,
      )
  }
}

/** The one transaction before which there is nothing of the tenant here, and after which there is everything. */
async function goLive(run: Run, id: string): Promise<void> {
  const { db, deps, tables, options } = run
  await staging.passOffsets(db, id)
  for (let attempt = 1; ; attempt += 1) {
    await renewStaged(run, id)
    options.progress.begin('Making the tenant live')
    options.goOn()
    const done = await db
      .tx(async (tx) => {
        await patience(tx, IDLE_MS)
        if (!(await keepWrappingKey(tx)))
          throw new TransferError(
            'The key-encryption key is being rotated just now. Run this again once that has ended.',
          )
        if ((await staging.staleStaging(tx, id, deps.keys.keyId)).length > 0) return false
        await staging.publishStaging(tx, id, tables)
        await staging.dropStaging(tx, id)
        await store.finishImport(tx, id, deps.now())
        // A migration that was applied meanwhile did not see these rows.
        await checkFits(tx, run.opened)
        return true
      })
      .catch((error: unknown) => blameFile(error, 'among the rows that it refers to'))
    if (done) return
    if (attempt === GO_LIVE_TRIES) throw new TransferError('The key-encryption key keeps changing. Run this again.')
  }
}

class Undone extends Error {}

/** Everything but the last step, in a transaction that is rolled back. */
async function tryOut(run: Run): Promise<Record<string, number>> {
  let counts: Record<string, number> = {}
  const id = `${run.opened.header.exportId}_dry`
  const body = async (tx: Db) => {
    await patience(tx, IDLE_MS)
    await staging.createStaging(tx, id, run.tables)
    counts = await stageAll({ ...run, db: tx }, id, 0, true)
    await checkStaged({ ...run, db: tx }, id)
    throw new Undone()
  }
  await run.db.tx(body).catch((error: unknown) => {
    if (!(error instanceof Undone)) throw error
  })
  return counts
}

async function carryOut(run: Run): Promise<Imported> {
  const { db, deps, opened, options } = run
  const { exportId, tenantId } = opened.header
  await checkFits(db, opened)
  const begun = await checkIsNew(db, opened)
  const told = (tables: Record<string, number>, resumedAt: number): Imported => {
    const rows = Object.values(tables).reduce((sum, n) => sum + n, 0)
    return { exportId, tenantId, rows, resumedAt, dryRun: options.dryRun, tables }
  }
  if (options.dryRun) return told(await tryOut(run), 0)
  if (begun === undefined) {
    await db.tx(async (tx) => {
      await store.insertImport(tx, { id: exportId, tenantId, file: opened.digest, now: deps.now() })
      await staging.createStaging(tx, exportId, run.tables)
    })
  }
  const from = begun?.position ?? 0
  const tables = await stageAll(run, exportId, from, false)
  await checkStaged(run, exportId)
  await goLive(run, exportId)
  deps.auth.forget()
  deps.wake.outbox()
  deps.wake.due()
  return told(tables, from)
}

/**
 * Brings an exported tenant into this installation. Rows are staged where nothing looks, a portion a transaction; ended at
 * any point, the next run goes on. The tenant goes live in one transaction at the end. One import at a time.
 * @throws TransferError, KeyFileError
 */
export async function importTenant(deps: Deps, options: ImportOptions): Promise<Imported> {
  const transfer = await openTransferKey(options.keyFile, deps.keys)
  const opened = await openContainer(options.file, transfer)
  try {
    return await withConnection(deps, 'halfkey import', async (db) => {
      const tables = await copiedTables(db)
      return carryOut({ deps, db, opened, tables, convert: handOver(transfer, deps.keys), options })
    })
  } finally {
    options.progress.end()
  }
}

/** Takes away what an import that did not end has staged. @throws TransferError when there is none, or it has ended */
export async function discardImport(deps: Deps, exportId: string): Promise<{ exportId: string; tenantId: string }> {
  return withConnection(deps, 'halfkey import', async (db) => {
    const begun = await store.findImport(db, exportId)
    if (begun === undefined) throw new TransferError(`There is no import of the export ${exportId} here.`)
    if (begun.finished_at !== null)
      throw new TransferError(`The import of ${exportId} has ended: the tenant ${begun.tenant_id} is live.`)
    await db.tx(async (tx) => {
      await staging.dropStaging(tx, exportId)
      await store.deleteImport(tx, exportId)
    })
    return { exportId, tenantId: begun.tenant_id }
  })
}
