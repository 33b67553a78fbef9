import { type Db, type Sql, sql } from '../../../platform/db/db.ts'
import type { Id } from '../../../platform/ids.ts'

/** What alerts and health look at. Counted by whole minutes, so up to a minute less. */
export const WINDOW_MINUTES = 15

/** Attempts of one webhook within the window. */
export interface RecentAttempts {
  attempts: number
  failed: number
}

/** The sums of `webhook_minutes` within the window, for rows that `of` picks. */
export const recentSums = (of: Sql) => sql`
  select coalesce(sum(m.attempts), 0)::int as attempts, coalesce(sum(m.failed), 0)::int as failed
  from webhook_minutes m where ${of} and m.minute > now() - ${WINDOW_MINUTES} * interval '1 minute'`

/** The recent attempts of a tenant's webhooks, by webhook; those without any are left out. */
export async function recentAttempts(
  db: Db,
  tenantId: Id<'ten'>,
  webhookIds: readonly string[],
): Promise<Map<string, RecentAttempts>> {
  if (webhookIds.length === 0) return new Map()
  const rows = await db.query<RecentAttempts & { id: string }>(sql`
    select w.id, s.attempts, s.failed from unnest(${webhookIds}::text[]) as w(id)
    cross join lateral (${recentSums(sql`m.tenant_id = ${tenantId} and m.webhook_id = w.id`)}) s
    where s.attempts > 0`)
  return new Map(rows.map(({ id, attempts, failed }) => [id, { attempts, failed }]))
}
