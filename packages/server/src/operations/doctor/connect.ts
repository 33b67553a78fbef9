import { realpathSync } from 'node:fs'
import { join } from 'node:path'
import type { Config } from '../../platform/config.ts'
import { type Connection, type Database, openDatabase } from '../../platform/db/db.ts'
import { EmbeddedDatabaseError, errorCode } from '../../platform/db/embedded/errors.ts'
import { type DatabaseRecord, readRecord } from '../../platform/db/embedded/record.ts'
import { type Logger, redact } from '../../platform/observability/log.ts'
import { type Finding, note, ok, problem } from './finding.ts'

const TIMEOUT_MS = 5_000
/** The doctor reports findings, not log lines. */
const SILENT: Logger = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} }
/** It only looks, and no table is read whole because the statistics are old. */
const SETTINGS = { default_transaction_read_only: 'on', enable_seqscan: 'off' }

/** The result of connecting to the database. */
export interface Reached {
  findings: Finding[]
  /** Null where it was not reached; the findings say why. */
  db: Database | null
  /** The embedded database's own folder. */
  dataFolder: string | null
}

const nothing = (finding: Finding): Reached => ({ findings: [finding], db: null, dataFolder: null })

/** Node's error has no message if several addresses were tried. */
const causeOf = (error: unknown): unknown =>
  error instanceof AggregateError && error.message === '' ? error.errors[0] : error

async function reach(connection: Connection): Promise<{ db: Database } | { code: string; message: string }> {
  const db = openDatabase({
    connection,
    connectionsMax: 1,
    applicationName: 'halfkey doctor',
    log: SILENT,
    settings: SETTINGS,
    statementTimeoutMs: TIMEOUT_MS,
    acquireTimeoutMs: TIMEOUT_MS,
  })
  try {
    await db.query({ text: 'select 1', values: [], name: '' })
    return { db }
  } catch (error) {
    await db.close()
    const cause = causeOf(error)
    return { code: errorCode(cause), message: redact(cause instanceof Error ? cause.message : String(cause)) }
  }
}

const FIX =
  'psql "$DATABASE_URL" -c "select 1"   # is it running, can this machine reach it, and is the password right?'

async function reachServer(url: string): Promise<Reached> {
  const at = URL.parse(url)
  const name =
    at === null ? 'The database of DATABASE_URL' : `PostgreSQL at ${at.host || 'a local socket'}${at.pathname}`
  const found = await reach({ connectionString: url })
  if ('db' in found) return { findings: [ok('database', `${name} responds.`)], db: found.db, dataFolder: null }
  return nothing(problem('database', `${name} cannot be reached: ${found.message || found.code}.`, FIX))
}

const ABSENT = new Set(['ECONNREFUSED', 'ENOENT', 'ENOTSOCK'])

/** Whether the record is of this folder's server: one that was copied from elsewhere still names the server there. */
function isOfFolder(dataDir: string, { dataDirectory }: DatabaseRecord): boolean {
  try {
    return realpathSync(dataDirectory) === realpathSync(join(dataDir, 'postgres'))
  } catch {
    return false
  }
}

async function reachEmbedded(dataDir: string, record: DatabaseRecord): Promise<Reached> {
  const { host, port, user, password, database, dataDirectory } = record
  if (!isOfFolder(dataDir, record)) {
    const seen = `${dataDir} was copied here: its record names the data in ${dataDirectory}. The next start corrects the record.`
    return nothing(note('database', seen, 'halfkey serve'))
  }
  const found = await reach({ host, port, user, password, database })
  if ('db' in found)
    return {
      findings: [ok('database', `The embedded PostgreSQL responds. Its data is in ${dataDirectory}.`)],
      db: found.db,
      dataFolder: dataDirectory,
    }
  const reached = ABSENT.has(found.code)
    ? nothing(note('database', `The embedded PostgreSQL of ${dataDir} is not running.`, 'halfkey serve'))
    : nothing(
        problem(
          'database',
          `The embedded PostgreSQL of ${dataDir} refuses the connection: ${found.message}.`,
          `tail ${dataDir}/server.log   # is this the user of the service?`,
        ),
      )
  return { ...reached, dataFolder: dataDirectory }
}

/** Connects to the database that the service would use, to look only. An embedded one is joined if it runs, never started. */
export async function connectToLook(config: Config): Promise<Reached> {
  if (config.databaseUrl !== null) return reachServer(config.databaseUrl)
  try {
    const record = readRecord(config.dataDir)
    if (record === null)
      return nothing(note('database', 'There is no database yet. The first start creates it.', 'halfkey serve'))
    return await reachEmbedded(config.dataDir, record)
  } catch (error) {
    if (!(error instanceof EmbeddedDatabaseError)) throw error
    return nothing(problem('database', error.message, `ls -l ${config.dataDir}`))
  }
}
