import type { Db } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import { existing, pathId } from '../../platform/http/errors.ts'
import type { Caller, CurrentUser, Delegate, Page } from '../../platform/http/route.ts'
import { listScope } from '../../tenancy/apps/service.ts'
import { fail } from '../errors.ts'
import { requireDelegate } from '../proofs/bound-key.ts'
import type { DelegatedSession, ListDelegatedSessions } from '../schema.ts'
import { toSession } from '../session.ts'
import * as store from '../store.ts'
import { listSessions } from './list-store.ts'

/** Who may see and end a session: a secret key, the wallet's owner, and the holder of the session's token. */
export interface Viewer {
  caller: Caller
  user: CurrentUser | null
  delegate: Delegate | null
}

function mayView(row: store.SessionRow, { caller, user, delegate }: Viewer): boolean {
  if (caller.keyType === 'secret') return true
  if (delegate !== null) {
    requireDelegate(row, delegate)
    return true
  }
  return user !== null && user.id === row.user_id
}

/** The session, if the viewer may see it; locked if `look` locks. @throws not_found */
export async function findVisible(
  look: typeof store.findSession,
  db: Db,
  viewer: Viewer,
  id: string,
): Promise<store.SessionRow> {
  const row = existing(await look(db, viewer.caller, pathId('dse', id)))
  if (!mayView(row, viewer)) throw fail('not_found')
  return row
}

/** One session. @throws not_found */
export async function getDelegatedSession(deps: Deps, viewer: Viewer, id: string): Promise<DelegatedSession> {
  return toSession(await findVisible(store.findSession, deps.db, viewer, id), deps.now())
}

/** A page of the sessions that match a filter, newest first. */
export async function listDelegatedSessions(
  deps: Deps,
  caller: Caller,
  query: ListDelegatedSessions,
): Promise<Page<DelegatedSession>> {
  const { wallet_id: walletId, user_id: userId, status } = query
  const filter = { ...(await listScope(deps, caller, query)), walletId, userId, status }
  const now = deps.now()
  return listSessions(deps.db, now, filter, query, (row) => toSession(row, now))
}
