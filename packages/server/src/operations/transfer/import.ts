import { randomBytes } from 'node:crypto'
import { allowIdle, type Db, violatedConstraint } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import type { KeyProvider } from '../../platform/security/key-provider.ts'
import { macMissing } from '../../platform/security/records/walk.ts'
import { rewrapAll } from '../../platform/security/sealed-values.ts'
import { isTenant } from '../../tenancy/tenant/service.ts'
import { resealShares } from '../../wallets/custody/service.ts'
import type { Progress } from '../cli/progress.ts'
import { copiedTables, schemaOf } from './catalogue-store.ts'
import { findBroken, findSharedElsewhere, findUnknownLedgers } from './checks-store.ts'
import { withConnection } from './connection.ts'
import { type Opened, openContainer } from './container.ts'
import { parseJson, TransferError } from './errors.ts'
import type { Moved } from './export.ts'
import { isSealed, openTransferKey, rewrapRows } from './keys.ts'
import { countsOf, type Portion, readPortions, totalOf } from './lines.ts'
import { keepWrappingKey } from './rows-store.ts'
import * as store from './staging-store.ts'
import type { Row, Table } from './tables.ts'

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
export interface Imported extends Moved {
  /** How many rows an earlier run had staged. */
  resumedAt: number
  dryRun: boolean
}

/** A migration changed this database's tables after the import began. */
const migrated = (id: string) =>
  new TransferError(
    `The schema of this database has changed since the import began. Run: halfkey import --discard ${id}, then import again.`,
  )

const PROBE_AAD = Buffer.from('halfkey/v1/which-key-wraps')

/** One import at work. */
interface Run {
  deps: Deps
  db: Db
  opened: Opened
  tables: Table[]
  transfer: KeyProvider
  options: ImportOptions
  /** The digest of this database's schema when the import began. */
  schema: string
}

/**
 * @returns the digest of this database's schema
 * @throws TransferError unless the export has this schema or one that this database had before: whether its tables are
 * still those of today, the manifest says
 */
async function checkSchema(db: Db, { header: { schema, halfkey } }: Opened): Promise<string> {
  const { schema: own, earlier } = await schemaOf(db)
  if (own.digest === schema.digest || earlier.includes(schema.digest)) return own.digest
  const isNewer = schema.last > own.last
  const way = isNewer
    ? 'Upgrade this installation first.'
    : 'Upgrade the old installation to this release, and export again.'
  throw new TransferError(
    `The export has ${isNewer ? 'a newer' : 'a different'} schema (${schema.last}, of Halfkey ${halfkey}) than this database (${own.last}). ${way}`,
  )
}

/** The import that this one resumes, if any. @throws TransferError when the tenant, or another import of it, is here */
async function findBegun({ db, opened: { header, digest }, schema }: Run): Promise<store.ImportRow | undefined> {
  const { exportId, tenantId } = header
  const begun = await store.findImport(db, exportId, tenantId)
  if (begun?.finished_at != null)
    throw new TransferError(
      `This export was already imported, at ${begun.finished_at.toISOString()}. The tenant ${tenantId} is live here.`,
    )
  if (await isTenant(db, tenantId))
    throw new TransferError(
      `The tenant ${tenantId} already exists in this installation. Import the export into another installation, once.`,
    )
  if (begun !== undefined && begun.id !== exportId)
    throw new TransferError(
      `The import of another export of the tenant, ${begun.id}, is not finished. Resume it, or run: halfkey import --discard ${begun.id}`,
    )
  if (begun !== undefined && begun.state.file !== digest)
    throw new TransferError(
      `An import of a different file with the same id ${begun.id} has begun. Nothing was imported.`,
    )
  if (begun !== undefined && begun.state.schema !== schema) throw migrated(begun.id)
  return begun
}

/** Reports values that the database refuses as an error of the file. */
function blameFile(error: unknown, where: string): never {
  const code = error instanceof Error ? String((error as { code?: unknown }).code) : ''
  if (!/^2[23]/.test(code)) throw error
  const constraint = violatedConstraint(error)
  const what = constraint === undefined ? (error as Error).message : `it violates ${constraint}`
  throw new TransferError(`The export contains invalid data ${where}: ${what}. The tenant is not live.`, {
    cause: error,
  })
}

