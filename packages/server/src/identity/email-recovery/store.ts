import { type Db, sql } from '../../platform/db/db.ts'
import { type AppScope, inScope, readRecordPage } from '../../platform/db/page.ts'
import { insertion, update, wire } from '../../platform/db/rows.ts'
import type { Page, PageQuery } from '../../platform/http/route.ts'
import type { Id } from '../../platform/ids.ts'
import { readRecord, readToEnd, resealed, sealed, type Versioned } from '../../platform/security/records/access.ts'
import type { RecordRow } from '../../platform/security/records/kind.ts'
import { USER_RECORD } from '../../platform/security/records/user-record.ts'
import type { EmailLanguage } from '../emails/schema.ts'
import { listCredential, type UserRow, unlistCredential } from '../users/service.ts'
import { RECOVERY_RECORD } from './recovery-record.ts'
import type { EmailRecovery, EndedBy } from './schema.ts'

/** A row of the table `email_recoveries`. */
export interface RecoveryRow extends Versioned {
  tenant_id: Id<'ten'>
  id: Id<'rcv'>
  app_id: Id<'app'>
  user_id: Id<'usr'>
  email_key: string
  language: EmailLanguage
  status: Exclude<EmailRecovery['status'], 'ready'>
  available_at: Date
  expires_at: Date
  told_at: Date | null
  reminded_at: Date | null
  due_at: Date | null
  ended_at: Date | null
  ended_by: EndedBy | null
  passkey_id: Id<'pky'> | null
  created_at: Date
  updated_at: Date
}

/** Whether a recovery gives a new passkey now: its wait is over, and its user was told twice. */
export const isReady = (row: RecoveryRow, now: Date): boolean =>
  row.status === 'pending' &&
  row.told_at !== null &&
  row.reminded_at !== null &&
  row.available_at <= now &&
  now < row.expires_at

/** A row in its API form. */
export function toRecovery(row: RecoveryRow, now: Date): EmailRecovery {
  const over = row.status === 'pending' && row.expires_at <= now
  const status: EmailRecovery['status'] = isReady(row, now) ? 'ready' : over ? 'expired' : row.status
  return wire(
    { ...row, status },
    'id user_id app_id status available_at expires_at ended_at ended_by passkey_id created_at updated_at',
  )
}

/** Inserts a recovery, which its user's record lists from then on. */
export async function insertRecovery(tx: Db, row: RecoveryRow): Promise<void> {
  await listCredential(tx, row.tenant_id, row.user_id, row.id)
  await tx.run(insertion('email_recoveries', await sealed(tx, RECOVERY_RECORD, row)))
}

/**
 * The pending recovery of a user, whose record is locked, verified and listed there: one that ended does not come back.
 * @throws record_tampered
 */
export async function lockPending(tx: Db, user: UserRow): Promise<RecoveryRow | undefined> {
  const row = await readRecord<RecoveryRow>(
    tx,
    RECOVERY_RECORD,
    sql`
    select * from email_recoveries
    where tenant_id = ${user.tenant_id} and user_id = ${user.id} and status = 'pending' for update`,
  )
  if (row === undefined) return undefined
  await tx.records.requireListed(USER_RECORD, user as object as RecordRow, 'credentials', row.id)
  return row
}

/**
 * Takes the pending recovery of a user off their list and locks both, to end it: see `readToEnd`.
 * @param id only this one; null: whichever it is
 */
export async function lockPendingToEnd(
  tx: Db,
  tenantId: Id<'ten'>,
  userId: Id<'usr'>,
  id: Id<'rcv'> | null = null,
): Promise<RecoveryRow | undefined> {
  const pending = sql`
    tenant_id = ${tenantId} and user_id = ${userId} and status = 'pending' and (${id}::text is null or id = ${id})`
  const found = await tx.one<{ id: Id<'rcv'> }>(sql`select id from email_recoveries where ${pending}`)
  if (found === undefined) return undefined
  // The user first, as everywhere.
  await unlistCredential(tx, tenantId, userId, found.id)
  const [row] = await readToEnd<RecoveryRow>(
    tx,
    RECOVERY_RECORD,
    sql`select * from email_recoveries where ${pending} and id = ${found.id} for update`,
  )
  return row
}

