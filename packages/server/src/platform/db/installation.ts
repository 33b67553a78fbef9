import type { Config } from '../config.ts'
import type { Logger } from '../observability/log.ts'
import type { HeldKeys } from '../security/key-provider.ts'
import { type Connection, describeConnection } from './connection.ts'
import { allowIdle, type Database, type Db, sql } from './db.ts'
import { type EmbeddedRole, openEmbedded } from './embedded/embedded.ts'
import { migrate, requireMigrated } from './migrate.ts'
import { openDatabase } from './pool.ts'
import { checkReach, type Reach, readReach } from './reach.ts'

/** The database is not ours to use as configured. The message says what to do; the process ends with 78. */
export class InstallationError extends Error {}

/** PostgreSQL, reachable and migrated. */
export interface OpenedDatabase extends Reach {
  /** For people: the server and the location of its data. */
  description: string
  /** The data folder of the embedded database; null for an external server. */
  dataFolder: string | null
  migrated: string[]
  close(): Promise<void>
}

/**
 * Opens the configured PostgreSQL or the embedded one, and brings its schema up to this release.
 * @throws MigrationError where migrations are missing and `config.migrate` is off
 */
export async function openAndMigrate(config: Config, role: EmbeddedRole, log: Logger): Promise<OpenedDatabase> {
  const update = config.migrate ? migrate : requireMigrated
  const given = readReach(config)
  if (given !== null) {
    const reach = await checkReach(given)
    const pooler = reach.pooled === reach.direct ? '' : '; direct connections use DATABASE_DIRECT_URL'
    return {
      ...reach,
      description: `PostgreSQL at ${describeConnection(reach.pooled)} (DATABASE_URL${pooler})`,
      dataFolder: null,
      migrated: await update(reach.direct),
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
      pooled: embedded.connection,
      direct: embedded.connection,
      description: `embedded PostgreSQL ${embedded.version}, ${embedded.state}, data in ${embedded.dataDir}`,
      dataFolder: embedded.dataDir,
      migrated: await update(embedded.connection),
      close: () => embedded.detach(),
    }
  } catch (error) {
    await embedded.detach()
    throw error
  }
}

/**
 * Remembers which keys seal this database, and refuses a process that does not hold them all: there are values that it
 * could not open, and it would seal beside them.
 * @returns whether the installation is new
 * @throws InstallationError
 */
export async function checkInstallation(db: Db, held: HeldKeys, config: Config): Promise<boolean> {
  const inserted = await db.run(sql`insert into installation (kek_ids) values (${[held.keyId]}) on conflict do nothing`)
  const row = await db.one<{ kek_ids: string[] }>(sql`select kek_ids from installation`)
  const known = row?.kek_ids ?? []
  const missing = known.filter((id) => !held.keyIds.includes(id))
  if (missing.length > 0) {
    throw new InstallationError(
      missing.length === known.length
        ? `The key in ${config.kekFile} (${held.keyIds.join(', ')}) did not seal this database (${known.join(', ')} did). Restore the right key file, or use another database.`
        : `The key in ${config.kekFile} (${held.keyIds.join(', ')}) is not the only one that seals this database. A rotation is not finished, so ${missing.join(', ')} is still needed. Put its line back into the file, then run: halfkey keys rotate-kek`,
    )
  }
  if (!known.includes(held.keyId))
    await db.run(sql`
      update installation set kek_ids = array_append(kek_ids, ${held.keyId}) where not ${held.keyId} = any(kek_ids)`)
  return inserted === 1
}

/** Runs `work` while no other process does, e.g. the first start's set-up. */
export async function withAdvisoryLock<T>(db: Database, lock: number, work: () => Promise<T>): Promise<T> {
  return db.tx(async (tx) => {
    await tx.run(sql`select pg_advisory_xact_lock(${lock}::bigint)`)
    await allowIdle(tx)
    return work()
  })
}

/** Notes that these keys, and no others, seal this database. */
export async function recordSealingKeys(db: Db, keyIds: readonly string[]): Promise<void> {
  await db.run(sql`update installation set kek_ids = ${keyIds}`)
}

/** Past a few seconds of silence the database ends a transaction. */
const SIGN_OF_LIFE_MS = 1_000

/**
 * Runs long work while no other process does; answers undefined, without having run it, where another one does.
 * `stillAlone` throws once the connection that keeps the others out is lost: the work asks it before each step.
 */
export async function withTryLock<T>(
  { connection, log }: { connection: Connection; log: Logger },
  lock: number,
  work: (stillAlone: () => void) => Promise<T>,
): Promise<T | undefined> {
  // A separate connection, because the work needs those of the pools.
  const db = openDatabase({ connection, connectionsMax: 1, applicationName: 'halfkey lock', log })
  try {
    return await db.tx(async (tx) => {
      const row = await tx.one<{ held: boolean }>(sql`select pg_try_advisory_xact_lock(${lock}::bigint) as held`)
      if (row?.held !== true) return undefined
      let lost: unknown
      const timer = setInterval(() => {
        tx.run(sql`select 1`).catch((error: unknown) => {
          lost ??= error
        })
      }, SIGN_OF_LIFE_MS)
      try {
        return await work(() => {
          if (lost !== undefined) throw lost
        })
      } finally {
        clearInterval(timer)
      }
    })
  } finally {
    await db.close()
  }
}
