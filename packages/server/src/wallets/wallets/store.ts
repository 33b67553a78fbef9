import { type Db, type Sql, sql } from '../../platform/db/db.ts'
import { type AppScope, inScope, readPage } from '../../platform/db/page.ts'
import { insertion, matching, update, wire } from '../../platform/db/rows.ts'
import type { Page, PageQuery } from '../../platform/http/route.ts'
import type { Id } from '../../platform/ids.ts'
import type { Wallet } from './schema.ts'

/** A wallet as the table holds it. */
export interface WalletRow {
  tenant_id: Id<'ten'>
  id: Id<'wal'>
  app_id: Id<'app'>
  user_id: Id<'usr'>
  ledger: string
  custody: Wallet['custody']
  party_id: string
  address: string | null
  /** Raw. */
  public_key: Buffer | null
  curve: Wallet['curve']
  threshold: number | null
  total: number | null
  generation: number | null
  key_origin: 'dkg' | 'client_dealt' | null
  exported_at: Date | null
  /** Without `frozen`: see `toWallet`. */
  status: 'pending' | 'ready' | 'failed'
  frozen_at: Date | null
  onboard_at: Date | null
  /** How often the allocation of its party was attempted. */
  onboard_attempts: number
  /** Times of recent recovery attempts, how often their limit was reached, and when the next attempt is allowed. */
  recovery_tried_at: readonly Date[]
  recovery_strikes: number
  recovery_after: Date | null
  created_at: Date
  updated_at: Date
}

/** A row as the API returns it. */
export function toWallet(row: WalletRow): Wallet {
  const shown = {
    ...row,
    public_key: row.public_key?.toString('hex') ?? null,
    mpc_enabled: row.custody === 'shared',
    status: row.frozen_at === null ? row.status : ('frozen' as const),
  }
  return wire(
    shown,
    `id app_id user_id ledger custody party_id address public_key curve threshold total generation key_origin
    exported_at mpc_enabled status created_at updated_at`,
  )
}

/** Writes a new wallet. */
export async function insertWallet(tx: Db, row: WalletRow): Promise<void> {
  await tx.run(insertion('wallets', row))
}

/**
 * Whether another wallet has this key, and one of the two shares it. Locks the key until the transaction ends: of several
 * concurrent callers only one finds none.
 */
export async function isSharedElsewhere(
  tx: Db,
  publicKey: Buffer,
  custody: Exclude<WalletRow['custody'], 'embedded'>,
): Promise<boolean> {
  await tx.run(sql`select pg_advisory_xact_lock(hashtextextended(${publicKey.toString('hex')}, 5))`)
  const row = await tx.one(sql`
    select from wallets where public_key = ${publicKey} and custody <> 'embedded' and (custody = 'shared' or (custody = 'self_custody' and ${custody === 'shared'})) limit 1`)
  return row !== undefined
}

/** A user's wallet. */
export function findWalletOf(db: Db, tenantId: Id<'ten'>, userId: Id<'usr'>): Promise<WalletRow | undefined> {
  return db.one<WalletRow>(sql`select * from wallets where tenant_id = ${tenantId} and user_id = ${userId}`)
}

const select = (scope: AppScope, id: Id<'wal'>) => sql`select * from wallets where ${inScope(scope)} and id = ${id}`

/** The wallet; in the scope of an app, only if it belongs to that app. */
export function findWallet(db: Db, scope: AppScope, id: Id<'wal'>): Promise<WalletRow | undefined> {
  return db.one<WalletRow>(select(scope, id))
}

/** The same, locked until the transaction ends. */
export function lockWallet(tx: Db, scope: AppScope, id: Id<'wal'>): Promise<WalletRow | undefined> {
  return tx.one<WalletRow>(sql`${select(scope, id)} for no key update`)
}

/** Freezes a wallet that is not frozen. @returns the new row; undefined if there was nothing to freeze */
export function freezeWalletOf(
  tx: Db,
  now: Date,
  tenantId: Id<'ten'>,
  userId: Id<'usr'>,
): Promise<WalletRow | undefined> {
  return tx.one<WalletRow>(sql`
    update wallets set frozen_at = ${now}, updated_at = ${now}
    where tenant_id = ${tenantId} and user_id = ${userId} and frozen_at is null returning *`)
}

