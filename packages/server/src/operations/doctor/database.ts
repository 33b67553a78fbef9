import type { Config } from '../../platform/config.ts'
import type { Db } from '../../platform/db/db.ts'
import { readMigrations } from '../../platform/db/migrate.ts'
import { connectsAsOwner } from '../../platform/db/runtime-role.ts'
import { readClockSkewSeconds } from '../../platform/observability/queue-figures.ts'
import { readMigrationsApplied, readServer, type Server } from './database-store.ts'
import { checkDisk } from './files.ts'
import { type Finding, firstOfEach, graded, inWords, note, ok, problem, warning } from './finding.ts'

const VERSION_MIN = 150_000
/** Beside its pools a process has a connection that listens, one that holds the embedded database, and one that migrates. */
const CONNECTIONS_BESIDE = 3
const LONG_TRANSACTION_SECONDS = 300
/** Of the 2 147 million transaction ids there are. */
const AGE = { warning: 1_000_000_000, problem: 1_600_000_000 }

function checkServer(server: Server): Finding[] {
  const { version, pgTrgm } = server
  return firstOfEach([
    problem(
      'database.version',
      server.versionNum < VERSION_MIN && `PostgreSQL ${version} is too old. Halfkey needs version 15 or later.`,
      'pg_upgrade   # or restore a dump into a newer one',
    ),
    ok('database.version', `PostgreSQL ${version}.`),
    problem(
      'database.extensions',
      pgTrgm === 'missing' && 'The server does not have the extension pg_trgm.',
      'apt-get install postgresql-contrib   # or the same package of your system',
    ),
    note(
      'database.extensions',
      pgTrgm === 'available' && 'pg_trgm is not installed yet. The first migration installs it.',
      'halfkey migrate',
    ),
    ok('database.extensions', 'pg_trgm is installed.'),
  ])
}

function checkConnections({ maxConnections, reserved, connections, ours }: Server, config: Config): Finding[] {
  const room = maxConnections - reserved
  const need = config.databaseConnections + CONNECTIONS_BESIDE
  const foreign = connections - ours
  const seen = `A process opens up to ${need} connections. The server has ${room} for its users, of which others use ${foreign}.`
  const fix = `psql "$DATABASE_URL" -c 'alter system set max_connections = ${Math.ceil((2 * need + foreign + reserved) / 50) * 50}'   # as its superuser, then restart it; or lower HALFKEY_DATABASE_CONNECTIONS`
  const processes = Math.floor((room - foreign) / need)
  const check = 'database.connections'
  return firstOfEach([
    note(
      check,
      config.databaseDirectUrl !== null &&
        `A process opens up to ${config.databaseConnections} connections to the pooler and ${CONNECTIONS_BESIDE} to PostgreSQL, which has ${room} for its users.`,
      'show clients; show pools;   -- in the console of PgBouncer: max_client_conn holds all processes, default_pool_size fits into those of PostgreSQL',
    ),
    problem(check, processes < 1 && `${seen} That is not enough for one process.`, fix),
    warning(check, connections > 0.9 * room && `${connections} of ${room} connections are in use.`, fix),
    ok(check, `${seen} That is enough for ${processes} such process${processes === 1 ? '' : 'es'}.`),
  ])
}

/** Checks for causes that prevent PostgreSQL from removing dead rows until it stops. */
function checkVacuum({ transactionSeconds, transactionPid: pid, ageTransactions: age }: Server): Finding[] {
  const open = `A transaction has been open for ${inWords(transactionSeconds ?? 0)} (pid ${pid}). Until it ends, PostgreSQL cannot remove dead rows.`
  const end = `select pg_terminate_backend(${pid});   -- look first: select * from pg_stat_activity where pid = ${pid}`
  const aged = `${Math.round(age / 1e6)} million transactions since the database was last frozen. After 2 000 million, it stops.`
  const freeze =
    'vacuumdb --freeze --jobs 2 "$DATABASE_URL"   # and find what blocks autovacuum: a long transaction, a replication slot'
  return [
    (transactionSeconds ?? 0) > LONG_TRANSACTION_SECONDS
      ? warning('database.transactions', open, end)
      : ok('database.transactions', 'No transaction has been open for long.'),
    graded('database.wraparound', age, AGE, aged, freeze),
  ]
}

