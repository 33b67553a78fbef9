import { type Db, type Sql, sql } from '../../platform/db/db.ts'
import { type AppScope, inScope, readRecordPage } from '../../platform/db/page.ts'
import { insertion, matching, update, wire } from '../../platform/db/rows.ts'
import type { Page, PageQuery } from '../../platform/http/route.ts'
import type { Id } from '../../platform/ids.ts'
import {
  isMarked,
  readRecord,
  readToEnd,
  resealed,
  sealed,
  type Versioned,
} from '../../platform/security/records/access.ts'
import type { IdList } from '../../platform/security/records/id-list.ts'
import type { RecordRow } from '../../platform/security/records/kind.ts'
import type { BudgetLimit } from '../../tenancy/apps/service.ts'
import type { Wallet } from './schema.ts'
import { WALLET_RECORD } from './wallet-record.ts'

/** A limit on what all sessions of a wallet together may spend. */
export interface WalletBudget extends BudgetLimit {
  /** Who set it. What the owner set, only the owner can raise. */
  setBy: 'owner' | 'server'
}

interface WalletBudgets {
  limits: WalletBudget[]
}

/** A wallet as the table holds it. */
export interface WalletRow extends Versioned {
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
  /** The ids of its live delegated sessions; null in a row from before this list. */
  sessions: IdList | null
  /** What may be spent of it; null as long as nothing is counted. `delegation/budgets/` decides by it. */
  budgets: WalletBudgets | null
  /** The ids of the entries of its address book; null as long as there was none. `delegation/address-book/` has the entries. */
  recipients: IdList | null
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
  await tx.run(insertion('wallets', await sealed(tx, WALLET_RECORD, row)))
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
  return readRecord<WalletRow>(
    db,
    WALLET_RECORD,
    sql`select * from wallets where tenant_id = ${tenantId} and user_id = ${userId}`,
  )
}

const select = (scope: AppScope, id: Id<'wal'>) => sql`select * from wallets where ${inScope(scope)} and id = ${id}`

/** The wallet; in the scope of an app, only if it belongs to that app. */
export function findWallet(db: Db, scope: AppScope, id: Id<'wal'>): Promise<WalletRow | undefined> {
  return readRecord<WalletRow>(db, WALLET_RECORD, select(scope, id))
}

/** The same, locked until the transaction ends. */
export function lockWallet(tx: Db, scope: AppScope, id: Id<'wal'>): Promise<WalletRow | undefined> {
  return readRecord<WalletRow>(tx, WALLET_RECORD, sql`${select(scope, id)} for no key update`)
}

/** The same to freeze it: it may have been changed by somebody else, see `readToEnd`. */
export async function lockWalletToFreeze(tx: Db, scope: AppScope, id: Id<'wal'>): Promise<WalletRow | undefined> {
  const [row] = await readToEnd<WalletRow>(tx, WALLET_RECORD, sql`${select(scope, id)} for no key update`)
  return row
}

/** A user's wallet that is not frozen, locked to freeze it, as above. */
export async function lockUnfrozenOf(tx: Db, tenantId: Id<'ten'>, userId: Id<'usr'>): Promise<WalletRow | undefined> {
  const [row] = await readToEnd<WalletRow>(
    tx,
    WALLET_RECORD,
    sql`
    select * from wallets where tenant_id = ${tenantId} and user_id = ${userId} and frozen_at is null for no key update`,
  )
  return row
}

// What follows stores a change of a wallet, in the transaction that holds its row. The row that it returns has the next
// version: a second change starts from there.

/** Requires that the row was still as it was read. */
async function stored(tx: Db, statement: Sql, before: WalletRow, row: WalletRow): Promise<WalletRow> {
  const changed = await tx.run(sql`${statement} and version = ${before.version}`)
  if (changed !== 1)
    throw new Error(`the wallet ${row.id} was changed by another transaction, or from a row that is not its newest`)
  tx.afterCommit(() => tx.records.committed(WALLET_RECORD, row as object as RecordRow))
  return row
}

/** Stores whether a wallet is frozen. */
export async function setFrozen(tx: Db, before: WalletRow): Promise<WalletRow> {
  const row = await resealed(tx, WALLET_RECORD, before)
  return stored(tx, update('wallets', row, 'frozen_at updated_at version mac'), before, row)
}

/** Stores whether a wallet can be used. */
export async function setReadiness(tx: Db, before: WalletRow): Promise<WalletRow> {
  const row = await resealed(tx, WALLET_RECORD, before)
  return stored(tx, update('wallets', row, 'status onboard_at updated_at version mac'), before, row)
}

/** Stores when the user first got enough to sign without the service, and the generation of the shares. */
export async function setKeyState(tx: Db, before: WalletRow): Promise<WalletRow> {
  const row = await resealed(tx, WALLET_RECORD, before)
  return stored(tx, update('wallets', row, 'generation exported_at updated_at version mac'), before, row)
}

