import { realpathSync } from 'node:fs'
import { join } from 'node:path'
import type { Config } from '../../platform/config.ts'
import { type Connection, describeConnection } from '../../platform/db/connection.ts'
import type { Database } from '../../platform/db/db.ts'
import { EmbeddedDatabaseError, errorCode } from '../../platform/db/embedded/errors.ts'
import { type DatabaseRecord, readRecord } from '../../platform/db/embedded/record.ts'
import { openDatabase } from '../../platform/db/pool.ts'
import { checkReach, DistributedError, hears, type Reach, ReachError, readReach } from '../../platform/db/reach.ts'
import { type Logger, redact } from '../../platform/observability/log.ts'
import { type Finding, firstOfEach, note, ok, problem, warning } from './finding.ts'

const TIMEOUT_MS = 5_000
/** The doctor reports findings, not log lines. */
const SILENT: Logger = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} }
/** No table is read whole because the statistics are old. */
const SETTINGS = { enable_seqscan: 'off' }

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

async function connect(connection: Connection): Promise<{ db: Database } | { code: string; message: string }> {
  const db = openDatabase({
    connection,
    connectionsMax: 1,
    applicationName: 'halfkey doctor',
    log: SILENT,
    settings: SETTINGS,
    readOnly: true,
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

/** What there is to say about a pooler, and about notifications past it. */
async function checkPooler(reach: Reach): Promise<Finding[]> {
  const isPooled = reach.pooled.pooled === true
  return firstOfEach([
    warning(
      'database.notifications',
      !(await hears(reach)) &&
        'PostgreSQL does not deliver notifications to this machine. Workers poll, so work of other processes waits up to 250 ms.',
      'export DATABASE_DIRECT_URL=postgres://…   # PostgreSQL itself, not a pooler',
    ),
    ok('database.notifications', 'Notifications arrive.'),
    ok(
      'database.pooler',
      isPooled && `The pooler at ${describeConnection(reach.pooled)} keeps prepared statements and transactions.`,
    ),
  ])
}

async function reachServer(given: Reach): Promise<Reached> {
  const places = [...new Set([given.pooled, given.direct].map(describeConnection))]
  const name = `PostgreSQL at ${places.join(', directly at ')}`
  const failed = (message: string) => nothing(problem('database', `${name} cannot be reached: ${message}.`, FIX))
  try {
    const reach = await checkReach(given)
    const found = await connect(reach.direct)
    if (!('db' in found)) return failed(found.message || found.code)
    const findings = [ok('database', `${name} responds.`), ...(await checkPooler(reach))]
    return { findings, db: found.db, dataFolder: null }
  } catch (error) {
    if (error instanceof ReachError)
      return nothing(
        problem(
          error instanceof DistributedError ? 'database.tables' : 'database.pooler',
          error.message,
          `halfkey doctor   # again, after docs/operating.md#${error.section}`,
        ),
      )
    const cause = causeOf(error)
    return failed(redact(cause instanceof Error ? cause.message || errorCode(cause) : String(cause)))
  }
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
  const found = await connect({ host, port, user, password, database })
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
  try {
    const given = readReach(config)
    if (given !== null) return await reachServer(given)
    const record = readRecord(config.dataDir)
    if (record === null)
      return nothing(note('database', 'There is no database yet. The first start creates it.', 'halfkey serve'))
    return await reachEmbedded(config.dataDir, record)
  } catch (error) {
    if (error instanceof EmbeddedDatabaseError)
      return nothing(problem('database', error.message, `ls -l ${config.dataDir}`))
    throw error
  }
}
