import type { Db } from '../platform/db/db.ts'
import type { AppScope } from '../platform/db/page.ts'
import type { Deps } from '../platform/deps.ts'
import { existing, pathId } from '../platform/http/errors.ts'
import type { Caller, Delegate, Origin } from '../platform/http/route.ts'
import { type Limit, limitsOf } from './budgets/limits.ts'
import { fail } from './errors.ts'
import { requireDelegate } from './proofs/bound-key.ts'
import type * as store from './store.ts'

/** Who executes or queries: the holder of a session's token, or a secret key if the session allows it. */
export interface Executor {
  caller: Caller
  delegate: Delegate | null
}

/** An executor, and where the call came from. */
export interface ExecuteCall extends Executor {
  origin: Origin
}

/** A session with the budgets that hold for its wallet. */
export type Acting<Row extends store.LiveRow = store.LiveRow> = Row & { limits: readonly Limit[] }

/** Reads the budgets that hold for a session's wallet. `db`: the transaction, inside one. */
export async function withLimits<Row extends store.LiveRow>(db: Db, deps: Deps, row: Row): Promise<Acting<Row>> {
  const { tenant_id, app_id, wallet__budgets: own } = row
  return { ...row, limits: await limitsOf({ auth: deps.auth, db }, { tenant_id, app_id, own: own?.limits ?? [] }) }
}

/**
 * The session that an executor may use, with the state of its wallet and user; locked if `look` locks.
 * @throws not_found, also for sessions of others; session_missing (401) if the session needs its token; what `requireDelegate`
 * throws
 */
export async function findLive<Row extends store.LiveRow>(
  look: (db: Db, now: Date, reach: AppScope, id: string) => Promise<Row | undefined>,
  db: Db,
  deps: Deps,
  executor: Executor,
  id: string,
): Promise<Acting<Row>> {
  return withLimits(db, deps, await requireExecutor(look, db, deps, executor, id))
}

async function requireExecutor<Row extends store.LiveRow>(
  look: (db: Db, now: Date, reach: AppScope, id: string) => Promise<Row | undefined>,
  db: Db,
  deps: Deps,
  { caller, delegate }: Executor,
  id: string,
): Promise<Row> {
  const row = existing(await look(db, deps.now(), caller, pathId('dse', id)))
  if (delegate !== null) {
    requireDelegate(row, delegate)
    return row
  }
  if (caller.keyType !== 'secret') throw fail('not_found')
  if (row.server_execute && row.jkt === null) return row
  const message = "This session does not allow serverExecute. Send the session's token as a bearer token."
  throw fail('session_missing').about('authorization', message)
}
