import type { Db } from '../../platform/db/db.ts'
import { sql } from '../../platform/db/db.ts'
import { type AppScope, inScope, readRecordPage } from '../../platform/db/page.ts'
import { insertion, json, matching, update } from '../../platform/db/rows.ts'
import type { Page, PageQuery } from '../../platform/http/route.ts'
import type { Id } from '../../platform/ids.ts'
import { readRecord, readRecords, readToEnd, resealed, sealed } from '../../platform/security/records/access.ts'
import type { RecordRow } from '../../platform/security/records/kind.ts'
import { APPROVAL_RECORD, type ApprovalRow } from './approval-record.ts'
import { ownerAlone, type Quorum, quorumKey } from './approvers/quorum.ts'

const RECIPIENTS_MAX = 1_000

/** Inserts a request. @returns false, and writes nothing, if the session has an open one by the same rule */
export async function insertApproval(tx: Db, row: ApprovalRow): Promise<boolean> {
  const { document, assertion, ...rest } = await sealed(tx, APPROVAL_RECORD, row)
  const written = await tx.run(sql`
    ${insertion('approvals', { ...rest, document: json(document), assertion: json(assertion) })}
    on conflict (tenant_id, delegated_session_id, rule) where status = 'pending' do nothing`)
  return written === 1
}

/** An approval. */
export function findApproval(db: Db, scope: AppScope, id: Id<'apr'>): Promise<ApprovalRow | undefined> {
  return readRecord<ApprovalRow>(
    db,
    APPROVAL_RECORD,
    sql`select * from approvals where ${inScope(scope)} and id = ${id}`,
  )
}

/** The same to end it: see `readToEnd`. The transaction that it belongs to is locked. */
export async function findApprovalToEnd(tx: Db, tenantId: Id<'ten'>, id: Id<'apr'>): Promise<ApprovalRow | undefined> {
  const [row] = await readToEnd<ApprovalRow>(
    tx,
    APPROVAL_RECORD,
    sql`select * from approvals where tenant_id = ${tenantId} and id = ${id}`,
  )
  return row
}

/** Stores a decision. The transaction that the approval belongs to is locked. */
export async function storeDecision(tx: Db, before: ApprovalRow): Promise<ApprovalRow> {
  const row = await resealed(tx, APPROVAL_RECORD, before)
  const stored = { ...row, assertion: json(row.assertion) }
  await tx.run(
    update('approvals', stored, 'status reason passkey_id assertion decided_at decided_by updated_at version mac'),
  )
  tx.afterCommit(() => tx.records.committed(APPROVAL_RECORD, row as object as RecordRow))
  return row
}

/** What a session has asked for: its open requests by their rules, and how many since a time. */
export async function askedBy(
  db: Db,
  { tenant_id: tenantId, id }: { tenant_id: Id<'ten'>; id: Id<'dse'> },
  since: Date,
): Promise<{ open: { id: Id<'apr'>; rule: string }[]; recent: number }> {
  const own = sql`tenant_id = ${tenantId} and delegated_session_id = ${id}`
  const open = await db.query<{ id: Id<'apr'>; rule: string }>(
    sql`select id, rule from approvals where ${own} and status = 'pending'`,
  )
  const recent = await db.count(sql`select count(*) as n from approvals where ${own} and created_at > ${since}`)
  return { open, recent }
}

/** Lets one session of a wallet ask at a time, until the transaction ends. After its session is locked. */
export async function lockAsking(tx: Db, { wallet_id: walletId }: { wallet_id: Id<'wal'> }): Promise<void> {
  await tx.run(sql`select pg_advisory_xact_lock(hashtextextended(${walletId}, 6))`)
}

/** What all sessions of a wallet have asked for: how many requests are open at `now`, and how many were made since a time. */
export async function askedOf(
  db: Db,
  { tenant_id: tenantId, wallet_id: walletId }: { tenant_id: Id<'ten'>; wallet_id: Id<'wal'> },
  { since, now }: { since: Date; now: Date },
): Promise<{ open: number; recent: number }> {
  const own = sql`tenant_id = ${tenantId} and wallet_id = ${walletId}`
  const isOpen = sql`status = 'pending' and expires_at > ${now}`
  const open = await db.count(sql`select count(*) as n from approvals where ${own} and ${isOpen}`)
  const recent = await db.count(sql`select count(*) as n from approvals where ${own} and created_at > ${since}`)
  return { open, recent }
}

/** Which of these parties a quorum has, by `now`, approved a payment of a wallet to that happened. */
export async function approvedRecipients(
  db: Db,
  { tenant_id: tenantId, wallet_id: walletId, user_id: ownerId }: OfOwner,
  quorum: Quorum,
  parties: readonly string[],
  now: Date,
): Promise<ReadonlySet<string>> {
  if (parties.length === 0) return new Set()
  const key = quorumKey(quorum)
  const isOwner = key === quorumKey(ownerAlone(ownerId))
  const rows = await readRecords<ApprovalRow>(
    db,
    APPROVAL_RECORD,
    sql`
    select a.* from unnest(${parties.slice(0, RECIPIENTS_MAX)}::text[]) p(party) cross join lateral (
      select * from approvals
      where tenant_id = ${tenantId} and wallet_id = ${walletId} and status = 'executed' and recipients @> array[p.party]
        and decided_at <= ${now} and case when approvers is null then ${isOwner} else exists (
          select from jsonb_array_elements(document::jsonb -> 'approvers') asked where asked = ${key}::jsonb) end
      order by id desc limit 1) a`,
  )
  return new Set(rows.flatMap(({ recipients }) => recipients))
}

/** A wallet, and who owns it. */
export interface OfOwner {
  tenant_id: Id<'ten'>
  wallet_id: Id<'wal'>
  user_id: Id<'usr'>
}

/** Which approvals. Null and undefined match everything. */
export interface ApprovalFilter {
  tenant_id: Id<'ten'>
  app_id: Id<'app'> | null
  user_id: string | null | undefined
  wallet_id: string | null | undefined
  delegated_session_id: string | null | undefined
  status: string | null | undefined
}

/** A page of approvals, newest first. `approver`: only those that name this user. */
export function listApprovals(
  db: Db,
  filter: ApprovalFilter,
  approver: string | null,
  query: PageQuery,
): Promise<Page<ApprovalRow>> {
  const named = approver === null ? sql`true` : sql`approvers @> array[${approver}::text]`
  const found = sql`from approvals where ${matching({ ...filter })} and ${named}`
  return readRecordPage(db, APPROVAL_RECORD, found, query, (row: ApprovalRow) => row)
}
