import { type Db, sql } from './db.ts'

/**
 * Waits until the database's log is durable up to `written`: on disk, and on its synchronous standbys where there are any. What
 * was committed without waiting for either could be lost in a crash or a failover: nobody may be told of it before.
 */
export async function awaitDurable(db: Db, written: string): Promise<void> {
  // A commit waits for both if its transaction wrote something: the shortest of records, which nobody reads. Only PostgreSQL
  // itself knows how far the standbys are: its view of them is closed to roles such as ours.
  await db.run(sql`
    select pg_logical_emit_message(true, 'halfkey', '')
    where pg_current_wal_flush_lsn() < ${written}::pg_lsn or current_setting('synchronous_standby_names') <> ''`)
}
