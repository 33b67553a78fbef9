import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { call, eventually, newDatabase, type Service, startService } from '../../../test/harness/harness.ts'
import { runCli } from '../cli/cli.ts'

/** An installation whose processes come and go: a key file, a floor, and databases that stand for earlier and later states. */
export interface Installation {
  floor: string
  /** Where its processes find everything. */
  settings(): Record<string, string>
  /** A process on a database of the installation, by default the present one. */
  start(settings?: Record<string, string>): Promise<Service>
  /** Notes the present state. No process may be running. @returns its database */
  copy(): Promise<string>
  /** From now on processes use this database. */
  use(databaseUrl: string): void
  /** Removes it, with all databases. */
  remove(): Promise<void>
}

const nameOf = (databaseUrl: string) => new URL(databaseUrl).pathname.slice(1)

/** Makes an empty installation. */
export async function newInstallation(): Promise<Installation> {
  const folder = mkdtempSync(join(tmpdir(), 'halfkey-floor-'))
  const databases = [await newDatabase('migrated')]
  let present = databases[0]?.url as string
  const floor = join(folder, 'floor')
  const installed = () => ({
    DATABASE_URL: present,
    HALFKEY_KEK_FILE: join(folder, 'kek.key'),
    HALFKEY_FLOOR: floor,
  })
  return {
    floor,
    settings: installed,
    start: (settings = {}) => startService({ ...installed(), ...settings }),
    async copy() {
      const copied = await newDatabase(nameOf(present))
      databases.push(copied)
      return copied.url
    },
    use(databaseUrl) {
      present = databaseUrl
    },
    async remove() {
      for (const { drop } of databases) await drop()
      rmSync(folder, { recursive: true })
    },
  }
}

/** Runs a command with the parts of a running service. */
export async function halfkey(service: Service, ...args: string[]) {
  const [out, err]: [string[], string[]] = [[], []]
  const exitCode = await runCli(args, {
    openDeps: async () => ({ deps: service.deps, close: async () => {} }),
    out: (line) => void out.push(line),
    err: (line) => void err.push(line),
  })
  return { exitCode, out: out.join('\n'), err: err.join('\n') }
}

export const readyz = (service: Service) => call(service.url, 'GET', '/readyz')

/** Waits until a service takes requests. */
export const isReady = (service: Service) => eventually('readiness', async () => (await readyz(service)).status === 200)

/** What stands in a floor. */
export const marksIn = (floor: string) => JSON.parse(readFileSync(floor, 'utf8').split('\n')[0] as string)
