import type { Config } from '../../platform/config.ts'
import { type Connection, type Database, openDatabase } from '../../platform/db/db.ts'
import { readRecord } from '../../platform/db/embedded/record.ts'
import type { Logger } from '../../platform/observability/log.ts'
import { TransferError } from './errors.ts'

/** A statement over a whole tenant may take this long. */
const STATEMENT_MS = 86_400_000

function connectionOf(config: Config): Connection {
  if (config.databaseUrl !== null) return { connectionString: config.databaseUrl }
  const record = readRecord(config.dataDir)
  if (record === null) throw new TransferError(`There is no database in ${config.dataDir}.`)
  const { host, port, user, password, database } = record
  return { host, port, user, password, database }
}

/** Runs with a separate connection, whose statements may take longer than those of requests. */
export async function withConnection<T>(
  { config, log }: { config: Config; log: Logger },
  applicationName: string,
  body: (db: Database) => Promise<T>,
): Promise<T> {
  const db = openDatabase({
    connection: connectionOf(config),
    connectionsMax: 1,
    applicationName,
    log,
    statementTimeoutMs: STATEMENT_MS,
  })
  try {
    return await body(db)
  } finally {
    await db.close()
  }
}
