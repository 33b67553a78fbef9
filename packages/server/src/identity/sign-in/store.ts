import { type Db, sql } from '../../platform/db/db.ts'
import { type AppScope, inScope } from '../../platform/db/page.ts'
import { insertion } from '../../platform/db/rows.ts'
import type { Id } from '../../platform/ids.ts'
import { readRecord, type Sealed, sealed } from '../../platform/security/records/access.ts'
import { CODE_RECORD } from './code-record.ts'

/** A row of the table `sign_in_codes`. */
export interface CodeRow extends Sealed {
  tenant_id: Id<'ten'>
  hash: Buffer
  app_id: Id<'app'>
  session_id: Id<'ses'>
  redirect_uri: string
  code_challenge: string
  expires_at: Date
  used_at: Date | null
}

/** Inserts a code. */
export async function insertCode(db: Db, row: Omit<CodeRow, 'used_at' | 'mac'>): Promise<void> {
  await db.run(insertion('sign_in_codes', await sealed(db, CODE_RECORD, { ...row, mac: null })))
}

/** The code of this hash, locked until the transaction ends. */
export function lockCode(tx: Db, scope: AppScope, hash: Buffer): Promise<CodeRow | undefined> {
  return readRecord<CodeRow>(
    tx,
    CODE_RECORD,
    sql`select * from sign_in_codes where ${inScope(scope)} and hash = ${hash} for update`,
  )
}

/** Uses up a code. */
export async function useCode(tx: Db, tenantId: Id<'ten'>, hash: Buffer, now: Date): Promise<void> {
  await tx.run(sql`update sign_in_codes set used_at = ${now} where tenant_id = ${tenantId} and hash = ${hash}`)
}

/** The user of a session. Undefined if the session does not exist. */
export async function findSessionUser(
  db: Db,
  tenantId: Id<'ten'>,
  sessionId: Id<'ses'>,
): Promise<Id<'usr'> | undefined> {
  const row = await db.one<{ user_id: Id<'usr'> }>(
    sql`select user_id from sessions where tenant_id = ${tenantId} and id = ${sessionId}`,
  )
  return row?.user_id
}

const CODES_A_DELETION = 5_000

/** Deletes a portion of the codes that expired more than a day ago. @returns whether there may be more */
export async function deleteOldCodes(db: Db): Promise<boolean> {
  const gone = await db.run(sql`
    delete from sign_in_codes where (tenant_id, hash) in (
      select tenant_id, hash from sign_in_codes where expires_at < now() - interval '24 hours' limit ${CODES_A_DELETION})`)
  return gone === CODES_A_DELETION
}
