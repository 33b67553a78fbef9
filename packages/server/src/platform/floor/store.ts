import { type Db, sql } from '../db/db.ts'
import { insertion } from '../db/rows.ts'
import { ACCEPTED_RESTORE_RECORD } from '../security/records/accepted-restore-record.ts'
import { readRecord, type Sealed, sealed } from '../security/records/access.ts'

interface AcceptedRow extends Sealed {
  id: string
  epoch: number
  accepted_at: Date
}

/** The epoch that the database is in: 0 until an earlier state was accepted. @throws record_tampered if the newest row is forged */
export async function readEpoch(db: Db): Promise<number> {
  const row = await readRecord<AcceptedRow>(
    db,
    ACCEPTED_RESTORE_RECORD,
    sql`select id, epoch, accepted_at, mac from accepted_restores order by epoch desc limit 1`,
  )
  return row?.epoch ?? 0
}

/** Rows that one statement looks at: usually there are a few, but somebody else may have written many. */
const PORTION = 500

/** All rows, in portions: those that no operator made, and the highest epoch of the others. */
async function* portions(db: Db): AsyncGenerator<{ forged: string[]; epoch: number }> {
  for (let after: string | null = null; ; ) {
    const rows: AcceptedRow[] = await db.query<AcceptedRow>(sql`
      select id, epoch, accepted_at, mac from accepted_restores
      where ${after}::text is null or id > ${after} order by id limit ${PORTION}`)
    const forged: string[] = []
    let epoch = 0
    for (const row of rows)
      if (await db.records.verifies(ACCEPTED_RESTORE_RECORD, { ...row })) epoch = Math.max(epoch, row.epoch)
      else forged.push(row.id)
    yield { forged, epoch }
    if (rows.length < PORTION) return
    after = rows.at(-1)?.id as string
  }
}

/** The epoch that an operator began last, whatever else the table says, and how many of its rows are forged. */
export async function readTrueEpoch(db: Db): Promise<{ epoch: number; forged: number }> {
  const all = { epoch: 0, forged: 0 }
  for await (const { epoch, forged } of portions(db)) {
    all.epoch = Math.max(all.epoch, epoch)
    all.forged += forged.length
  }
  return all
}

/** Removes the forged rows, in a transaction: the next epoch would not count beside them. */
export async function removeForged(tx: Db): Promise<void> {
  for await (const { forged } of portions(tx))
    if (forged.length > 0) await tx.run(sql`delete from accepted_restores where id = any(${forged})`)
}

/** The epoch that the database claims, for a look without the keys of records. */
export function readClaimedEpoch(db: Db): Promise<number> {
  return db.count(sql`select coalesce(max(epoch), 0) as n from accepted_restores`)
}

/** How often records with a MAC have changed. */
export function readChanges(db: Db): Promise<number> {
  return db.count(sql`select last_value as n from authority_changes`)
}

/** Up to where the database's log has been written. */
export async function writtenUpTo(db: Db): Promise<string> {
  return (await db.one<{ lsn: string }>(sql`select pg_current_wal_insert_lsn()::text as lsn`))?.lsn ?? '0/0'
}

/** Begins an epoch, in a transaction. */
export async function beginEpoch(tx: Db, epoch: number, now: Date): Promise<void> {
  const row: AcceptedRow = { id: String(epoch), epoch, accepted_at: now, mac: null }
  await tx.run(insertion('accepted_restores', await sealed(tx, ACCEPTED_RESTORE_RECORD, row)))
}
