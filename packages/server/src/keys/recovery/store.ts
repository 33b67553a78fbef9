import { type Db, sql } from '../../platform/db/db.ts'
import type { Id } from '../../platform/ids.ts'
import type { Tries } from './tries.ts'

/** Which wallet. */
export interface WhichWallet {
  tenantId: Id<'ten'>
  walletId: Id<'wal'>
}

/** A resharing as the table holds it. */
export interface ResharingRow {
  tenant_id: Id<'ten'>
  wallet_id: Id<'wal'>
  id: Id<'rsh'>
  challenge_id: Id<'chl'>
  /** That it replaces. */
  generation: number
  transcript: Buffer
  commitments: Buffer[]
  /** The service's new share; null once it counts, and once it never will. */
  share_sealed: Buffer | null
  confirmed_at: Date | null
  expires_at: Date
  created_at: Date
}

interface TriesRow {
  recovery_tried_at: Date[]
  recovery_strikes: number
  recovery_after: Date | null
}

/** How often a wallet's key was tried to be recovered. */
export async function findTries(db: Db, of: WhichWallet): Promise<Tries> {
  const row = await db.one<TriesRow>(sql`
    select recovery_tried_at, recovery_strikes, recovery_after from wallets
    where tenant_id = ${of.tenantId} and id = ${of.walletId}`)
  return { at: row?.recovery_tried_at ?? [], strikes: row?.recovery_strikes ?? 0, after: row?.recovery_after ?? null }
}

/** Stores the same, in the transaction that holds the wallet's row. */
export async function setTries(tx: Db, of: WhichWallet, { at, strikes, after }: Tries): Promise<void> {
  const triedAt = at.map((one) => one.toISOString())
  await tx.run(sql`
    update wallets set recovery_tried_at = ${triedAt}::timestamptz[], recovery_strikes = ${strikes}, recovery_after = ${after}
    where tenant_id = ${of.tenantId} and id = ${of.walletId}`)
}

/** A wallet's last resharing. */
export function findResharing(db: Db, of: WhichWallet): Promise<ResharingRow | undefined> {
  return db.one<ResharingRow>(sql`
    select * from resharings where tenant_id = ${of.tenantId} and wallet_id = ${of.walletId}`)
}

/** Writes a new resharing in place of the wallet's last one. */
export async function putResharing(tx: Db, row: ResharingRow): Promise<void> {
  await tx.run(sql`
    insert into resharings (tenant_id, wallet_id, id, challenge_id, generation, transcript, commitments, share_sealed,
      confirmed_at, expires_at, created_at)
    values (${row.tenant_id}, ${row.wallet_id}, ${row.id}, ${row.challenge_id}, ${row.generation}, ${row.transcript},
      ${row.commitments}::bytea[], ${row.share_sealed}, ${row.confirmed_at}, ${row.expires_at}, ${row.created_at})
    on conflict (tenant_id, wallet_id) do update set id = excluded.id, challenge_id = excluded.challenge_id,
      generation = excluded.generation, transcript = excluded.transcript, commitments = excluded.commitments,
      share_sealed = excluded.share_sealed, confirmed_at = excluded.confirmed_at, expires_at = excluded.expires_at,
      created_at = excluded.created_at`)
}

/** Notes that a resharing counts; the share is kept elsewhere by now. */
export async function finishResharing(tx: Db, now: Date, row: ResharingRow): Promise<void> {
  await tx.run(sql`
    update resharings set share_sealed = null, confirmed_at = ${now}
    where tenant_id = ${row.tenant_id} and wallet_id = ${row.wallet_id} and id = ${row.id}`)
}

/** Destroys the shares of resharings, of all tenants, that were not confirmed in time. @returns of how many */
export function dropShares(db: Db, now: Date, limit: number): Promise<number> {
  return db.run(sql`
    with over as (
      select tenant_id, wallet_id from resharings where expires_at <= ${now} and share_sealed is not null
      order by expires_at limit ${limit} for update skip locked)
    update resharings r set share_sealed = null from over
    where r.tenant_id = over.tenant_id and r.wallet_id = over.wallet_id`)
}

/** Deletes resharings, of all tenants, whose time was over by then. @returns how many */
export function deleteResharings(db: Db, until: Date, limit: number): Promise<number> {
  return db.run(sql`
    with over as (
      select tenant_id, wallet_id from resharings where expires_at <= ${until}
      order by expires_at limit ${limit} for update skip locked)
    delete from resharings r using over where r.tenant_id = over.tenant_id and r.wallet_id = over.wallet_id`)
}
