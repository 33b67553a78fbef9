import { type Db, sql } from '../../platform/db/db.ts'
import { type AppScope, inScope, readPage } from '../../platform/db/page.ts'
import { insertion, wire } from '../../platform/db/rows.ts'
import type { Page, PageQuery } from '../../platform/http/route.ts'
import type { Id } from '../../platform/ids.ts'
import type { EmailLanguage, EmailPurpose, MemberPurpose, SentEmail } from './schema.ts'

/** A row of the table `emails`. */
export interface EmailRow {
  tenant_id: Id<'ten'>
  id: Id<'eml'>
  /** Null for an email to a member. */
  app_id: Id<'app'> | null
  user_id: Id<'usr'> | null
  /** Of an email to a member: who it is for, if the address is a member's. */
  member_id: Id<'mem'> | null
  address: string
  purpose: EmailPurpose | MemberPurpose
  language: EmailLanguage
  content_sealed: Buffer | null
  status: SentEmail['status']
  attempts: number
  error: string | null
  next_at: Date | null
  expires_at: Date
  sent_at: Date | null
  created_at: Date
  updated_at: Date
}

/** An email of an app to somebody who uses it, or may. */
export type AppEmailRow = EmailRow & { app_id: Id<'app'>; purpose: EmailPurpose }

export const isOfApp = (row: EmailRow): row is AppEmailRow => row.app_id !== null

const toEmail = (row: AppEmailRow): SentEmail =>
  wire(row, 'id app_id user_id address purpose language status attempts error sent_at created_at updated_at')

/** Inserts an email. */
export async function insertEmail(tx: Db, row: EmailRow): Promise<void> {
  await tx.run(insertion('emails', row))
}

/** A page of the emails of apps, newest first. */
export function listEmails(
  db: Db,
  scope: AppScope,
  status: SentEmail['status'] | undefined,
  query: PageQuery,
): Promise<Page<SentEmail>> {
  // Written out, so that the planner sees the index over what failed.
  const having =
    status === 'failed' ? sql`status = 'failed'` : sql`(${status ?? null}::text is null or status = ${status ?? null})`
  return readPage(db, sql`from emails where ${inScope(scope)} and app_id is not null and ${having}`, query, toEmail)
}

/** Stores whose address an email went to, once that is known. */
export async function setUser(tx: Db, tenantId: Id<'ten'>, id: Id<'eml'>, userId: Id<'usr'>): Promise<void> {
  await tx.run(sql`update emails set user_id = ${userId} where tenant_id = ${tenantId} and id = ${id}`)
}

/** How long a worker has for an attempt before another takes the email over. */
const LEASE_SECONDS = 120

/** Takes emails that are due, the longest due first, each for one attempt. */
export function takeDue(db: Db, limit: number): Promise<EmailRow[]> {
  return db.query<EmailRow>(sql`
    with due as materialized (
      select tenant_id, id from emails where next_at <= now() order by next_at limit ${limit} for update skip locked)
    update emails e set attempts = e.attempts + 1, next_at = now() + ${LEASE_SECONDS} * interval '1 second'
    from due where e.tenant_id = due.tenant_id and e.id = due.id returning e.*`)
}

/** How an attempt ended. */
export type Outcome =
  | { status: 'sent'; keepsContent: boolean }
  | { status: 'failed'; error: string }
  | { status: 'queued'; error: string; afterSeconds: number }

/** Stores how an attempt ended, unless the email was taken over. What an email says is removed when it has ended. */
export async function recordOutcome(db: Db, row: EmailRow, outcome: Outcome, now: Date): Promise<void> {
  const ended = outcome.status !== 'queued'
  const keepsContent = outcome.status === 'sent' ? outcome.keepsContent : !ended
  const delay = outcome.status === 'queued' ? outcome.afterSeconds : null
  await db.run(sql`
    update emails set status = ${outcome.status}, error = ${outcome.status === 'sent' ? null : outcome.error},
      sent_at = ${outcome.status === 'sent' ? now : null}, updated_at = ${now},
      next_at = now() + ${delay}::int * interval '1 second',
      content_sealed = case when ${keepsContent} then content_sealed end
    where tenant_id = ${row.tenant_id} and id = ${row.id} and attempts = ${row.attempts} and status = 'queued'`)
}

/** The newest emails of all tenants that still have their content: those of the mailbox for development. */
export function listMailbox(db: Db, limit: number): Promise<EmailRow[]> {
  return db.query<EmailRow>(sql`
    select * from emails where status = 'sent' and content_sealed is not null order by id desc limit ${limit}`)
}

const EMAILS_A_DELETION = 5_000

/** Deletes a portion of the emails that are past their retention. @returns whether there may be more */
export async function deleteOldEmails(db: Db, retentionMs: number): Promise<boolean> {
  const gone = await db.run(sql`
    delete from emails where (tenant_id, id) in (
      select tenant_id, id from emails
      where created_at < now() - ${Math.round(retentionMs / 1000)} * interval '1 second' limit ${EMAILS_A_DELETION})`)
  return gone === EMAILS_A_DELETION
}
