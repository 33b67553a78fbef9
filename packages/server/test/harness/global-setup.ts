import { chmodSync, mkdtempSync, readdirSync, readFileSync, rmSync, statfsSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import pg from 'pg'
import type { TestProject } from 'vitest/node'
import { processExists } from '../../src/platform/db/embedded/cluster.ts'
import { openEmbedded } from '../../src/platform/db/embedded/embedded.ts'
import { migrate } from '../../src/platform/db/migrate.ts'
import { openTemporaryFolder } from './open-temporary-folder.ts'

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

/**
 * Starts one real PostgreSQL for the whole run. Each service under test gets its own database in it: a clone of
 * `migrated`, which has this release's schema and nothing else.
 */
export async function setup(project: TestProject): Promise<() => Promise<void>> {
  openTemporaryFolder()
  // Processes under test compile the service once. Nobody else may write there: Node runs what it finds.
  process.env.NODE_COMPILE_CACHE ??= fileURLToPath(
    new URL('../../../../node_modules/.cache/halfkey-tests', import.meta.url),
  )
  const parent = databasesFolder()
  if (parent === MEMORY) clearAbandoned()
  const folder = mkdtempSync(join(parent, `${NAME}${process.pid}-`))
  // Passable, so that the server finds its data here even where root lends it to another user.
  chmodSync(folder, 0o755)
  const embedded = await openEmbedded({ dataDir: folder, role: 'all', log: () => {} })
  const { adminPassword } = JSON.parse(readFileSync(join(embedded.dataDir, 'halfkey.json'), 'utf8')) as {
    adminPassword: string
  }
  const admin = new pg.Client({
    ...embedded.connection,
    user: 'postgres',
    password: adminPassword,
    database: 'postgres',
  })
  await admin.connect()
  // Tests connect thousands of times. Both sides derive a key each time, usually by 4096 rounds of a hash.
  await admin.query('set scram_iterations = 1')
  await admin.query(`alter role halfkey createdb password ${admin.escapeLiteral(embedded.connection.password)}`)
  if (project.name === 'ordinary')
    for (const [name, value] of Object.entries(SETTINGS)) await admin.query(`alter system set ${name} = ${value}`)
  await admin.query('select pg_reload_conf()')
  await admin.query('create database migrated owner halfkey')
  await admin.end()
  await migrate({ ...embedded.connection, database: 'migrated' })
  project.provide('postgres', embedded.connection)
  return async () => {
    await embedded.detach()
    rmSync(embedded.dataDir, { recursive: true, force: true })
    rmSync(folder, { recursive: true, force: true })
  }
}
