import { type Db, type Sql, sql } from '../db/db.ts'
import type { Id } from '../ids.ts'
import { lockName } from './named-lock.ts'

/*
 * Who acts for a user locks the user's and the wallet's row in share, and several may at once. PostgreSQL lets more of
 * them in past somebody who waits to change the row, for as long as they overlap. Advisory locks are fair: who comes after
 * somebody that waits, waits behind them.
 */

/** An expression that takes a place among those who act for a user, until the transaction ends. */
export function sharedActLock(userId: Sql): Sql {
  return sql`pg_advisory_xact_lock_shared(hashtextextended(${userId}, 0))`
}

/** Waits for those who act for a user and keeps further ones out, until the transaction ends. Before their rows are locked. */
export const lockOutActs = (tx: Db, userId: Id<'usr'>): Promise<void> => lockName(tx, userId)
