import type { Deps } from '../core/deps.ts'
import { readMigrations } from '../core/migrate.ts'
import { VERSION } from '../core/version.ts'
import type { Check } from './schema.ts'
import { appliedMigrations, hasLiveWorker } from './store.ts'

type Finding = Pick<Check, 'state' | 'message'>

async function timed(deps: Deps, name: Check['name'], look: () => Promise<Finding>): Promise<Check> {
  const startedAt = performance.now()
  const finding = await look().catch((error: unknown): Finding => {
    deps.log.warn({ err: error, check: name }, 'readiness check failed')
    return { state: 'failing', message: 'The database did not answer.' }
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
    return worker.alive() ? ok : { state: 'failing', message: 'The delivery worker has lost touch with the database.' }
  // An API process takes requests without a worker: events wait in the outbox, so this is told but fails nothing.
  return (await hasLiveWorker(deps.probeDb))
    ? ok
    : { state: 'unknown', message: 'No worker is running: events wait until one starts.' }
}

/** That the process runs. */
export function health(deps: Deps) {
  return {
    status: 'ok' as const,
    version: VERSION,
    uptimeSeconds: Math.floor((deps.now().getTime() - deps.lifecycle.startedAt.getTime()) / 1000),
  }
}

/** Whether it should get requests: each reason by name. */
export async function readiness(deps: Deps): Promise<{ ready: boolean; checks: Check[] }> {
  const names = (await readMigrations()).map((migration) => migration.name)
  let applied: string[] = []
  const checks = [
    await timed(deps, 'database', async () => {
      applied = await appliedMigrations(deps.probeDb)
      return ok
    }),
    await timed(deps, 'migrations', async () =>
      names.every((name) => applied.includes(name))
        ? ok
        : { state: 'failing', message: 'The database lacks migrations of this release, or was not reached.' },
    ),
  ]
  if (checks[0]?.state === 'ok' || deps.lifecycle.worker !== null)
    checks.push(await timed(deps, 'worker', () => workerState(deps)))
  else
    checks.push(
      await timed(deps, 'worker', async () => ({ state: 'unknown', message: 'The database was not reached.' })),
    )
  if (deps.lifecycle.draining)
    checks.push(await timed(deps, 'shutdown', async () => ({ state: 'failing', message: 'This process is stopping.' })))
  return { ready: checks.every((check) => check.state !== 'failing'), checks }
}
