import type { Config } from '../../platform/config.ts'
import type { Db } from '../../platform/db/db.ts'
import { readMigrations } from '../../platform/db/migrate.ts'
import { readClockSkewSeconds } from '../../platform/observability/queue-figures.ts'
import {
  type Holdups,
  readBloat,
  readHoldups,
  readMigrationsApplied,
  readServer,
  type Server,
} from './database-store.ts'
import { checkDisk } from './files.ts'
import { type Finding, inWords, note, ok, problem, warning } from './finding.ts'

const VERSION_MIN = 150_000
const MIB = 2 ** 20
/** Beside its pools a process has a connection that listens, one that holds the embedded database, and one that migrates. */
const CONNECTIONS_BESIDE = 3

function checkVersion({ version, versionNum, inRecovery, encoding }: Server): Finding[] {
  const findings =
    versionNum < VERSION_MIN
      ? [
          problem(
            'database.version',
            `PostgreSQL ${version} is too old: 15 is the oldest that will do.`,
            'pg_upgrade   # or restore a dump into a newer one',
          ),
        ]
      : [ok('database.version', `PostgreSQL ${version}.`)]
  if (inRecovery)
    findings.push(
      problem(
        'database.standby',
        'DATABASE_URL leads to a standby, which takes no writes.',
        'export DATABASE_URL=…   # of the primary',
      ),
    )
  if (encoding !== 'UTF8')
    findings.push(
      problem(
        'database.encoding',
        `The database's encoding is ${encoding}.`,
        'createdb --template template0 --encoding UTF8 halfkey   # and restore into it',
      ),
    )
  return findings
}

function checkExtension({ pgTrgm, findsLetters }: Server): Finding {
  if (pgTrgm === 'missing')
    return problem(
      'database.extensions',
      'The server does not have the extension pg_trgm.',
      "apt-get install postgresql-contrib   # or your system's package of that name",
    )
  if (pgTrgm === 'available')
    return note(
      'database.extensions',
      'pg_trgm is not installed yet: the first migration does that.',
      'halfkey migrate',
    )
  return findsLetters === false
    ? warning(
        'database.locale',
        'With this LC_CTYPE the database takes letters beyond ASCII for none: searches for such names read whole tables.',
        'createdb --template template0 --locale C.UTF-8 halfkey   # and restore into it',
      )
    : ok('database.extensions', 'pg_trgm is installed.')
}

function checkConnections({ maxConnections, reserved, connections, ours }: Server, config: Config): Finding {
  const room = maxConnections - reserved
  const need = config.databaseConnections + CONNECTIONS_BESIDE
  const foreign = connections - ours
  const seen = `A process opens up to ${need} connections; the server has ${room} for its users, of which ${foreign} are taken by others.`
  const fix = `psql "$DATABASE_URL" -c 'alter system set max_connections = ${Math.ceil((2 * need + foreign + reserved) / 50) * 50}'   # as its superuser, then restart it; or lower HALFKEY_DATABASE_CONNECTIONS`
  if (need + foreign > room) return problem('database.connections', `${seen} They do not suffice for one process.`, fix)
  const processes = Math.floor((room - foreign) / need)
  return connections > 0.9 * room
    ? warning('database.connections', `${connections} of ${room} connections are taken.`, fix)
    : ok('database.connections', `${seen} That is enough for ${processes} such process${processes === 1 ? '' : 'es'}.`)
}

const DURABLE = ['on', 'local', 'remote_write', 'remote_apply']

