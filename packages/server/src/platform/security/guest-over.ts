import { type Sql, sql } from '../db/db.ts'

/** Whether `g`, a row of guests or null, is a guest session that has ended, even if it is not swept yet. */
export function guestOver(now: Date): Sql {
  return sql`coalesce(g.status = 'expired' or (g.status = 'active' and g.expires_at <= ${now}), false)`
}
