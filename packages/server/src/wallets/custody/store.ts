import { type Db, sql } from '../../platform/db/db.ts'
import { insertion, update } from '../../platform/db/rows.ts'
import type { Id } from '../../platform/ids.ts'
import {
  readRecord,
  readRecords,
  readToEnd,
  resealed,
  type Sealed,
  sealed,
  type Versioned,
} from '../../platform/security/records/access.ts'
import type { RecordRow } from '../../platform/security/records/kind.ts'
import { ENCRYPTION_KEY_RECORD } from './encryption-key-record.ts'
import type { KeyShare } from './schema.ts'
import { SHARE_RECORD } from './share-record.ts'

/** A key share as the table holds it. */
export interface ShareRow extends Versioned {
  tenant_id: Id<'ten'>
  id: Id<'shr'>
  wallet_id: Id<'wal'>
  generation: number
  index: number
  holder: KeyShare['holder']
  threshold: number
  total: number
  scheme: string
  curve: KeyShare['curve']
  commitments: Buffer[]
  verifying_share: Buffer
  protection: KeyShare['protection']
  status: KeyShare['status']
  /** The share, if the service can open it. */
  share_sealed: Buffer | null
  /** The share as the client sealed it; null if it is not stored here. */
  client_ciphertext: ClientCiphertext | null
  last_used_at: Date | null
  created_at: Date
  updated_at: Date
}

/** One way to unwrap the data key of a share that a client sealed: a passkey, or a password. */
export interface Wrap {
  wrappedDek: string
  credentialId?: string | undefined
  rpId?: string | undefined
  prfSalt?: string | undefined
  salt?: string | undefined
  memoryKiB?: number | undefined
  iterations?: number | undefined
  parallelism?: number | undefined
}

/** A share as a client sealed it. */
export interface ClientCiphertext {
  v: number
  alg: 'prf-hkdf-sha256-aes256gcm' | 'argon2id-aes256gcm'
  iv: string
  ct: string
  wraps: Wrap[]
}

/** Writes a new share. */
export async function insertShare(tx: Db, row: ShareRow): Promise<void> {
  await tx.run(insertion('key_shares', await sealed(tx, SHARE_RECORD, row)))
}

/** All records of a wallet's shares, deleted and superseded ones too, by generation and index. */
export function sharesOf(db: Db, tenantId: Id<'ten'>, walletId: Id<'wal'>): Promise<ShareRow[]> {
  return readRecords<ShareRow>(
    db,
    SHARE_RECORD,
    sql`
    select * from key_shares where tenant_id = ${tenantId} and wallet_id = ${walletId} order by generation, index, id`,
  )
}

/** A user's live shares that their client encrypted, of all wallets. */
export function clientSharesOf(tx: Db, tenantId: Id<'ten'>, userId: Id<'usr'>): Promise<ShareRow[]> {
  return readRecords<ShareRow>(
    tx,
    SHARE_RECORD,
    sql`
    select s.* from key_shares s join wallets w on w.tenant_id = s.tenant_id and w.id = s.wallet_id
    where w.tenant_id = ${tenantId} and w.user_id = ${userId} and s.status in ('pending', 'active')
      and s.client_ciphertext is not null
    order by s.id for no key update of s`,
  )
}

/** A wallet's live share with this index and generation. */
export function findShare(
  db: Db,
  of: { tenantId: Id<'ten'>; walletId: Id<'wal'>; generation: number; index: number },
): Promise<ShareRow | undefined> {
  return readRecord<ShareRow>(
    db,
    SHARE_RECORD,
    sql`
    select * from key_shares
    where tenant_id = ${of.tenantId} and wallet_id = ${of.walletId} and generation = ${of.generation} and index = ${of.index}
      and status in ('pending', 'active')`,
  )
}

const noteVersion = (tx: Db, row: ShareRow) =>
  tx.afterCommit(() => tx.records.committed(SHARE_RECORD, row as object as RecordRow))

/** Stores what a client encrypted of a share, in the transaction that holds its wallet. */
export async function setCiphertext(tx: Db, before: ShareRow): Promise<void> {
  const row = await resealed(tx, SHARE_RECORD, before)
  await tx.run(update('key_shares', row, 'client_ciphertext updated_at version mac'))
  noteVersion(tx, row)
}

