import { type Db, sql } from '../../platform/db/db.ts'

/** Names of the migrations that the database has. Fails when it can't be reached. */
export async function appliedMigrations(db: Db): Promise<string[]> {
  return (await db.query<{ name: string }>(sql`select name from migrations`)).map((row) => row.name)
}

/** Whether any worker has sent a heartbeat recently. */
export async function hasLiveWorker(db: Db): Promise<boolean> {
  return (
    (await db.one(sql`select 1 from workers where heartbeat_at > now() - interval '15 seconds' limit 1`)) !== undefined
  )
}
