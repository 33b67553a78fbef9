import { chmodSync, mkdtempSync, readdirSync, readFileSync, rmSync, statfsSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import pg from 'pg'
import type { TestProject } from 'vitest/node'
import { processExists } from '../../src/platform/db/embedded/cluster.ts'
import { openEmbedded } from '../../src/platform/db/embedded/embedded.ts'
import { migrate } from '../../src/platform/db/migrate.ts'
import { grantRuntime } from '../../src/platform/db/runtime-role.ts'
import { debianPrograms, startDebianPostgres } from './debian-postgres.ts'
import { POOLED, RUNTIME_ROLE } from './environment.ts'
import { openTemporaryFolder } from './open-temporary-folder.ts'
import { NO_PGBOUNCER, pgbouncerProgram, startPgBouncer } from './pgbouncer-process.ts'

declare module 'vitest' {
  interface ProvidedContext {
    /** The run's PostgreSQL, as the role that may create databases. */
    postgres: { host: string; port: number; user: string; password: string; database: string }
  }
}

const MEMORY = '/dev/shm'
const MEMORY_BYTES_MIN = 2 ** 31

/** For the ordinary tests' PostgreSQL only: its data is thrown away with the run, and nothing kills it. */
const SETTINGS = { fsync: 'off', full_page_writes: 'off', max_wal_size: "'512MB'" }

/** The folder for databases: in memory where there is room, because there each takes a fifteenth of the time to make. */
function databasesFolder(): string {
  try {
    const { bavail, bsize } = statfsSync(MEMORY)
    return bavail * bsize >= MEMORY_BYTES_MIN ? MEMORY : tmpdir()
  } catch {
    return tmpdir()
  }
}

const NAME = 'halfkey-test-'

/** Ends what a run that was killed has left in memory: its folder is named after its process. */
function clearAbandoned(): void {
  for (const name of readdirSync(MEMORY)) {
    const owner = Number(name.slice(NAME.length).split('-')[0])
    if (!name.startsWith(NAME) || !(owner > 0) || processExists(owner)) continue
    const folder = join(MEMORY, name)
    try {
      const [pid] = readFileSync(join(folder, 'postgres/postmaster.pid'), 'utf8').split('\n')
      // The number may be another process's by now.
      if (readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes(folder)) process.kill(Number(pid), 'SIGQUIT')
    } catch {
      // It has ended already.
    }
    rmSync(folder, { recursive: true, force: true })
  }
}

interface TestServer {
  connection: { host: string; port: number; user: string; password: string; database: string }
  /** As its superuser. */
  admin: pg.ClientConfig
  stop(): Promise<void>
}

async function startEmbedded(): Promise<TestServer> {
  const parent = databasesFolder()
  if (parent === MEMORY) clearAbandoned()
  const folder = mkdtempSync(join(parent, `${NAME}${process.pid}-`))
  // Passable, so that the server finds its data here even where root lends it to another user.
  chmodSync(folder, 0o755)
  const embedded = await openEmbedded({ dataDir: folder, role: 'all', log: () => {} })
  const { adminPassword } = JSON.parse(readFileSync(join(embedded.dataDir, 'halfkey.json'), 'utf8')) as {
    adminPassword: string
  }
  return {
    connection: embedded.connection,
    admin: { ...embedded.connection, user: 'postgres', password: adminPassword, database: 'postgres' },
    async stop() {
      await embedded.detach()
      rmSync(embedded.dataDir, { recursive: true, force: true })
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

/** Debian's PostgreSQL of this version. */
async function startDebian(version: string): Promise<TestServer> {
  const programs = debianPrograms(version)
  if (programs === null)
    throw new Error(`PostgreSQL ${version} is not installed: apt-get install postgresql-${version}`)
  const server = await startDebianPostgres(programs)
  const { hostname: host, port, username: user, password } = new URL(server.url())
  return {
    connection: { host, port: Number(port), user, password, database: 'halfkey' },
    admin: { connectionString: server.adminUrl },
    stop: () => server.remove(),
  }
}

/** Puts a PgBouncer in front: services under test reach their databases through it. */
async function startPooler({ connection: { host, port, user, password } }: TestServer): Promise<() => Promise<void>> {
  const program = pgbouncerProgram()
  if (program === null) throw new Error(NO_PGBOUNCER)
  const direct = `${encodeURIComponent(host)}:${port}`
  const url = `postgres://${user}:${encodeURIComponent(password)}@${direct}/migrated`
  // Each database has its own pool, and a run has hundreds of databases.
  const pooler = await startPgBouncer(program, url, { default_pool_size: '12', server_idle_timeout: '5' })
  process.env[POOLED] = JSON.stringify({ direct: `@${direct}/`, pooled: `@127.0.0.1:${pooler.port}/` })
  return async () => {
    delete process.env[POOLED]
    await pooler.stop()
  }
}

/** Gives the role with fewer rights what the service needs of the template, so that services under test can connect as it. */
async function grantTemplate({ connection }: TestServer): Promise<void> {
  const owner = new pg.Client({ ...connection, database: 'migrated' })
  await owner.connect()
  await grantRuntime(async (text, values) => (await owner.query(text, values)).rows, RUNTIME_ROLE)
  await owner.end()
}

/**
 * Starts one real PostgreSQL for the whole run. Each service under test gets its own database in it: a clone of
 * `migrated`, which has this release's schema and nothing else. HALFKEY_TEST_BACKEND names another one than the embedded.
 */
export async function setup(project: TestProject): Promise<() => Promise<void>> {
  openTemporaryFolder()
  // Processes under test compile the service once. Nobody else may write there: Node runs what it finds.
  process.env.NODE_COMPILE_CACHE ??= fileURLToPath(
    new URL('../../../../node_modules/.cache/halfkey-tests', import.meta.url),
  )
  const backend = process.env.HALFKEY_TEST_BACKEND ?? 'embedded'
  const version = /^postgres(\d+)$/.exec(backend)?.[1]
  const server = version === undefined ? await startEmbedded() : await startDebian(version)
  const admin = new pg.Client(server.admin)
  await admin.connect()
  // Tests connect thousands of times. Both sides derive a key each time, usually by 4096 rounds of a hash.
  if (version === undefined || Number(version) >= 16) await admin.query('set scram_iterations = 1')
  const password = admin.escapeLiteral(server.connection.password)
  await admin.query(`alter role halfkey createdb password ${password}`)
  await admin.query(`create role ${RUNTIME_ROLE} login password ${password}`)
  if (project.name === 'ordinary')
    for (const [name, value] of Object.entries(SETTINGS)) await admin.query(`alter system set ${name} = ${value}`)
  await admin.query('select pg_reload_conf()')
  await admin.query('create database migrated owner halfkey')
  await admin.end()
  await migrate({ ...server.connection, database: 'migrated' })
  if (backend === RUNTIME_ROLE) await grantTemplate(server)
  const stopPooler = backend === 'pgbouncer' ? await startPooler(server) : async () => {}
  project.provide('postgres', server.connection)
  return async () => {
    await stopPooler()
    await server.stop()
  }
}
