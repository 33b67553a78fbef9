import { type Db, type Sql, sql } from '../../platform/db/db.ts'
import { json, matching } from '../../platform/db/rows.ts'
import type { Id } from '../../platform/ids.ts'
import type { Holding, TokenPlace } from '../../platform/ports/tokens.ts'

/** How many holdings one statement stores. */
const CHUNK = 1_000

/** How far a ledger was read, as the table holds it. */
export interface CursorRow {
  ledger: string
  generation: number
  scope: string
  ledger_offset: number
  ledger_at: Date | null
  last_offset: number | null
  last_update_id: string | null
  read_at: Date
  /** When the generation began, and when the scope did. */
  begun_at: Date
  scope_at: Date
  /** Since when an update is missing that could not be read; null if none is. */
  stale_since: Date | null
}

export const placeOf = ({ ledger_offset: offset, last_offset, last_update_id }: CursorRow): TokenPlace => ({
  offset,
  last: last_offset === null || last_update_id === null ? null : { offset: last_offset, updateId: last_update_id },
})

export function findCursor(db: Db, ledger: string): Promise<CursorRow | undefined> {
  return db.one<CursorRow>(sql`select * from token_cursors where ledger = ${ledger}`)
}

/** Locks the cursor; undefined if it is not where `from` was read any more. */
export function lockCursor(tx: Db, from: CursorRow): Promise<CursorRow | undefined> {
  return tx.one<CursorRow>(sql`
    select * from token_cursors
    where ledger = ${from.ledger} and generation = ${from.generation} and ledger_offset = ${from.ledger_offset}
      and last_update_id is not distinct from ${from.last_update_id}
    for update`)
}

/** Begins a generation: all is read again. @returns false if another process has begun one since `from` was read */
export async function beginGeneration(
  db: Db,
  from: CursorRow | undefined,
  row: Omit<CursorRow, 'generation' | 'stale_since'>,
): Promise<boolean> {
  const begun = await db.run(sql`
    insert into token_cursors (ledger, generation, scope, ledger_offset, ledger_at, last_offset, last_update_id, read_at, begun_at, scope_at)
    values (${row.ledger}, 1, ${row.scope}, ${row.ledger_offset}, ${row.ledger_at}, ${row.last_offset}, ${row.last_update_id},
      ${row.read_at}, ${row.begun_at}, ${row.scope_at})
    on conflict (ledger) do update set generation = token_cursors.generation + 1, scope = excluded.scope,
      ledger_offset = excluded.ledger_offset, ledger_at = excluded.ledger_at, last_offset = excluded.last_offset,
      last_update_id = excluded.last_update_id, read_at = excluded.read_at, begun_at = excluded.begun_at,
      scope_at = excluded.scope_at, stale_since = null
    where token_cursors.generation = ${from?.generation ?? 0}`)
  return begun === 1
}

/** Moves a locked cursor. */
export async function moveCursor(tx: Db, row: CursorRow): Promise<void> {
  await tx.run(sql`
    update token_cursors
    set ledger_offset = ${row.ledger_offset}, ledger_at = ${row.ledger_at}, last_offset = ${row.last_offset},
      last_update_id = ${row.last_update_id}, read_at = ${row.read_at}, stale_since = ${row.stale_since}
    where ledger = ${row.ledger}`)
}

/** A wallet whose holdings are followed. */
export interface FollowedWallet {
  tenant_id: Id<'ten'>
  wallet_id: Id<'wal'>
  app_id: Id<'app'>
  user_id: Id<'usr'>
  party_id: string
}

/** What of a wallet is read and followed: each apart from the other, as others decide how much there is of the offers. */
export type Kind = 'holdings' | 'offers'

/** A wallet whose holdings or offers are to be read. */
export interface UnreadWallet extends FollowedWallet {
  kind: Kind
  created_at: Date
  /** What counted when they were read the last time, by registry; empty if they never were. */
  scopes: string[]
  /** How often in succession they could not be read. */
  failures: number
}

/**
 * Wallets, of all tenants, whose holdings or offers were not read in this generation and are due. Half of them are new ones and half are
 * to be read again, each in the order of their queue: neither keeps the other waiting.
 */