function checkSafety({ settings }: Server): Finding[] {
  const risks: Finding[] = []
  const mustBeOn = (name: keyof Server['settings'], risk: string) =>
    risks.push(
      problem(
        'database.durability',
        `${name} is ${settings[name]}: ${risk}.`,
        `alter system set ${name} = on; select pg_reload_conf();`,
      ),
    )
  if (settings.fsync !== 'on') mustBeOn('fsync', 'a power cut can destroy the database')
  if (settings.full_page_writes !== 'on') mustBeOn('full_page_writes', 'a power cut can leave torn pages')
  if (!DURABLE.includes(settings.synchronous_commit))
    mustBeOn('synchronous_commit', 'what was answered with success can be lost in a crash')
  if (settings.autovacuum !== 'on') mustBeOn('autovacuum', 'the delivery tables fill with dead rows within hours')
  if (settings.track_counts !== 'on') mustBeOn('track_counts', 'autovacuum does not know what to do')
  return risks.length > 0
    ? risks
    : [ok('database.durability', 'fsync, full_page_writes, synchronous_commit and autovacuum are on.')]
}

const LONG_TRANSACTION_SECONDS = 300
const LONG_IDLE_SECONDS = 60
const SLOT_BYTES = 2 ** 30
/** Of the 2 147 million there are. */
const AGE = { warning: 1_000_000_000, problem: 1_600_000_000 }

function checkHoldups(found: Holdups): Finding[] {
  const findings: Finding[] = []
  const end = (pid: number | null) =>
    `select pg_terminate_backend(${pid});   -- look first: select * from pg_stat_activity where pid = ${pid}`
  if ((found.oldestTransactionSeconds ?? 0) > LONG_TRANSACTION_SECONDS)
    findings.push(
      warning(
        'database.transactions',
        `A transaction has been open for ${inWords(found.oldestTransactionSeconds as number)} (pid ${found.oldestTransactionPid}): until it ends no dead row can be cleared away.`,
        end(found.oldestTransactionPid),
      ),
    )
  if ((found.idleInTransactionSeconds ?? 0) > LONG_IDLE_SECONDS)
    findings.push(
      warning(
        'database.transactions',
        `A session has been idle in its transaction for ${inWords(found.idleInTransactionSeconds as number)} (pid ${found.idleInTransactionPid}); it may hold locks.`,
        end(found.idleInTransactionPid),
      ),
    )
  if ((found.preparedSeconds ?? 0) > LONG_TRANSACTION_SECONDS)
    findings.push(
      warning(
        'database.transactions',
        `A prepared transaction has waited for ${inWords(found.preparedSeconds as number)}; none is ours.`,
        `rollback prepared '${found.preparedGid}';`,
      ),
    )
  if (findings.length === 0) findings.push(ok('database.transactions', 'No transaction has been open for long.'))
  if ((found.slotBytes ?? 0) > SLOT_BYTES)
    findings.push(
      warning(
        'database.replication_slots',
        `The inactive replication slot ${found.slotName} keeps ${Math.round((found.slotBytes as number) / MIB)} MiB of WAL, and more every hour.`,
        `select pg_drop_replication_slot('${found.slotName}');   -- if nobody will come back for it`,
      ),
    )
  findings.push(checkAge(found.ageTransactions))
  return findings
}

function checkAge(age: number): Finding {
  const seen = `${Math.round(age / 1e6)} million transactions since the database was last frozen; past 2 000 million it stops.`
  const fix =
    'vacuumdb --freeze --jobs 2 "$DATABASE_URL"   # and find what keeps autovacuum from it: a long transaction, a slot'
  if (age > AGE.problem) return problem('database.wraparound', seen, fix)
  return age > AGE.warning ? warning('database.wraparound', seen, fix) : ok('database.wraparound', seen)
}

const DEAD_ROWS_MIN = 20_000

async function checkBloat(db: Db): Promise<Finding[]> {
  const found = await readBloat(db, DEAD_ROWS_MIN)
  if (found.length === 0) return [ok('database.bloat', 'No table is full of dead rows.')]
  return found.map(({ name, live, dead, bytes }) =>
    warning(
      'database.bloat',
      `${name} holds ${dead} dead rows beside ${live} living ones (${Math.round(bytes / MIB)} MiB).`,
      `psql "$DATABASE_URL" -c 'vacuum (analyze, verbose) ${name}'   # a long transaction keeps vacuum from clearing them`,
    ),
  )
}