/** Stores whether a wallet is frozen. */
export async function setFrozen(tx: Db, row: WalletRow): Promise<void> {
  await tx.run(update('wallets', row, 'frozen_at updated_at'))
}

/** Stores whether a wallet can be used. */
export async function setReadiness(tx: Db, row: WalletRow): Promise<void> {
  await tx.run(update('wallets', row, 'status onboard_at updated_at'))
}

/** Stores when the user first got enough to sign without the service, and the generation of the shares. */
export async function setKeyState(tx: Db, row: WalletRow): Promise<void> {
  await tx.run(update('wallets', row, 'generation exported_at updated_at'))
}

/** Stores how often the recovery of a wallet's key was attempted, in the transaction that holds its row. */
export async function setRecoveryAttempts(tx: Db, row: WalletRow): Promise<void> {
  const recovery_tried_at = row.recovery_tried_at.map((at) => at.toISOString())
  await tx.run(update('wallets', { ...row, recovery_tried_at }, 'recovery_tried_at recovery_strikes recovery_after'))
}

/** Stores how a backup of a wallet's key is shared. */
export async function setSharing(
  tx: Db,
  row: Pick<WalletRow, 'tenant_id' | 'id' | 'threshold' | 'total' | 'generation' | 'updated_at'>,
): Promise<void> {
  await tx.run(update('wallets', row, 'threshold total generation updated_at'))
}

/** What wallets to list. Null and undefined match everything. */
export interface WalletFilter extends AppScope {
  userId: string | undefined
  custody: Wallet['custody'] | undefined
  status: Wallet['status'] | undefined
  ledger: string | undefined
}

function found({ tenantId, appId, userId, custody, status, ledger }: WalletFilter): Sql {
  const all = matching({ tenant_id: tenantId, app_id: appId, user_id: userId, custody, ledger })
  if (status === undefined) return all
  if (status === 'frozen') return sql`${all} and frozen_at is not null`
  return sql`${all} and frozen_at is null and status = ${status}`
}

/** A page of the wallets that match a filter, newest first. */
export function listWallets(db: Db, filter: WalletFilter, query: PageQuery): Promise<Page<Wallet>> {
  return readPage(db, sql`from wallets where ${found(filter)}`, query, toWallet)
}

/**
 * Claims wallets, of all tenants, whose party is due to be allocated: until `until` no other run takes them. Each claim counts
 * as an attempt.
 */
export function claimPending(db: Db, now: Date, until: Date, limit: number): Promise<WalletRow[]> {
  return db.query<WalletRow>(sql`
    with due as (
      select tenant_id, id from wallets where status = 'pending' and onboard_at <= ${now}
      order by onboard_at limit ${limit} for no key update skip locked)
    update wallets w set onboard_at = ${until}, onboard_attempts = onboard_attempts + 1 from due
    where w.tenant_id = due.tenant_id and w.id = due.id returning w.*`)
}

/** Ends the allocation of a wallet's party. @returns whether it was still pending */
export async function finishOnboarding(
  tx: Db,
  now: Date,
  row: Pick<WalletRow, 'tenant_id' | 'id'>,
  status: 'ready' | 'failed',
): Promise<boolean> {
  const changed = await tx.run(sql`
    update wallets set status = ${status}, onboard_at = null, updated_at = ${now}
    where tenant_id = ${row.tenant_id} and id = ${row.id} and status = 'pending'`)
  return changed > 0
}

/** Postpones a claimed wallet, unless another run has claimed it since. */
export async function postpone(db: Db, row: WalletRow, until: Date): Promise<void> {
  await db.run(sql`
    update wallets set onboard_at = ${until}
    where tenant_id = ${row.tenant_id} and id = ${row.id} and status = 'pending' and onboard_attempts = ${row.onboard_attempts}`)
}