export function listUnread({ db, now }: { db: Db; now: Date }, { ledger, generation }: CursorRow, limit: number) {
  const half = Math.ceil(limit / 2)
  return db.query<UnreadWallet>(sql`
    select v.tenant_id, v.wallet_id, v.kind, w.app_id, w.user_id, v.party_id, w.created_at, v.scopes, v.failures
    from (
      (select * from token_views
       where ledger = ${ledger} and generation = 0 and due_at <= ${now} order by due_at, kind limit ${half})
      union all
      (select * from token_views
       where ledger = ${ledger} and generation > 0 and generation < ${generation} and due_at <= ${now}
       order by generation, due_at, kind limit ${half})
    ) v join wallets w on w.tenant_id = v.tenant_id and w.id = v.wallet_id`)
}

/** Stores that a wallet was read in a generation. @returns whether it is still there, and not read yet */
export async function putView(
  tx: Db,
  { generation }: CursorRow,
  { tenant_id: tenantId, wallet_id: walletId, kind }: UnreadWallet,
  scopes: readonly string[],
): Promise<boolean> {
  const put = await tx.run(sql`
    update token_views set generation = ${generation}, scopes = ${scopes}::text[], failures = 0, problem = null
    where tenant_id = ${tenantId} and wallet_id = ${walletId} and kind = ${kind} and generation < ${generation}`)
  return put === 1
}

/** Stores that a wallet could not be read, unless another process has read it meanwhile. `problem`: why, where it is told; null leaves it as it is. */
export async function putFailure(
  db: Db,
  { generation }: CursorRow,
  { tenant_id: tenantId, wallet_id: walletId, kind, failures }: UnreadWallet,
  { problem, dueAt }: { problem: string | null; dueAt: Date },
): Promise<void> {
  await db.run(sql`
    update token_views set problem = coalesce(${problem}::text, problem), due_at = ${dueAt}, failures = ${failures + 1}
    where tenant_id = ${tenantId} and wallet_id = ${walletId} and kind = ${kind} and failures = ${failures} and generation < ${generation}`)
}

/** The wallets of these parties of which this is followed. */
export function listFollowed(
  tx: Db,
  { ledger, generation }: CursorRow,
  kind: Kind,
  parties: readonly string[],
): Promise<FollowedWallet[]> {
  return tx.query<FollowedWallet>(sql`
    select v.tenant_id, v.wallet_id, v.party_id, w.app_id, w.user_id
    from token_views v join wallets w on w.tenant_id = v.tenant_id and w.id = v.wallet_id
    where v.ledger = ${ledger} and v.party_id = any(${parties}::text[]) and v.kind = ${kind} and v.generation = ${generation}
      and v.problem is null
    order by v.tenant_id, v.wallet_id
    for key share of w`)
}

/** Something of a holding that was stored or is gone. */
export interface Changed {
  tenant_id: Id<'ten'>
  wallet_id: Id<'wal'>
  contract_id: string
  admin: string
  instrument: string
  /** In its shortest form. */
  amount: string
  is_locked: boolean
}

/** Stores holdings of a wallet. @returns those that were not there; `is_new`: those that never were */
export async function putHoldings(
  tx: Db,
  ledger: string,
  { tenant_id: tenantId, wallet_id: walletId }: FollowedWallet,
  holdings: readonly Holding[],
): Promise<(Changed & { is_new: boolean })[]> {
  const changed: (Changed & { is_new: boolean })[] = []
  for (let from = 0; from < holdings.length; from += CHUNK) {
    const some = holdings.slice(from, from + CHUNK)
    const rows = await tx.query<Changed & { is_new: boolean }>(sql`
      insert into token_holdings (tenant_id, wallet_id, contract_id, ledger, admin, instrument, amount, lock, created_at)
      select ${tenantId}, ${walletId}, h.contract_id, ${ledger}, h.admin, h.instrument, h.amount::numeric, h.lock::json, h.created_at
      from unnest(${some.map((each) => each.contractId)}::text[], ${some.map((each) => each.instrument.admin)}::text[],
        ${some.map((each) => each.instrument.id)}::text[], ${some.map((each) => each.amount)}::text[],
        ${some.map((each) => json(each.lock))}::text[], ${some.map((each) => each.createdAt.toISOString())}::timestamptz[])
        as h(contract_id, admin, instrument, amount, lock, created_at)
      on conflict (tenant_id, wallet_id, contract_id) do update set archived_at = null
        where token_holdings.archived_at is not null
      returning tenant_id, wallet_id, contract_id, admin, instrument, trim_scale(amount)::text as amount,
        lock is not null as is_locked, xmax = 0 as is_new`)
    changed.push(...rows)
  }
  return changed
}

