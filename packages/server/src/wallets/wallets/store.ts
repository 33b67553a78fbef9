import { and, type Db, type Sql, sql } from '../../platform/db/db.ts'
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
  /** Apart from whether it is frozen: see `toWallet`. */
  status: 'pending' | 'ready' | 'failed'
  frozen_at: Date | null
  onboard_at: Date | null
  /** How often the allocation of its party was attempted. */
  onboard_attempts: number
  /** When its key's recovery was attempted of late, how often that was too often, and when the next attempt is allowed. */
  recovery_tried_at: readonly Date[]
  recovery_strikes: number
  recovery_after: Date | null
  created_at: Date
  updated_at: Date
}

/** A row as the wire shows it. */
export function toWallet(row: WalletRow): Wallet {
  return {
    id: row.id,
    appId: row.app_id,
    userId: row.user_id,
    ledger: row.ledger,
    custody: row.custody,
    partyId: row.party_id,
    address: row.address,
    publicKey: row.public_key?.toString('hex') ?? null,
    curve: row.curve,
    threshold: row.threshold,
    total: row.total,
    generation: row.generation,
    keyOrigin: row.key_origin,
    exportedAt: row.exported_at?.toISOString() ?? null,
    mpcEnabled: row.custody === 'shared',
    status: row.frozen_at === null ? row.status : 'frozen',
    createdAt: row.created_at.toISOString(),
    updatedAt: row.updated_at.toISOString(),
  }
}

/** Writes a new wallet. */
export async function insertWallet(tx: Db, row: WalletRow): Promise<void> {
  await tx.run(sql`
    insert into wallets (tenant_id, id, app_id, user_id, ledger, custody, party_id, address, public_key, curve, threshold, total,
      generation, key_origin, status, onboard_at, created_at, updated_at)
    values (${row.tenant_id}, ${row.id}, ${row.app_id}, ${row.user_id}, ${row.ledger}, ${row.custody}, ${row.party_id},
      ${row.address}, ${row.public_key}, ${row.curve}, ${row.threshold}, ${row.total}, ${row.generation}, ${row.key_origin},
      ${row.status}, ${row.onboard_at}, ${row.created_at}, ${row.updated_at})`)
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

const ofApp = (tenantId: Id<'ten'>, id: Id<'wal'>, appId: Id<'app'> | null): Sql => sql`
  select * from wallets where tenant_id = ${tenantId} and id = ${id} and (${appId}::text is null or app_id = ${appId})`

/** A tenant's wallet; with `appId`, only if it belongs to that app. */
export function findWallet(
  db: Db,
  tenantId: Id<'ten'>,
  id: Id<'wal'>,
  appId: Id<'app'> | null,
): Promise<WalletRow | undefined> {
  return db.one<WalletRow>(ofApp(tenantId, id, appId))
}

/** The same, locked until the transaction ends. */
export function lockWallet(
  tx: Db,
  tenantId: Id<'ten'>,
  id: Id<'wal'>,
  appId: Id<'app'> | null,
): Promise<WalletRow | undefined> {
  return tx.one<WalletRow>(sql`${ofApp(tenantId, id, appId)} for no key update`)
}

/** Freezes a wallet that is not frozen. @returns the row as it is then; undefined where there was nothing to freeze */
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
  await tx.run(sql`
    update wallets set frozen_at = ${row.frozen_at}, updated_at = ${row.updated_at}
    where tenant_id = ${row.tenant_id} and id = ${row.id}`)
}

/** Stores whether a wallet can be used. */
export async function setReadiness(tx: Db, row: WalletRow): Promise<void> {
  await tx.run(sql`
    update wallets set status = ${row.status}, onboard_at = ${row.onboard_at}, updated_at = ${row.updated_at}
    where tenant_id = ${row.tenant_id} and id = ${row.id}`)
}

/** Stores when the user first got enough to sign without the service, and the generation of the shares. */
export async function setKeyState(
  tx: Db,
  row: Pick<WalletRow, 'tenant_id' | 'id' | 'generation' | 'exported_at' | 'updated_at'>,
): Promise<void> {
  await tx.run(sql`
    update wallets set generation = ${row.generation}, exported_at = ${row.exported_at}, updated_at = ${row.updated_at}
    where tenant_id = ${row.tenant_id} and id = ${row.id}`)
}

/** Stores how often the recovery of a wallet's key was attempted, in the transaction that holds its row. */
export async function setRecoveryAttempts(
  tx: Db,
  row: Pick<WalletRow, 'tenant_id' | 'id' | 'recovery_tried_at' | 'recovery_strikes' | 'recovery_after'>,
): Promise<void> {
  await tx.run(sql`
    update wallets set recovery_tried_at = ${row.recovery_tried_at.map((at) => at.toISOString())}::timestamptz[],
      recovery_strikes = ${row.recovery_strikes}, recovery_after = ${row.recovery_after}
    where tenant_id = ${row.tenant_id} and id = ${row.id}`)
}

/** Stores how a backup of a wallet's key is shared. */
export async function setSharing(
  tx: Db,
  row: Pick<WalletRow, 'tenant_id' | 'id' | 'threshold' | 'total' | 'generation' | 'updated_at'>,
): Promise<void> {
  await tx.run(sql`
    update wallets set threshold = ${row.threshold}, total = ${row.total}, generation = ${row.generation},
      updated_at = ${row.updated_at}
    where tenant_id = ${row.tenant_id} and id = ${row.id}`)
}

/** A null matches everything. */
export interface WalletFilter {
  tenantId: Id<'ten'>
  appId: Id<'app'> | null
  userId: string | null
  custody: Wallet['custody'] | null
  status: Wallet['status'] | null
  ledger: string | null
}

function found(filter: WalletFilter) {
  const all = [sql`tenant_id = ${filter.tenantId}`]
  if (filter.appId !== null) all.push(sql`app_id = ${filter.appId}`)
  if (filter.userId !== null) all.push(sql`user_id = ${filter.userId}`)
  if (filter.custody !== null) all.push(sql`custody = ${filter.custody}`)
  if (filter.ledger !== null) all.push(sql`ledger = ${filter.ledger}`)
  if (filter.status === 'frozen') all.push(sql`frozen_at is not null`)
  else if (filter.status !== null) all.push(sql`frozen_at is null and status = ${filter.status}`)
  return and(all)
}

/** A page of the wallets that match a filter, newest first, and how many match in all. */
export async function listWallets(
  db: Db,
  filter: WalletFilter,
  { offset, pageSize }: { offset: number; pageSize: number },
): Promise<{ rows: WalletRow[]; total: number }> {
  const counted = await db.one<{ n: number }>(sql`select count(*) as n from wallets where ${found(filter)}`)
  const rows = await db.query<WalletRow>(
    sql`select * from wallets where ${found(filter)} order by id desc offset ${offset} limit ${pageSize}`,
  )
  return { rows, total: counted?.n ?? 0 }
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