/** Stores how a recovery goes on, in the transaction that holds it. */
export async function storeRecovery(tx: Db, before: RecoveryRow): Promise<RecoveryRow> {
  const row = await resealed(tx, RECOVERY_RECORD, before)
  await tx.run(
    update(
      'email_recoveries',
      row,
      'status available_at expires_at told_at reminded_at due_at ended_at ended_by passkey_id updated_at version mac',
    ),
  )
  tx.afterCommit(() => tx.records.committed(RECOVERY_RECORD, row as object as RecordRow))
  return row
}

/** How many recoveries of a user began since a time, and when the first of them did. */
export async function countSince(
  tx: Db,
  tenantId: Id<'ten'>,
  userId: Id<'usr'>,
  since: Date,
): Promise<{ n: number; first: Date | null }> {
  const row = await tx.one<{ n: number; first: Date | null }>(sql`
    select count(*)::int as n, min(created_at) as first from email_recoveries
    where tenant_id = ${tenantId} and user_id = ${userId} and created_at > ${since}`)
  return row ?? { n: 0, first: null }
}

/** A recovery that the key sees. */
export function findRecovery(db: Db, scope: AppScope, id: Id<'rcv'>): Promise<RecoveryRow | undefined> {
  return readRecord<RecoveryRow>(
    db,
    RECOVERY_RECORD,
    sql`select * from email_recoveries where ${inScope(scope)} and id = ${id}`,
  )
}

/** A page of a user's recoveries, newest first. */
export function listRecoveries(
  db: Db,
  tenantId: Id<'ten'>,
  userId: Id<'usr'>,
  now: Date,
  query: PageQuery,
): Promise<Page<EmailRecovery>> {
  const found = sql`from email_recoveries where tenant_id = ${tenantId} and user_id = ${userId}`
  return readRecordPage(db, RECOVERY_RECORD, found, query, (row: RecoveryRow) => toRecovery(row, now))
}

/** Recoveries of all tenants that a worker has to go on with, as they were when they were read. */
export function listDue(db: Db, now: Date, limit: number): Promise<RecoveryRow[]> {
  return db.query<RecoveryRow>(
    sql`select * from email_recoveries where due_at <= ${now} order by due_at limit ${limit}`,
  )
}

/** One of them, to go on with: locked, if nobody was faster. It may have been changed by somebody else: see `readToEnd`. */
export async function lockDue(
  tx: Db,
  { tenant_id: tenantId, id }: RecoveryRow,
  now: Date,
): Promise<RecoveryRow | undefined> {
  const [row] = await readToEnd<RecoveryRow>(
    tx,
    RECOVERY_RECORD,
    sql`
    select * from email_recoveries where tenant_id = ${tenantId} and id = ${id} and due_at <= ${now} for update`,
  )
  return row
}

/** Has a worker come back to a recovery later, so that one that fails does not hold up others. */
export async function postpone(db: Db, { tenant_id: tenantId, id }: RecoveryRow, until: Date): Promise<void> {
  await db.run(
    sql`update email_recoveries set due_at = ${until} where tenant_id = ${tenantId} and id = ${id} and due_at <= ${until}`,
  )
}

const RECOVERIES_A_DELETION = 5_000

/** Deletes a portion of the recoveries that ended long ago. @returns whether there may be more */
export async function deleteOldRecoveries(db: Db): Promise<boolean> {
  const gone = await db.run(sql`
    delete from email_recoveries where (tenant_id, id) in (
      select tenant_id, id from email_recoveries
      where created_at < now() - 120 * interval '24 hours' and status <> 'pending' limit ${RECOVERIES_A_DELETION})`)
  return gone === RECOVERIES_A_DELETION
}
