import { ASYNC_COMMIT_SETTINGS, ENGINE_SETTINGS } from './delivery/engine/worker.ts'
import type { Config } from './platform/config.ts'
import { type Connection, readConnection } from './platform/db/connection.ts'
import { openDatabase } from './platform/db/pool.ts'
import type { Logger } from './platform/observability/log.ts'
import { forReplica, type RecordKeeper } from './platform/security/records/keeper.ts'

/** For each of the engine's two pools. */
const ENGINE_CONNECTIONS_MAX = 4
/**
 * Settings of the connections that answer requests. Every statement there has its index, and the tables grow faster than
 * their statistics: a plan made while a table was small is to be no scan of it once it is large. One plan does for all
 * values; a statement for which it does not is planned anew each time (`unprepared`).
 */
const API_SETTINGS = { enable_seqscan: 'off', plan_cache_mode: 'force_generic_plan' }
const PROBE_CONNECTIONS = 2
const PROBE_TIMEOUT_MS = 1_500
const KEY_CONNECTIONS = 1
/** Each user's call may wait for the signing keys, and is answered within five seconds when the database hangs. */
const KEY_TIMEOUT_MS = 4_000
/** Past this, a list is read from the primary, which may take as long as it always may. */
const REPLICA_TIMEOUT_MS = 5_000

/** The pools of a process, by what they are for. */
export function openPools(config: Config, connection: Connection, log: Logger, records: RecordKeeper) {
  const shared = { connection, log, records }
  const engineConnections = Math.min(ENGINE_CONNECTIONS_MAX, Math.max(2, Math.floor(config.databaseConnections / 6)))
  const others = 2 * engineConnections + PROBE_CONNECTIONS + KEY_CONNECTIONS
  const apiConnections = config.databaseConnections - others
  const api = openDatabase({
    ...shared,
    connectionsMax: apiConnections,
    applicationName: 'halfkey api',
    settings: API_SETTINGS,
  })
  const forEngine = { ...shared, connectionsMax: engineConnections, applicationName: 'halfkey engine' }
  const engine = openDatabase({ ...forEngine, settings: ENGINE_SETTINGS })
  const asyncCommit = openDatabase({ ...forEngine, settings: ASYNC_COMMIT_SETTINGS })
  const replica =
    config.databaseReplicaUrl === null
      ? null
      : openDatabase({
          connection: readConnection(config.databaseReplicaUrl),
          log,
          records: forReplica(records),
          connectionsMax: apiConnections,
          applicationName: 'halfkey replica',
          settings: API_SETTINGS,
          readOnly: true,
          acquireTimeoutMs: PROBE_TIMEOUT_MS,
          statementTimeoutMs: REPLICA_TIMEOUT_MS,
          clientSlackMs: 500,
        })
  const probe = openDatabase({
    ...shared,
    connectionsMax: PROBE_CONNECTIONS,
    applicationName: 'halfkey probe',
    acquireTimeoutMs: PROBE_TIMEOUT_MS,
    statementTimeoutMs: PROBE_TIMEOUT_MS,
    clientSlackMs: 500,
  })
  const key = openDatabase({
    ...shared,
    connectionsMax: KEY_CONNECTIONS,
    applicationName: 'halfkey keys',
    acquireTimeoutMs: KEY_TIMEOUT_MS,
    statementTimeoutMs: KEY_TIMEOUT_MS,
    clientSlackMs: 500,
  })
  return { api, engine, async_commit: asyncCommit, probe, key, ...(replica === null ? {} : { replica }) }
}