/** Settings without which data is lost, or the database slows down until it stops. */
const MUST_BE_ON = {
  fsync: 'a power cut can destroy the database',
  full_page_writes: 'a power cut can leave torn pages',
  synchronous_commit: 'a crash can lose changes that were confirmed',
  autovacuum: 'the delivery tables fill with dead rows within hours',
}

function checkDurability({ off }: Server): Finding[] {
  const risks = Object.entries(MUST_BE_ON).filter(([name]) => off.includes(name))
  if (risks.length === 0)
    return [ok('database.durability', 'fsync, full_page_writes, synchronous_commit and autovacuum are on.')]
  return risks.map(([name, risk]) =>
    problem(
      'database.durability',
      `${name} is off: ${risk}.`,
      `alter system set ${name} = on; select pg_reload_conf();`,
    ),
  )
}

/** `there`: whether the tables of this release are, so that it makes sense to look into them. */
async function checkMigrations(db: Db): Promise<{ findings: Finding[]; there: boolean }> {
  const check = 'database.migrations'
  const applied = await readMigrationsApplied(db)
  if (applied === null) {
    const seen = 'The database is empty. The first start, or a migration, creates the tables.'
    return { findings: [note(check, seen, 'halfkey migrate')], there: false }
  }
  const release = await readMigrations()
  const names = release.map(({ name }) => name)
  const missing = names.filter((name) => !applied.has(name))
  const changed = release.filter(({ name, checksum }) => (applied.get(name) ?? checksum) !== checksum)
  const newer = [...applied.keys()].filter((name) => !names.includes(name))
  const findings = firstOfEach([
    problem(
      check,
      changed.length > 0 &&
        `Applied in a different form than in this release: ${changed.map(({ name }) => name).join(', ')}.`,
      'npx halfkey@<the release that created this database> doctor   # run that release, or restore a backup',
    ),
    problem(check, missing.length > 0 && `Not applied yet: ${missing.join(', ')}.`, 'halfkey migrate'),
    note(
      check,
      newer.length > 0 &&
        `The schema is newer than this release (${newer.join(', ')}). That is normal during an upgrade.`,
      'halfkey migrate   # with the newer release; then restart all processes of the old one: docs/upgrading.md',
    ),
    ok(check, `All ${release.length} are applied.`),
  ])
  return { findings, there: missing.length === 0 && changed.length === 0 }
}

/** A role that owns the tables can change what the service never changes. */
async function checkRole(db: Db): Promise<Finding> {
  const check = 'database.role'
  if (!(await connectsAsOwner(db)))
    return ok(check, 'The service does not own its tables: it cannot change what is immutable.')
  const seen = 'The service connects as the owner of its tables, and so could change what is immutable.'
  return note(check, seen, 'halfkey migrate --grant-to <role>   # see docs/operating.md#a-role-with-fewer-rights')
}

/** A messenger's sign-in may be a minute ahead at most, a one-time password half a minute off. */
const SKEW_SECONDS = { warning: 2, problem: 30 }

async function checkClock(db: Db): Promise<Finding> {
  const skew = await readClockSkewSeconds(db)
  const seen = `This machine's clock is ${Math.abs(skew).toFixed(1)} s ${skew < 0 ? 'behind' : 'ahead of'} the database's.`
  const fix =
    "timedatectl set-ntp true; timedatectl   # on this machine and the database's: a wrong clock makes second factors and sign-ins fail"
  return graded('clock', Math.abs(skew), SKEW_SECONDS, seen, fix)
}

/** All checks of the server. `there` is false while the schema is not that of this release. */
export async function checkDatabase(
  db: Db,
  config: Config,
  embeddedFolder: string | null,
): Promise<{ findings: Finding[]; there: boolean }> {
  const server = await readServer(db)
  const migrations = await checkMigrations(db)
  const url = config.databaseDirectUrl ?? config.databaseUrl
  const host = url === null ? '' : (URL.parse(url)?.hostname ?? 'one of several')
  const isHere = ['', 'localhost', '127.0.0.1', '[::1]'].includes(host)
  const folder = embeddedFolder ?? (isHere ? server.dataFolder : null)
  return {
    there: migrations.there,
    findings: [
      ...checkServer(server),
      ...checkConnections(server, config),
      ...migrations.findings,
      ...checkDurability(server),
      ...checkVacuum(server),
      ...(migrations.there && embeddedFolder === null ? [await checkRole(db)] : []),
      await checkClock(db),
      ...(folder === null ? [] : checkDisk(folder)),
    ],
  }
}
