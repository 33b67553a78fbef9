import { type Db, sql } from '../../platform/db/db.ts'
import { insertion } from '../../platform/db/rows.ts'
import type { Id } from '../../platform/ids.ts'

/** A resharing as the table holds it. A wallet has at most one: its latest. */
export interface ResharingRow {
  tenant_id: Id<'ten'>
  wallet_id: Id<'wal'>
  id: Id<'rsh'>
  challenge_id: Id<'chl'>
  /** The generation that it replaces. */
  generation: number
  transcript: Buffer
  commitments: Buffer[]
  /** The service's new share; null after the confirmation, or when it can no longer be confirmed. */
  share_sealed: Buffer | null
  confirmed_at: Date | null
  expires_at: Date
  created_at: Date
}

/** Identifies a wallet. */
interface ResharedWallet {
  tenantId: Id<'ten'>
  walletId: Id<'wal'>
}

/** A wallet's latest resharing. */
export function findResharing(db: Db, of: ResharedWallet): Promise<ResharingRow | undefined> {
  return db.one<ResharingRow>(sql`
    select * from resharings where tenant_id = ${of.tenantId} and wallet_id = ${of.walletId}`)
}

/** Stores a new resharing in place of the wallet's last one. */
export async function putResharing(tx: Db, row: ResharingRow): Promise<void> {
  await tx.run(sql`
    ${insertion('resharings', row)}
    on conflict (tenant_id, wallet_id) do update set id = excluded.id, challenge_id = excluded.challenge_id,
      generation = excluded.generation, transcript = excluded.transcript, commitments = excluded.commitments,
      share_sealed = excluded.share_sealed, confirmed_at = excluded.confirmed_at, expires_at = excluded.expires_at,
      created_at = excluded.created_at`)
}

/** Marks a resharing as confirmed. Its share is stored in `key_shares` by then. */
export async function confirmResharing(tx: Db, now: Date, row: ResharingRow): Promise<void> {
  await tx.run(sql`
    update resharings set share_sealed = null, confirmed_at = ${now}
    where tenant_id = ${row.tenant_id} and wallet_id = ${row.wallet_id} and id = ${row.id}`)
}

/** Ends a wallet's resharing that is not confirmed, and destroys its share. */
export async function cancelResharing(tx: Db, now: Date, of: ResharedWallet): Promise<void> {
  await tx.run(sql`
    update resharings set share_sealed = null, expires_at = ${now}
    where tenant_id = ${of.tenantId} and wallet_id = ${of.walletId} and confirmed_at is null`)
}

/** Destroys the shares of expired resharings, of all tenants. @returns of how many */
export function destroyExpiredShares(db: Db, now: Date, limit: number): Promise<number> {
  return db.run(sql`
    with over as (
      select tenant_id, wallet_id from resharings where expires_at <= ${now} and share_sealed is not null
      order by expires_at limit ${limit} for update skip locked)
    update resharings r set share_sealed = null from over
    where r.tenant_id = over.tenant_id and r.wallet_id = over.wallet_id`)
}

/** Deletes resharings, of all tenants, that expired before `until`. @returns how many */
export function deleteResharings(db: Db, until: Date, limit: number): Promise<number> {
  return db.run(sql`
    with over as (
      select tenant_id, wallet_id from resharings where expires_at <= ${until}
      order by expires_at limit ${limit} for update skip locked)
    delete from resharings r using over where r.tenant_id = over.tenant_id and r.wallet_id = over.wallet_id`)
}
