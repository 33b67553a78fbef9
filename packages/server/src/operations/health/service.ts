import { readMigrations } from '../../platform/db/migrate.ts'
import type { Deps, Lifecycle } from '../../platform/deps.ts'
import { VERSION } from '../../platform/version.ts'
import type { Check } from './schema.ts'
import { appliedMigrations, hasLiveWorker } from './store.ts'

type Finding = Pick<Check, 'state' | 'message'>

async function timed(deps: Deps, name: Check['name'], find: () => Promise<Finding>): Promise<Check> {
  const startedAt = performance.now()
  const finding = await find().catch((error: unknown): Finding => {
    deps.log.warn({ err: error, check: name }, 'readiness check failed')
    return { state: 'failing', message: 'The database did not respond.' }
  })
  return {
    name,
    ...finding,
    durationMs: Math.round((performance.now() - startedAt) * 10) / 10,
    checkedAt: deps.now().toISOString(),
  }
}

const ok: Finding = { state: 'ok', message: null }

async function workerState(deps: Deps): Promise<Finding> {
  const { worker } = deps.lifecycle
  if (worker !== null)
    return worker.alive()
      ? ok
      : { state: 'failing', message: 'The delivery worker has lost its connection to the database.' }
  // An API process takes requests without a worker: events wait in the outbox, so this is told but fails nothing.
  return (await hasLiveWorker(deps.probeDb))
    ? ok
    : { state: 'unknown', message: 'No worker is running. Events wait until one starts.' }
}

/** The probe has no key, so the answer does not say in what the database is behind: the log and `halfkey restore show` do. */
function floorState({ floor }: Deps): Finding {
  if (floor.closed() !== null)
    return {
      state: 'failing',
      message: 'The database is behind its floor, or could not be compared with it. Run: halfkey restore show',
    }
  return floor.isKept() === false ? { state: 'unknown', message: 'The floor cannot be read or written.' } : ok
}

/** Reports that the process runs. */
export function health(deps: Deps) {
  return {
    status: 'ok' as const,
    version: VERSION,
    uptimeSeconds: Math.floor((deps.now().getTime() - deps.lifecycle.startedAt.getTime()) / 1000),
  }
}

let releaseNames: Promise<string[]> | undefined

/** The names of this release's migrations. Files do not change under a running process: they are read once. */
function migrationNames(): Promise<string[]> {
  releaseNames ??= readMigrations().then(
    (all) => all.map((migration) => migration.name),
    (error: unknown) => {
      releaseNames = undefined
      throw error
    },
  )
  return releaseNames
}

async function look(deps: Deps): Promise<Check[]> {
  const names = await migrationNames()
  let applied: string[] = []
  const database = await timed(deps, 'database', async () => {
    applied = await appliedMigrations(deps.probeDb)
    return ok
  })
  const migrations = await timed(deps, 'migrations', async () =>
    names.every((name) => applied.includes(name))
      ? ok
      : { state: 'failing', message: 'The database lacks migrations of this release, or could not be reached.' },
  )
  const floor = await timed(deps, 'floor', async () => floorState(deps))
  const reached = database.state === 'ok' || deps.lifecycle.worker !== null
  const worker = await timed(deps, 'worker', async () =>
    reached ? workerState(deps) : { state: 'unknown', message: 'The database could not be reached.' },
  )
  return [database, migrations, worker, floor]
}

const REMEMBERED_MS = 250
const looks = new WeakMap<Lifecycle, Promise<Check[]>>()

/** One look at a time for all who ask, remembered for 250 ms: the keyless probe must not wear out the database. */
function lookOnce(deps: Deps): Promise<Check[]> {
  const { lifecycle } = deps
  let looking = looks.get(lifecycle)
  if (looking === undefined) {
    looking = look(deps)
    looks.set(lifecycle, looking)
    const forget = () => looks.delete(lifecycle)
    looking.then(() => setTimeout(forget, REMEMBERED_MS).unref(), forget)
  }
  return looking
}

/** Whether the process should get requests, with each reason. Results may be 250 ms old, except that stopping is always current. */
export async function readiness(deps: Deps): Promise<{ ready: boolean; checks: Check[] }> {
  const checks = [...(await lookOnce(deps))]
  if (deps.lifecycle.draining)
    checks.push(await timed(deps, 'shutdown', async () => ({ state: 'failing', message: 'This process is stopping.' })))
  return { ready: checks.every((check) => check.state !== 'failing'), checks }
}