/** Marks holdings as gone. @returns those that were there */
export function archiveHoldings(tx: Db, ledger: string, ids: readonly string[], now: Date): Promise<Changed[]> {
  return tx.query<Changed>(sql`
    update token_holdings set archived_at = ${now}
    where ledger = ${ledger} and contract_id = any(${ids}::text[]) and archived_at is null
    returning tenant_id, wallet_id, contract_id, admin, instrument, trim_scale(amount)::text as amount,
      lock is not null as is_locked`)
}

/** Marks all holdings of a wallet but these as gone. @returns those that were there */
export function archiveOthers(
  tx: Db,
  { tenant_id: tenantId, wallet_id: walletId }: FollowedWallet,
  ids: readonly string[],
  now: Date,
): Promise<Changed[]> {
  return tx.query<Changed>(sql`
    update token_holdings set archived_at = ${now}
    where tenant_id = ${tenantId} and wallet_id = ${walletId} and archived_at is null
      and not exists (select from unnest(${ids}::text[]) as still(id) where still.id = contract_id)
    returning tenant_id, wallet_id, contract_id, admin, instrument, trim_scale(amount)::text as amount,
      lock is not null as is_locked`)
}

/** Deletes what has been gone for long. @returns whether there may be more */
export async function deleteArchived(db: Db, before: Date): Promise<boolean> {
  const deleted = await db.run(sql`
    delete from token_holdings where (tenant_id, wallet_id, contract_id) in (
      select tenant_id, wallet_id, contract_id from token_holdings where archived_at < ${before} order by archived_at limit ${CHUNK})`)
  return deleted === CHUNK
}

/** Which holdings are listed. Undefined matches everything. */
export interface HoldingFilter {
  tenantId: Id<'ten'>
  walletId: Id<'wal'>
  admin: string | undefined
  instrument: string | undefined
}

const listed = ({ tenantId, walletId, admin, instrument }: HoldingFilter): Sql =>
  sql`${matching({ tenant_id: tenantId, wallet_id: walletId, admin, instrument })} and archived_at is null`

/** Of how a wallet's holdings or offers were read; undefined for one that is not followed yet. */
export function findView(
  db: Db,
  { tenantId, walletId, kind }: Pick<HoldingFilter, 'tenantId' | 'walletId'> & { kind: Kind },
) {
  return db.one<{ generation: number; problem: string | null }>(sql`
    select generation, problem from token_views where tenant_id = ${tenantId} and wallet_id = ${walletId} and kind = ${kind}`)
}

/** How much of a token somebody holds. */
export interface HoldingSum {
  admin: string
  instrument: string
  amount: string
  /** The part of `amount` that is locked. */
  locked: string
  holdings: number
}

/** The sums by instrument. */
export function sumsOf(db: Db, filter: HoldingFilter, limit: number): Promise<HoldingSum[]> {
  return db.query<HoldingSum>(sql`
    select admin, instrument, trim_scale(sum(amount))::text as amount,
      trim_scale(coalesce(sum(amount) filter (where lock is not null), 0))::text as locked, count(*)::integer as holdings
    from token_holdings where ${listed(filter)}
    group by admin, instrument order by admin, instrument limit ${limit}`)
}

/** A holding as lists show it. */
export interface HoldingRow {
  contract_id: string
  admin: string
  instrument: string
  amount: string
  lock: { holders: string[]; expiresAt: string | null; context: string | null } | null
  created_at: Date
}

/** Holdings after one of them, newest first. */
export function pageOf(
  db: Db,
  filter: HoldingFilter,
  after: { createdAt: Date; contractId: string } | null,
  limit: number,
): Promise<HoldingRow[]> {
  const rest =
    after === null ? sql`true` : sql`(created_at, contract_id) < (${after.createdAt}::timestamptz, ${after.contractId})`
  return db.query<HoldingRow>(sql`
    select contract_id, admin, instrument, trim_scale(amount)::text as amount, lock, created_at
    from token_holdings where ${listed(filter)} and ${rest}
    order by created_at desc, contract_id desc limit ${limit}`)
}
