/** A PgBouncer of a test's own, in front of a PostgreSQL, with the configuration of docs/operating.md. */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, chownSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { chooseAccount } from '../../src/platform/db/embedded/account.ts'
import { eventually } from './harness.ts'
import { freePort, query } from './service-process.ts'

/** What is said where a test needs a PgBouncer that is not there. */
export const NO_PGBOUNCER = 'HALFKEY_TEST_PGBOUNCER does not name a PgBouncer of version 1.21 or later'
const DEBIAN = '/usr/sbin/pgbouncer'

function minorVersion(program: string): number {
  const said = existsSync(program) ? execFileSync(program, ['--version'], { encoding: 'utf8' }) : ''
  return Number(/^PgBouncer 1\.(\d+)/m.exec(said)?.[1] ?? Number.NaN)
}

/** The program that the environment names; null if it is not there or too old. */
export function pgbouncerProgram(): string | null {
  const program = process.env.HALFKEY_TEST_PGBOUNCER ?? DEBIAN
  return minorVersion(program) >= 21 ? program : null
}

/** Debian's program where it is too old for Halfkey, as in Debian 12; null otherwise. */
export const oldPgbouncerProgram = (): string | null => (minorVersion(DEBIAN) < 21 ? DEBIAN : null)

const PAGE = fileURLToPath(new URL('../../../../docs/operating.md', import.meta.url))

/** The settings that the documentation names. */
function documented(): Record<string, string> {
  const ini = /```ini\n\[databases\]\n[\s\S]*?\[pgbouncer\]\n([\s\S]*?)```/.exec(readFileSync(PAGE, 'utf8'))?.[1]
  if (ini === undefined) throw new Error('docs/operating.md has no pgbouncer.ini')
  const lines = ini.split('\n').flatMap((line) => /^(\w+) = (.*)$/.exec(line) ?? [])
  return Object.fromEntries(
    Array.from({ length: lines.length / 3 }, (_, at) => [lines[3 * at + 1] as string, lines[3 * at + 2] as string]),
  )
}

export interface PgBouncerProcess {
  port: number
  /** The same database and user as at `url`, through this PgBouncer. */
  through(url: string): string
  stop(): Promise<void>
}

/** Starts it before the server of `url`, for all its databases and this one user. `settings` replace documented ones; null removes one. */
export async function startPgBouncer(
  program: string,
  url: string,
  settings: Record<string, string | null> = {},
): Promise<PgBouncerProcess> {
  const { hostname, port: serverPort, username, password } = new URL(url)
  const folder = mkdtempSync(join(tmpdir(), 'hk-pgbouncer-'))
  const port = await freePort()
  const users = join(folder, 'userlist.txt')
  const all = {
    ...documented(),
    listen_addr: '127.0.0.1',
    listen_port: String(port),
    auth_file: users,
    // Empty: no socket beside the port.
    unix_socket_dir: '',
    ...settings,
  }
  const lines = Object.entries(all).flatMap(([name, value]) => (value === null ? [] : [`${name} = ${value}`]))
  const server = `host=${decodeURIComponent(hostname)} port=${serverPort || 5432}`
  const ini = join(folder, 'pgbouncer.ini')
  writeFileSync(ini, ['[databases]', `* = ${server}`, '[pgbouncer]', ...lines, ''].join('\n'))
  writeFileSync(users, `"${username}" "${decodeURIComponent(password)}"\n`)
  chmodSync(folder, 0o711)
  // PgBouncer refuses to run as root.
  const account = chooseAccount([])
  if (account !== null) for (const path of [folder, ini, users]) chownSync(path, account.uid, account.gid)
  const as = account === null ? {} : { uid: account.uid, gid: account.gid }
  const child: ChildProcess = spawn(program, ['--quiet', ini], { cwd: '/', stdio: 'ignore', ...as })
  const through = (to: string) => {
    const address = new URL(to)
    address.hostname = '127.0.0.1'
    address.port = String(port)
    return address.href
  }
  await eventually('PgBouncer', () => query({ connectionString: through(url) }, 'select 1').catch(() => null))
  return {
    port,
    through,
    async stop() {
      if (child.exitCode === null && child.signalCode === null) {
        const gone = once(child, 'exit')
        child.kill('SIGQUIT')
        await gone
      }
      rmSync(folder, { recursive: true, force: true })
    },
  }
}
