import { type Db, type Sql, sql } from '../../platform/db/db.ts'
import { type AppScope, readRecordPage } from '../../platform/db/page.ts'
import { matching } from '../../platform/db/rows.ts'
import type { Page, PageQuery } from '../../platform/http/route.ts'
import type { DelegatedSession } from '../schema.ts'
import { SESSION_RECORD } from '../session-record.ts'
import type { SessionRow } from '../store.ts'

/** What sessions to list. Undefined matches everything. */
interface SessionFilter extends AppScope {
  walletId: string | undefined
  userId: string | undefined
  status: DelegatedSession['status'] | undefined
}

function found({ tenantId, appId, walletId, userId, status }: SessionFilter, now: Date): Sql {
  const all = matching({ tenant_id: tenantId, app_id: appId, wallet_id: walletId, user_id: userId })
  if (status === undefined) return all
  if (status === 'active') return sql`${all} and status = 'active' and expires_at > ${now}`
  if (status === 'expired') return sql`${all} and (status = 'expired' or (status = 'active' and expires_at <= ${now}))`
  return sql`${all} and status = ${status}`
}

/** A page of the sessions that match a filter, newest first. */
export function listSessions<T>(
  db: Db,
  now: Date,
  filter: SessionFilter,
  query: PageQuery,
  toItem: (row: SessionRow) => T,
): Promise<Page<T>> {
  return readRecordPage(db, SESSION_RECORD, sql`from delegated_sessions where ${found(filter, now)}`, query, toItem)
}
