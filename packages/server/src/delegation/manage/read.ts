import type { Db } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import { type Caller, type CurrentUser, type Delegate, type Page, paging } from '../../platform/http/route.ts'
import { isId } from '../../platform/ids.ts'
import { equalSecrets } from '../../platform/security/crypto.ts'
import { resolveApp } from '../../tenancy/apps/service.ts'
import { fail } from '../errors.ts'
import type { DelegatedSession, ListDelegatedSessions } from '../schema.ts'
import { toSession } from '../session.ts'
import * as store from '../store.ts'

/** Who may see and end a session: a secret key, the wallet's owner, and the holder of the session's token. */
export interface Viewer {
  caller: Caller
  user: CurrentUser | null
  delegate: Delegate | null
}

function mayView(row: store.SessionRow, { caller, user, delegate }: Viewer): boolean {
  if (caller.keyType === 'secret') return true
  if (delegate !== null) return equalSecrets(delegate.tokenHash, row.token_hash)
  return user !== null && user.id === row.user_id
}

/** The session, if the viewer may see it; locked if `look` locks. @throws not_found */
export async function findVisible(
  look: typeof store.findSession,
  db: Db,
  viewer: Viewer,
  id: string,
): Promise<store.SessionRow> {
  const { tenantId, appId } = viewer.caller
  const row = isId('dse', id) ? await look(db, { tenantId, appId }, id) : undefined
  if (row === undefined || !mayView(row, viewer)) throw fail('not_found')
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
  const { page, pageSize, offset } = paging(query)
  const appId = query.app_id === undefined ? caller.appId : await resolveApp(deps, caller, query.app_id, 'app_id')
  const now = deps.now()
  const filter: store.SessionFilter = {
    tenantId: caller.tenantId,
    appId,
    walletId: query.wallet_id ?? null,
    userId: query.user_id ?? null,
    status: query.status ?? null,
    now,
  }
  const { rows, total } = await store.listSessions(deps.db, filter, { offset, pageSize })
  return { items: rows.map((row) => toSession(row, now)), total, page, pageSize }
}