/** Stores how often the recovery of a wallet's key was attempted. */
export async function setRecoveryAttempts<Row extends WalletRow>(tx: Db, before: Row): Promise<Row> {
  const row = await resealed(tx, WALLET_RECORD, before)
  const recovery_tried_at = row.recovery_tried_at.map((at) => at.toISOString())
  const columns = 'recovery_tried_at recovery_strikes recovery_after version mac'
  await stored(tx, update('wallets', { ...row, recovery_tried_at }, columns), before, row)
  return row
}

/** Stores the wallet's budgets. */
export async function setBudgets(tx: Db, before: WalletRow): Promise<WalletRow> {
  const row = await resealed(tx, WALLET_RECORD, before)
  return stored(tx, update('wallets', row, 'budgets updated_at version mac'), before, row)
}

/** Stores which entries the wallet's address book has. */
export async function setRecipients(tx: Db, before: WalletRow): Promise<WalletRow> {
  const row = await resealed(tx, WALLET_RECORD, before)
  return stored(tx, update('wallets', row, 'recipients updated_at version mac'), before, row)
}

/** Stores how a backup of a wallet's key is shared. */
export async function setSharing(tx: Db, before: WalletRow): Promise<WalletRow> {
  const row = await resealed(tx, WALLET_RECORD, before)
  return stored(tx, update('wallets', row, 'threshold total generation updated_at version mac'), before, row)
}

/** Stores which delegated sessions of a wallet are live. */
export async function setSessions(tx: Db, before: WalletRow): Promise<WalletRow> {
  const row = await resealed(tx, WALLET_RECORD, before)
  return stored(tx, update('wallets', row, 'sessions version mac'), before, row)
}

/** Locks the wallets that list a delegated session, to take it off the list: of a session whose own row may lie about its wallet. */
export function lockListing(tx: Db, tenantId: Id<'ten'>, sessionId: string): Promise<WalletRow[]> {
  return readToEnd<WalletRow>(
    tx,
    WALLET_RECORD,
    sql`
    select * from wallets where tenant_id = ${tenantId} and sessions <> '' and strpos(sessions, ${sessionId}) > 0
    order by id for no key update`,
  )
}

/** Locks the next wallets of an app that list delegated sessions, in the order of their ids, to take these off. */
export function lockListingOfApp(
  tx: Db,
  { tenantId, appId, after }: { tenantId: Id<'ten'>; appId: Id<'app'>; after: string },
  limit: number,
): Promise<WalletRow[]> {
  return readToEnd<WalletRow>(
    tx,
    WALLET_RECORD,
    sql`
    select * from wallets where tenant_id = ${tenantId} and app_id = ${appId} and sessions <> '' and id > ${after}
    order by id limit ${limit} for no key update`,
  )
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
  return readRecordPage(db, WALLET_RECORD, sql`from wallets where ${found(filter)}`, query, toWallet)
}

/**
 * Claims wallets, of all tenants, whose party is due to be allocated: until `until` no other run takes them. Each claim counts
 * as an attempt.
 */
export async function claimPending(db: Db, now: Date, until: Date, limit: number): Promise<WalletRow[]> {
  const claimed = await readToEnd<WalletRow>(
    db,
    WALLET_RECORD,
    sql`
    with due as (
      select tenant_id, id from wallets where status = 'pending' and onboard_at <= ${now}
      order by onboard_at limit ${limit} for no key update skip locked)
    update wallets w set onboard_at = ${until}, onboard_attempts = onboard_attempts + 1 from due
    where w.tenant_id = due.tenant_id and w.id = due.id returning w.*`,
  )
  // A wallet that somebody else changed waits until its record is right again. The others go on.
  return claimed.filter((row) => !isMarked(row))
}

/** A wallet whose party is not allocated yet, locked; undefined if it is, or has failed. */
export function lockPending(tx: Db, of: Pick<WalletRow, 'tenant_id' | 'id'>): Promise<WalletRow | undefined> {
  return readRecord<WalletRow>(
    tx,
    WALLET_RECORD,
    sql`
    select * from wallets
    where tenant_id = ${of.tenant_id} and id = ${of.id} and status = 'pending' for no key update`,
  )
}

/** Sets when the allocation of a pending wallet's party goes on. */
export async function onboardAt(db: Db, of: Pick<WalletRow, 'tenant_id' | 'id'>, at: Date): Promise<void> {
  await db.run(sql`
    update wallets set onboard_at = ${at} where tenant_id = ${of.tenant_id} and id = ${of.id} and status = 'pending'`)
}

/** Ends the allocation of a wallet's party. @returns whether it was still pending */
export async function finishOnboarding(
  tx: Db,
  now: Date,
  of: Pick<WalletRow, 'tenant_id' | 'id'>,
  status: 'ready' | 'failed',
): Promise<boolean> {
  const row = await lockPending(tx, of)
  if (row === undefined) return false
  await setReadiness(tx, { ...row, status, onboard_at: null, updated_at: now })
  return true
}

/** Postpones a claimed wallet, unless another run has claimed it since. */
export async function postpone(db: Db, row: WalletRow, until: Date): Promise<void> {
  await db.run(sql`
    update wallets set onboard_at = ${until}
    where tenant_id = ${row.tenant_id} and id = ${row.id} and status = 'pending' and onboard_attempts = ${row.onboard_attempts}`)
}
