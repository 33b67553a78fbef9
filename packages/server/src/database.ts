import type { Config } from './core/config.ts'
import { type Connection, type Database, sql } from './core/db.ts'
import { type EmbeddedRole, openEmbedded } from './core/embedded/embedded.ts'
import type { KeyProvider } from './core/key-provider.ts'
import type { Logger } from './core/log.ts'
import { migrate } from './core/migrate.ts'

/** The database is not ours to use as configured. The message says what to do; the process ends with 78. */
export class InstallationError extends Error {}

/** PostgreSQL, reachable and migrated. */
export interface OpenedDatabase {
  connection: Connection
  /** For people: which server and where its data lies. */
  description: string
  migrated: string[]
  close(): Promise<void>
}

/** Opens the configured PostgreSQL or the embedded one, and brings its schema up to this release. */
export async function openAndMigrate(config: Config, role: EmbeddedRole, log: Logger): Promise<OpenedDatabase> {
  if (config.databaseUrl !== null) {
    const connection = { connectionString: config.databaseUrl }
    const { hostname, port, pathname } = new URL(config.databaseUrl)
    return {
      connection,
      description: `PostgreSQL at ${hostname || 'a local socket'}${port === '' ? '' : `:${port}`}${pathname} (DATABASE_URL)`,
      migrated: await migrate(connection),
      close: async () => {},
    }
  }
  const embedded = await openEmbedded({
    dataDir: config.dataDir,
    role,
    log: (message, fields) => log.info(fields ?? {}, message),
  })
  try {
    return {
      connection: embedded.connection,
      description: `embedded PostgreSQL ${embedded.version}, ${embedded.state}, data in ${embedded.dataDir}`,
      migrated: await migrate(embedded.connection),
      close: () => embedded.detach(),
    }
  } catch (error) {
    await embedded.detach()
    throw error
  }
}

/** Remembers which key seals this database, and refuses another: it could open nothing and would seal beside it. */
export async function checkInstallation(db: Database, keys: KeyProvider, config: Config): Promise<void> {
  await db.run(sql`insert into installation (kek_id) values (${keys.keyId}) on conflict do nothing`)
  const row = await db.one<{ kek_id: string }>(sql`select kek_id from installation`)
  if (row?.kek_id === keys.keyId) return
  throw new InstallationError(
    `The key in ${config.kekFile} (${keys.keyId}) is not the one that sealed this database (${row?.kek_id}). Put the right key file back, or use another database.`,
  )
}

/** Runs `work` while no other process does, e.g. the first start's set-up. */
export async function exclusively<T>(db: Database, lock: number, work: () => Promise<T>): Promise<T> {
  return db.tx(async (tx) => {
    await tx.run(sql`select pg_advisory_xact_lock(${lock}::bigint)`)
    return work()
  })
}
