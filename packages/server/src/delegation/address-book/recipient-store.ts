import { type Db, sql } from '../../platform/db/db.ts'
import { insertion } from '../../platform/db/rows.ts'
import type { Id } from '../../platform/ids.ts'
import { readRecords, readToEnd, sealed } from '../../platform/security/records/access.ts'
import { RECIPIENT_RECORD, type RecipientRow } from './recipient-record.ts'

/** A wallet whose address book is meant. */
export interface OfWallet {
  tenant_id: Id<'ten'>
  wallet_id: Id<'wal'>
}

/** Adds an entry, in the transaction that holds its wallet. @returns false, and writes nothing, if the wallet has the party already */
export async function insertRecipient(tx: Db, row: RecipientRow): Promise<boolean> {
  const written = await tx.run(sql`
    ${insertion('wallet_recipients', await sealed(tx, RECIPIENT_RECORD, row))}
    on conflict (tenant_id, wallet_id, recipient) do nothing`)
  return written === 1
}

/** All entries of a wallet, newest first. */
export function listRecipients(db: Db, { tenant_id, wallet_id }: OfWallet): Promise<RecipientRow[]> {
  return readRecords<RecipientRow>(
    db,
    RECIPIENT_RECORD,
    sql`select * from wallet_recipients where tenant_id = ${tenant_id} and wallet_id = ${wallet_id} order by id desc`,
  )
}

/** The entries of a wallet for these parties. */
export function findRecipients(
  db: Db,
  { tenant_id, wallet_id }: OfWallet,
  parties: readonly string[],
): Promise<RecipientRow[]> {
  return readRecords<RecipientRow>(
    db,
    RECIPIENT_RECORD,
    sql`
    select * from wallet_recipients
    where tenant_id = ${tenant_id} and wallet_id = ${wallet_id} and recipient = any(${parties}::text[])`,
  )
}

/** Removes an entry, whether its row verifies or not. @returns it, or undefined if the wallet has none with this id */
export async function deleteRecipient(
  tx: Db,
  { tenant_id, wallet_id }: OfWallet,
  id: Id<'rcp'>,
): Promise<RecipientRow | undefined> {
  const [row] = await readToEnd<RecipientRow>(
    tx,
    RECIPIENT_RECORD,
    sql`
    delete from wallet_recipients where tenant_id = ${tenant_id} and wallet_id = ${wallet_id} and id = ${id} returning *`,
  )
  return row
}
