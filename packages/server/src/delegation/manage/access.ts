import type { Db } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import { failures } from '../../platform/http/errors.ts'
import type { Caller, Delegate } from '../../platform/http/route.ts'
import { isId } from '../../platform/ids.ts'
import { equalSecrets } from '../../platform/security/crypto.ts'
import { DELEGATED_SESSION_ERRORS, statusOf } from '../service.ts'
import type * as store from '../store.ts'

const fail = failures(DELEGATED_SESSION_ERRORS)

/** What executes or queries: a session's token, or a secret key where the session allows it. */
export interface Executor {
  caller: Caller
  delegate: Delegate | null
}

/**
 * The session that an executor may use, with its wallet's and user's state; locked where `look` locks.
 * @throws not_found, the same for another's and none; session_missing (401) where the token is needed
 */
export async function findLive<Row extends store.LiveRow>(
  look: (db: Db, now: Date, reach: store.Reach, id: string) => Promise<Row | undefined>,
  db: Db,
  deps: Deps,
  { caller, delegate }: Executor,
  id: string,
): Promise<Row> {
  const { tenantId, appId } = caller
  const row = isId('dse', id) ? await look(db, deps.now(), { tenantId, appId }, id) : undefined
  if (row === undefined) throw fail('not_found')
  if (delegate !== null) {
    if (!equalSecrets(delegate.tokenHash, row.token_hash)) throw fail('not_found')
    return row
  }
  if (caller.keyType !== 'secret') throw fail('not_found')
  if (!row.server_execute)
    throw fail('session_missing', [
      {
        field: 'authorization',
        code: 'session_missing',
        message:
          'This session executes by its token only: send it as a bearer token (it does not allow serverExecute).',
      },
    ])
  return row
}

/** That the session has not ended. @throws delegated_session_revoked, delegated_session_expired, delegated_session_exhausted */
export function requireActive(row: store.SessionRow, now: Date): void {
  const status = statusOf(row, now)
  if (status !== 'active') throw fail(`delegated_session_${status}`)
}

/** That session, wallet and user are live. @throws user_suspended, guest_expired, wallet_frozen, wallet_not_ready, and what `requireActive` throws */
export function requireLive(row: store.LiveRow, now: Date): void {
  requireActive(row, now)
  if (row.user_status !== 'active') throw fail('user_suspended')
  if (row.guest_over) throw fail('guest_expired')
  if (row.frozen) throw fail('wallet_frozen')
  if (row.wallet_status !== 'ready') throw fail('wallet_not_ready')
}
