/** A PostgreSQL as Debian packages it, with its own programs: for what the embedded one has not, such as pg_dump. */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chownSync, existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { chooseAccount } from '../../src/platform/db/embedded/account.ts'
import { eventually } from './harness.ts'
import { freePort, query } from './service-process.ts'

const PASSWORD = 'a-password'
const VERSIONS = '/usr/lib/postgresql'

/** The folder of a server's programs, of the newest without `wanted`; null where Debian's packages are not installed. */
export function debianPrograms(wanted?: string): string | null {
  const all = existsSync(VERSIONS) ? readdirSync(VERSIONS).sort((a, b) => Number(b) - Number(a)) : []
  const versions = wanted === undefined ? all : all.filter((version) => version === wanted)
  const complete = (path: string) =>
    ['initdb', 'postgres', 'pg_dump', 'psql'].every((name) => existsSync(join(path, name)))
  return versions.map((version) => join(VERSIONS, version, 'bin')).find(complete) ?? null
}

/** A running server with an empty database `halfkey` of the role `halfkey`. */
export interface DebianPostgres {
  url(database?: string): string
  /** As its superuser. */
  adminUrl: string
  remove(): Promise<void>
}

/** Makes a cluster and starts it on a free port of 127.0.0.1. */
export async function startDebianPostgres(programs: string): Promise<DebianPostgres> {
  const account = chooseAccount([])
  const as = account ? { uid: account.uid, gid: account.gid } : {}
  const folder = mkdtempSync(join(tmpdir(), 'hk-debian-'))
  const data = join(folder, 'data')
  const passwordFile = join(folder, 'password')
  writeFileSync(passwordFile, PASSWORD, { mode: 0o600 })
  mkdirSync(data, { mode: 0o700 })
  if (account) for (const path of [folder, data, passwordFile]) chownSync(path, account.uid, account.gid)
  const options = { cwd: '/', stdio: 'ignore' as const, env: { LC_ALL: 'C.UTF-8', PATH: '/usr/bin:/bin' }, ...as }
  const settings = ['-D', data, '-U', 'postgres', `--pwfile=${passwordFile}`, '--auth=scram-sha-256', '-E', 'UTF8']
  execFileSync(join(programs, 'initdb'), settings, options)
  const port = await freePort()
  const args = ['-D', data, '-h', '127.0.0.1', '-p', String(port), '-k', '', '-c', 'max_connections=200']
  const server: ChildProcess = spawn(join(programs, 'postgres'), args, options)
  const url = (user: string, database: string) => `postgres://${user}:${PASSWORD}@127.0.0.1:${port}/${database}`
  const adminUrl = url('postgres', 'postgres')
  await eventually('PostgreSQL', () => query({ connectionString: adminUrl }, 'select 1').catch(() => null))
  await query({ connectionString: adminUrl }, `create role halfkey login password '${PASSWORD}'`)
  await query({ connectionString: adminUrl }, 'create database halfkey owner halfkey')
  return {
    url: (database = 'halfkey') => url('halfkey', database),
    adminUrl,
    async remove() {
      if (server.exitCode === null && server.signalCode === null) {
        const gone = once(server, 'exit')
        server.kill('SIGQUIT')
        await gone
      }
      rmSync(folder, { recursive: true, force: true })
    },
  }
}
