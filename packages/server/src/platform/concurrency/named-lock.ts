import { type Db, sql } from '../db/db.ts'

/** Lets one transaction after the other do what `name` stands for, for example make a row that there is none of yet. */
export async function lockName(tx: Db, name: string): Promise<void> {
  await tx.run(sql`select pg_advisory_xact_lock(hashtextextended(${name}, 0))`)
}
