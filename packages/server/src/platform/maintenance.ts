import type { Db } from './db/db.ts'
import type { Deps } from './deps.ts'

/** Periodic work beside deliveries: one step. @returns whether there is more to do at once */
export type MaintenanceTask = (db: Db) => Promise<boolean>

const HOUR_MS = 3_600_000

/** Repeats the task until it has nothing left, then pauses it for an hour. */
export function hourly(task: MaintenanceTask): MaintenanceTask {
  let doneAt = Number.NEGATIVE_INFINITY
  return async (db) => {
    if (performance.now() - doneAt < HOUR_MS) return false
    const more = await task(db)
    if (!more) doneAt = performance.now()
    return more
  }
}

/** Runs a task that waits for the network in parallel, so that other tasks and lost leases do not wait for it. */
export function detached(deps: Deps, task: MaintenanceTask): MaintenanceTask {
  let running = false
  const run = async (db: Db) => {
    running = true
    try {
      while (await task(db));
    } catch (error) {
      deps.log.error({ err: error }, 'a maintenance task failed')
    } finally {
      running = false
    }
  }
  return async (db) => {
    if (!running) void run(db)
    return false
  }
}
