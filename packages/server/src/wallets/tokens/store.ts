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

/** Begins a generation: all is read again. Nothing happens if another process has begun one since `from` was read. */
export async function beginGeneration(db: Db, from: CursorRow | undefined, row: Omit<CursorRow, 'generation'>) {
  await db.run(sql`
    insert into token_cursors (ledger, generation, scope, ledger_offset, ledger_at, last_offset, last_update_id, read_at)
    values (${row.ledger}, 1, ${row.scope}, ${row.ledger_offset}, ${row.ledger_at}, ${row.last_offset}, ${row.last_update_id}, ${row.read_at})
    on conflict (ledger) do update set generation = token_cursors.generation + 1, scope = excluded.scope,
      ledger_offset = excluded.ledger_offset, ledger_at = excluded.ledger_at, last_offset = excluded.last_offset,
      last_update_id = excluded.last_update_id, read_at = excluded.read_at
    where token_cursors.generation = ${from?.generation ?? 0}`)
}

/** Moves a locked cursor. */
export async function moveCursor(tx: Db, row: CursorRow): Promise<void> {
  await tx.run(sql`
    update token_cursors
    set ledger_offset = ${row.ledger_offset}, ledger_at = ${row.ledger_at}, last_offset = ${row.last_offset},
      last_update_id = ${row.last_update_id}, read_at = ${row.read_at}
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

/** A wallet whose holdings are to be read. */
export interface UnreadWallet extends FollowedWallet {
  created_at: Date
  /** Whether they were read before. */
  again: boolean
}

/** Wallets, of all tenants, whose holdings were not read in this generation. */
export function listUnread(db: Db, { ledger, generation }: CursorRow, limit: number): Promise<UnreadWallet[]> {
  return db.query<UnreadWallet>(sql`
    select w.tenant_id, w.id as wallet_id, w.app_id, w.user_id, w.party_id, w.created_at, v.generation is not null as again
    from wallets w left join token_views v on v.tenant_id = w.tenant_id and v.wallet_id = w.id
    where w.ledger = ${ledger} and w.ledger <> 'embedded' and w.status = 'ready'
      and (v.generation is null or v.generation <> ${generation})
    order by w.tenant_id, w.id limit ${limit}`)
}

/** Stores that a wallet was read in a generation. @returns whether it is still there */
export async function putView(
  tx: Db,
  { ledger, generation }: CursorRow,
  wallet: FollowedWallet,
  problem: string | null,
): Promise<boolean> {
  const { tenant_id: tenantId, wallet_id: walletId, party_id: partyId } = wallet
  const put = await tx.run(sql`
    insert into token_views (tenant_id, wallet_id, ledger, party_id, generation, problem)
    select tenant_id, id, ${ledger}, ${partyId}, ${generation}::integer, ${problem}
    from wallets where tenant_id = ${tenantId} and id = ${walletId} for key share
    on conflict (tenant_id, wallet_id) do update set generation = excluded.generation, problem = excluded.problem,
      ledger = excluded.ledger, party_id = excluded.party_id`)
  return put === 1
}

/** The followed wallets of these parties. */
export function listFollowed(
  tx: Db,
  { ledger, generation }: CursorRow,
  parties: readonly string[],
): Promise<FollowedWallet[]> {
  return tx.query<FollowedWallet>(sql`
    select v.tenant_id, v.wallet_id, v.party_id, w.app_id, w.user_id
    from token_views v join wallets w on w.tenant_id = v.tenant_id and w.id = v.wallet_id
    where v.ledger = ${ledger} and v.party_id = any(${parties}::text[]) and v.generation = ${generation} and v.problem is null
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
      returning tenant_id, wallet_id, contract_id, admin, instrument, trim_scale(amount)::text as amount, xmax = 0 as is_new`)
    changed.push(...rows)
  }
  return changed
}

/** Marks holdings as gone. @returns those that were there */
export function archiveHoldings(tx: Db, ledger: string, ids: readonly string[], now: Date): Promise<Changed[]> {
  return tx.query<Changed>(sql`
    update token_holdings set archived_at = ${now}
    where ledger = ${ledger} and contract_id = any(${ids}::text[]) and archived_at is null
    returning tenant_id, wallet_id, contract_id, admin, instrument, trim_scale(amount)::text as amount`)
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
    returning tenant_id, wallet_id, contract_id, admin, instrument, trim_scale(amount)::text as amount`)
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

/** Of how a wallet's ledger was read; undefined for one that is not followed yet. */
export function findView(db: Db, { tenantId, walletId }: Pick<HoldingFilter, 'tenantId' | 'walletId'>) {
  return db.one<{ generation: number; problem: string | null }>(sql`
    select generation, problem from token_views where tenant_id = ${tenantId} and wallet_id = ${walletId}`)
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