/** @throws TransferError unless each has the body of an event: erasing users parses them, for all tenants together */
function checkBodies({ table, rows }: Portion): void {
  const place = table.columns.findIndex(({ name }) => name === 'body')
  for (const row of rows) {
    const body = parseJson(row[place] ?? '') as { data?: unknown } | null | undefined
    if (typeof body?.data !== 'object' || body.data === null)
      throw new TransferError('The export contains an event with an invalid body. The tenant is not live.')
  }
}

/** The rows with sealed values under this installation's key. */
async function adopt({ deps, transfer }: Run, portion: Portion): Promise<Row[]> {
  const { table, rows } = portion
  if (table.name === 'events') checkBodies(portion)
  if (!table.columns.some(isSealed)) return rows
  return rewrapRows(table, rows, transfer, deps.keys).catch((cause: unknown) => {
    throw new TransferError(`The export contains a sealed value in ${table.name} that its key does not open.`, {
      cause,
    })
  })
}

/** Stages all rows from a position on, each portion in a transaction with the new position. @returns counts by table */
async function stageAll(run: Run, id: string, from: number): Promise<Record<string, number>> {
  const { db, opened, tables, options } = run
  const { tenantId } = opened.header
  let counts: Record<string, number> = {}
  const portions = readPortions(opened, tables, from, (manifest) => {
    counts = countsOf(manifest)
    options.progress.begin(options.dryRun ? 'Checking rows' : 'Staging rows', totalOf(manifest))
    options.progress.add(from)
  })
  for await (const portion of portions) {
    options.goOn()
    const { table, position } = portion
    const rows = await adopt(run, portion)
    await db
      .tx(async (tx) => {
        // Within the transaction: what another process has staged meanwhile must not be there twice.
        if (!(await store.stageRows(tx, { id, tenantId, position }, table, rows)))
          throw new TransferError('Another process runs the same import. Wait until it has ended, then run this again.')
      })
      .catch((error: unknown) => blameFile(error, `in ${table.name}`))
    options.progress.add(rows.length)
    await run.deps.failpoint('import portion staged')
  }
  return counts
}

/** @throws TransferError naming rows that cannot go live here, or that another tenant has already */
async function checkStaged({ db, deps, tables, options }: Run, id: string): Promise<void> {
  const refuse = (why: string, found: readonly string[], way: string) => {
    if (found.length === 0) return
    const rest = options.dryRun
      ? 'Nothing was written.'
      : `The tenant is not live. ${way}give up with: halfkey import --discard ${id}`
    throw new TransferError(`The export contains ${why}:${found.map((one) => `\n  ${one}`).join('')}\n${rest}`)
  }
  options.progress.begin('Looking for conflicts')
  refuse('data that no service writes', await findBroken(db, id, tables), 'Export again, and ')
  const ledgers = await findUnknownLedgers(db, id, [...deps.ledgers.keys()])
  refuse('wallets on ledgers that are not configured here', ledgers, 'Configure them and run this again, or ')
  const clashes = [...(await store.findClashes(db, id)), ...(await findSharedElsewhere(db, id))]
  refuse('records that already exist here', clashes, 'Remove them and run this again, or ')
}

/** Rewraps values that were staged before a key rotation. Rotations are locked out until the transaction ends. */
async function renewStaged(tx: Db, { deps, options }: Run, id: string): Promise<void> {
  await keepWrappingKey(tx)
  // Wrapping notices a changed key file.
  const { keyId } = await deps.keys.wrap(randomBytes(32), PROBE_AAD)
  for await (const { lost } of rewrapAll(tx, deps.keys, await store.staleStaging(tx, id, keyId), options.goOn)) {
    if (lost[0] !== undefined)
      throw new TransferError(
        `${lost[0].where}: ${lost[0].reason}\nThe tenant is not live. Restore the key, or run: halfkey import --discard ${id}`,
      )
  }
}

/**
 * Gives the imported records the MACs of this installation, and binds the service's shares to them: the file was
 * authenticated as a whole, and the installation that wrote it had verified them.
 */