/** Notes that a share was used. */
export async function touchShare(tx: Db, row: ShareRow): Promise<void> {
  await tx.run(update('key_shares', row, 'last_used_at updated_at'))
}

/** Ends a wallet's live shares of some generations and destroys what is stored of them. @returns their new rows */
export async function endShares(
  tx: Db,
  now: Date,
  of: { tenantId: Id<'ten'>; walletId: Id<'wal'>; generations: readonly number[]; status: 'superseded' | 'deleted' },
): Promise<ShareRow[]> {
  const live = await readToEnd<ShareRow>(
    tx,
    SHARE_RECORD,
    sql`
    select * from key_shares
    where tenant_id = ${of.tenantId} and wallet_id = ${of.walletId} and generation = any(${of.generations}::integer[])
      and status in ('pending', 'active')
    order by id for no key update`,
  )
  const ended: ShareRow[] = []
  for (const before of live) {
    const over = { ...before, status: of.status, share_sealed: null, client_ciphertext: null, updated_at: now }
    const row = await resealed(tx, SHARE_RECORD, over)
    await tx.run(update('key_shares', row, 'status share_sealed client_ciphertext updated_at version mac'))
    noteVersion(tx, row)
    ended.push(row)
  }
  return ended
}

/** A share that the service can open, with its wallet's custody. */
export type HeldShare = ShareRow & { share_sealed: Buffer; custody: 'embedded' | 'shared' | 'self_custody' }

/** The next shares that the service can open, in the order of their ids; of one tenant, or of all. */
export function heldShares(
  db: Db,
  tenantId: string | null,
  after: { tenant_id: string; id: string } | undefined,
  limit: number,
): Promise<HeldShare[]> {
  return db.query<HeldShare>(sql`
    select s.*, w.custody from key_shares s join wallets w on w.tenant_id = s.tenant_id and w.id = s.wallet_id
    where s.share_sealed is not null and (${tenantId}::text is null or s.tenant_id = ${tenantId})
      and (s.tenant_id, s.id) > (${after?.tenant_id ?? ''}, ${after?.id ?? ''})
    order by s.tenant_id, s.id limit ${limit}`)
}

/** Replaces what seals a share, unless that was replaced or destroyed meanwhile. */
export async function swapSealed(db: Db, row: HeldShare, fresh: Buffer): Promise<void> {
  await db.run(sql`
    update key_shares set share_sealed = ${fresh}
    where tenant_id = ${row.tenant_id} and id = ${row.id} and share_sealed = ${row.share_sealed}`)
}

/** An HPKE key of the service as the table holds it. */
export interface EncryptionKeyRow extends Sealed {
  id: string
  /** Raw. */
  public_key: Buffer
  private_key_sealed: Buffer
  created_at: Date
  not_after: Date
}

/** The keys that can still be used, newest first. */
export function encryptionKeys(db: Db, now: Date): Promise<EncryptionKeyRow[]> {
  return readRecords<EncryptionKeyRow>(
    db,
    ENCRYPTION_KEY_RECORD,
    sql`
    select * from encryption_keys where not_after > ${now} order by not_after desc, id`,
  )
}

const LOCK = 4_812_570_361

/** Adds a key, unless there is one that ends after `until`. Concurrent callers wait. */
export async function addEncryptionKey(tx: Db, made: EncryptionKeyRow, until: Date): Promise<void> {
  const row = await sealed(tx, ENCRYPTION_KEY_RECORD, made)
  await tx.run(sql`select pg_advisory_xact_lock(${LOCK}::bigint)`)
  await tx.run(sql`
    insert into encryption_keys (id, public_key, private_key_sealed, created_at, not_after, mac)
    select ${row.id}, ${row.public_key}::bytea, ${row.private_key_sealed}::bytea, ${row.created_at}::timestamptz, ${row.not_after}::timestamptz,
      ${row.mac}::bytea
    where not exists (select from encryption_keys where not_after > ${until})`)
}

/** Deletes keys that ended more than a day ago: nothing that was sealed to them is accepted any more. */
export async function deleteOldEncryptionKeys(db: Db): Promise<boolean> {
  await db.run(sql`delete from encryption_keys where not_after < now() - interval '24 hours'`)
  return false
}
