import type { Database } from '../../platform/db/db.ts'
import { openDatabase } from '../../platform/db/pool.ts'
import type { Deps } from '../../platform/deps.ts'

/** A statement over a whole tenant may take this long. */
const STATEMENT_MS = 86_400_000

/** Runs with a separate connection, whose statements may take longer than those of requests. */
export async function withConnection<T>(
  { connection, log, db: { records } }: Deps,
  applicationName: string,
  body: (db: Database) => Promise<T>,
): Promise<T> {
  const shared = { connection, log, records, applicationName }
  const db = openDatabase({ ...shared, connectionsMax: 1, statementTimeoutMs: STATEMENT_MS })
  try {
    return await body(db)
  } finally {
    await db.close()
  }
}
