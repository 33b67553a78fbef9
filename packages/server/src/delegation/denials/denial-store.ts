import { and, type Db, sql } from '../../platform/db/db.ts'
import { type AppScope, inScope } from '../../platform/db/page.ts'
import type { Id } from '../../platform/ids.ts'

/** How many rows of a session are kept, the newest ones. */
const ROWS_PER_SESSION_MAX = 1_000
const ROWS_PER_DELETION = 5_000

/** The denials of a session by one rule in one minute. The amounts are those of the last one. */
export interface DenialRow {
  tenant_id: Id<'ten'>
  session_id: Id<'dse'>
  /** Start of the minute. */
  minute: Date
  rule: string
  app_id: Id<'app'>
  user_id: Id<'usr'>
  wallet_id: Id<'wal'>
  code: string
  message: string
  command: number | null
  facts: Record<string, unknown>
  n: number
  first_at: Date
  last_at: Date
}

/** Adds denials to their minutes, in the order of their keys, so that two processes never deadlock. */
export async function addDenials(db: Db, rows: readonly DenialRow[]): Promise<void> {
  const column = <T>(pick: (row: DenialRow) => T): T[] => rows.map(pick)
  await db.run(sql`
    insert into denials as d (tenant_id, session_id, minute, rule, app_id, user_id, wallet_id, code, message, command, facts, n, first_at, last_at)
    select t.tenant_id, t.session_id, t.minute, t.rule, s.app_id, s.user_id, s.wallet_id, t.code, t.message, t.command, t.facts::jsonb, t.n,
      t.first_at, t.last_at
    from unnest(${column((row) => row.tenant_id)}::text[], ${column((row) => row.session_id)}::text[],
      ${column((row) => row.minute)}::timestamptz[], ${column((row) => row.rule)}::text[], ${column((row) => row.code)}::text[],
      ${column((row) => row.message)}::text[], ${column((row) => row.command)}::integer[],
      ${column((row) => JSON.stringify(row.facts))}::text[], ${column((row) => row.n)}::bigint[],
      ${column((row) => row.first_at)}::timestamptz[], ${column((row) => row.last_at)}::timestamptz[])
      as t(tenant_id, session_id, minute, rule, code, message, command, facts, n, first_at, last_at)
    join delegated_sessions s on s.tenant_id = t.tenant_id and s.id = t.session_id
    order by t.tenant_id, t.session_id, t.minute, t.rule
    on conflict (tenant_id, session_id, minute, rule) do update set n = d.n + excluded.n, code = excluded.code,
      message = excluded.message, command = excluded.command, facts = excluded.facts, last_at = greatest(d.last_at, excluded.last_at)`)
}

/** Deletes the rows of a session beyond the newest thousand. */
export async function trimDenials(
  db: Db,
  { tenant_id, session_id }: Pick<DenialRow, 'tenant_id' | 'session_id'>,
): Promise<void> {
  const own = sql`tenant_id = ${tenant_id} and session_id = ${session_id}`
  await db.run(sql`
    delete from denials where ${own} and (minute, rule) < (
      select minute, rule from denials where ${own} order by minute desc, rule desc offset ${ROWS_PER_SESSION_MAX - 1} limit 1)`)
}

/** Deletes a batch of the rows older than a time, of all tenants. @returns whether there may be more */
export async function deleteOldDenials(db: Db, before: Date): Promise<boolean> {
  const gone = await db.run(sql`
    delete from denials where (tenant_id, session_id, minute, rule) in (
      select tenant_id, session_id, minute, rule from denials where minute < ${before} limit ${ROWS_PER_DELETION})`)
  return gone === ROWS_PER_DELETION
}

/** Which denials. Null means any. */
export interface DenialFilter {
  sessionId: string | null
  userId: string | null
  walletId: string | null
}

/** A page of denials, newest minute first, and how many rows match. */
export async function listDenials(
  db: Db,
  scope: AppScope,
  { sessionId, userId, walletId }: DenialFilter,
  { offset, pageSize }: { offset: number; pageSize: number },
): Promise<{ rows: DenialRow[]; total: number }> {
  const found = and([
    inScope(scope),
    ...(sessionId === null ? [] : [sql`session_id = ${sessionId}`]),
    ...(userId === null ? [] : [sql`user_id = ${userId}`]),
    ...(walletId === null ? [] : [sql`wallet_id = ${walletId}`]),
  ])
  const total = await db.count(sql`select count(*) as n from denials where ${found}`)
  const rows = await db.query<DenialRow>(sql`
    select * from denials where ${found} order by minute desc, last_at desc, session_id desc, rule offset ${offset} limit ${pageSize}`)
  return { rows, total }
}