async function sealRecords(tx: Db, { deps, opened, options }: Run): Promise<void> {
  const scope = { tenantId: opened.header.tenantId, goOn: options.goOn }
  for (const kind of deps.recordKinds)
    for await (const done of macMissing(tx, kind, scope, { imported: true })) options.progress.add(done)
  for await (const { lost } of resealShares(tx, deps, scope))
    if (lost[0] !== undefined)
      throw new TransferError(`The key share ${lost[0]} is not one of its commitments. The tenant is not live.`)
}

/** Makes the whole tenant live in one transaction. */
async function goLive(run: Run, id: string): Promise<void> {
  const { db, deps, tables, options } = run
  await store.passOffsets(db, id)
  options.progress.begin('Making the tenant live')
  options.goOn()
  await db
    .tx(async (tx) => {
      await allowIdle(tx)
      await renewStaged(tx, run, id)
      await store.publishStaging(tx, id, tables, deps.now())
      await sealRecords(tx, run)
      // A migration that was applied meanwhile did not change the staged rows.
      if ((await schemaOf(tx)).schema.digest !== run.schema) throw migrated(id)
    })
    .catch((error: unknown) => blameFile(error, 'in the rows that it refers to'))
  deps.auth.forget()
  deps.wake.outbox()
  deps.wake.due()
  deps.wake.tasks()
}

class Undone extends Error {}

/** Everything but the last step, in a transaction that is rolled back. */
async function tryOut(run: Run): Promise<Record<string, number>> {
  let counts: Record<string, number> = {}
  const id = `${run.opened.header.exportId}_dry`
  const body = async (tx: Db) => {
    await allowIdle(tx)
    await begin({ ...run, db: tx }, id)
    counts = await stageAll({ ...run, db: tx }, id, 0)
    await checkStaged({ ...run, db: tx }, id)
    throw new Undone()
  }
  await run.db.tx(body).catch((error: unknown) => {
    if (!(error instanceof Undone)) throw error
  })
  return counts
}

function begin({ db, deps, opened, tables, schema }: Run, id: string): Promise<void> {
  const row = { id, tenantId: opened.header.tenantId, state: { file: opened.digest, schema }, now: deps.now() }
  return db.tx((tx) => store.beginImport(tx, row, tables))
}

async function carryOut(run: Run): Promise<Imported> {
  const { opened, options } = run
  const { exportId, tenantId } = opened.header
  const begun = await findBegun(run)
  const resumedAt = options.dryRun ? 0 : (begun?.position ?? 0)
  let tables: Record<string, number>
  if (options.dryRun) tables = await tryOut(run)
  else {
    if (begun === undefined) await begin(run, exportId)
    tables = await stageAll(run, exportId, resumedAt)
    await checkStaged(run, exportId)
    await goLive(run, exportId)
  }
  const rows = Object.values(tables).reduce((sum, n) => sum + n, 0)
  return { exportId, tenantId, rows, resumedAt, dryRun: options.dryRun, tables }
}

/**
 * Brings an exported tenant into this installation. Rows are staged where nothing else reads them, a portion per
 * transaction, and the next run resumes an interrupted import. At the end one transaction makes the tenant live. One
 * import at a time.
 * @throws TransferError, KeyFileError
 */
export async function importTenant(deps: Deps, options: ImportOptions): Promise<Imported> {
  const transfer = await openTransferKey(options.keyFile, deps.keys)
  const opened = await openContainer(options.file, transfer)
  try {
    return await withConnection(deps, 'halfkey import', async (db) => {
      const schema = await checkSchema(db, opened)
      return carryOut({ deps, db, opened, tables: await copiedTables(db), transfer, options, schema })
    })
  } finally {
    options.progress.end()
  }
}

/** Removes what an unfinished import has staged. @throws TransferError when there is none, or it has ended */
export async function discardImport(deps: Deps, exportId: string): Promise<{ exportId: string; tenantId: string }> {
  return withConnection(deps, 'halfkey import', async (db) => {
    const begun = await store.findImport(db, exportId, null)
    if (begun === undefined) throw new TransferError(`There is no import of the export ${exportId} here.`)
    if (begun.finished_at !== null)
      throw new TransferError(`The import of ${exportId} is complete: the tenant ${begun.tenant_id} is live.`)
    await db.tx((tx) => store.discardImport(tx, exportId))
    return { exportId, tenantId: begun.tenant_id }
  })
}