/** `there`: whether the tables of this release are, so that it makes sense to look into them. */
async function checkMigrations(db: Db): Promise<{ findings: Finding[]; there: boolean }> {
  const applied = await readMigrationsApplied(db)
  const release = await readMigrations()
  if (applied === null) {
    const seen = 'The database is empty: the first start, or a migration, makes the tables.'
    return { findings: [note('database.migrations', seen, 'halfkey migrate')], there: false }
  }
  const missing = release.filter(({ name }) => !applied.has(name)).map(({ name }) => name)
  const changed = release.filter((each) => (applied.get(each.name)?.checksum ?? each.checksum) !== each.checksum)
  const names = new Set(release.map(({ name }) => name))
  const newer = [...applied.keys()].filter((name) => !names.has(name))
  const findings: Finding[] = []
  if (changed.length > 0)
    findings.push(
      problem(
        'database.migrations',
        `Applied in another form than this release has: ${changed.map(({ name }) => name).join(', ')}.`,
        'npx halfkey@<the release that made this database> doctor   # run that one, or restore a backup',
      ),
    )
  if (missing.length > 0)
    findings.push(problem('database.migrations', `Not applied yet: ${missing.join(', ')}.`, 'halfkey migrate'))
  if (newer.length > 0)
    findings.push(
      note(
        'database.migrations',
        `The schema is newer than this release (${newer.join(', ')}). That is as it should be during an upgrade.`,
        'halfkey migrate   # by the newer release; then restart what still runs the old one: docs/upgrading.md',
      ),
    )
  if (findings.length === 0) findings.push(ok('database.migrations', `All ${release.length} are applied.`))
  return { findings, there: missing.length === 0 && changed.length === 0 }
}

/** A messenger's sign-in may be a minute ahead at most, a one-time password half a minute off. */
const SKEW = { warning: 2, problem: 30 }

async function checkClock(db: Db): Promise<Finding[]> {
  const skew = await readClockSkewSeconds(db)
  const applied = await readMigrationsApplied(db)
  const last = Math.max(...[...(applied?.values() ?? [])].map(({ at }) => at.getTime()), 0)
  const fix = "timedatectl set-ntp true; timedatectl   # on this machine and on the database's"
  const seen = `This machine's clock is ${Math.abs(skew).toFixed(1)} s ${skew < 0 ? 'behind' : 'ahead of'} the database's.`
  const findings = [
    Math.abs(skew) > SKEW.problem
      ? problem('clock', `${seen} Second factors and sign-ins fail by it.`, fix)
      : Math.abs(skew) > SKEW.warning
        ? warning('clock', seen, fix)
        : ok('clock', seen),
  ]
  if (last > Date.now() + SKEW.problem * 1_000)
    findings.push(
      problem(
        'clock',
        `The clock says ${new Date().toISOString()}, but the schema was made at ${new Date(last).toISOString()}.`,
        fix,
      ),
    )
  return findings
}

/** All about the server. `there` is false while the schema is not this release's. */
export async function checkDatabase(
  db: Db,
  config: Config,
  embeddedFolder: string | null,
): Promise<{ findings: Finding[]; there: boolean }> {
  const server = await readServer(db)
  const migrations = await checkMigrations(db)
  const host = config.databaseUrl === null ? '' : (URL.parse(config.databaseUrl)?.hostname ?? '')
  const isHere = ['', 'localhost', '127.0.0.1', '[::1]'].includes(host)
  const folder = embeddedFolder ?? (isHere ? server.dataFolder : null)
  return {
    there: migrations.there,
    findings: [
      ...checkVersion(server),
      ...migrations.findings,
      checkExtension(server),
      checkConnections(server, config),
      ...checkSafety(server),
      ...checkHoldups(await readHoldups(db)),
      ...(await checkBloat(db)),
      ...(await checkClock(db)),
      folder === null
        ? note(
            'database.disk',
            "The room on the database's disk is not visible from here.",
            'df -h   # on its machine; and let its monitoring (node_exporter) watch it',
          )
        : checkDisk(folder),
    ],
  }
}
