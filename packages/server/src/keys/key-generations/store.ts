import { type Db, sql } from '../../platform/db/db.ts'
import { insertion, json, update } from '../../platform/db/rows.ts'
import type { Id } from '../../platform/ids.ts'
import type { AnsweredSubshares, Round1 } from './schema.ts'

/** A key generation as the table holds it. */
export interface KeyGenerationRow {
  tenant_id: Id<'ten'>
  id: Id<'dkg'>
  app_id: Id<'app'>
  user_id: Id<'usr'>
  ledger: string
  /** An unconfirmed one may have expired: see `expires_at`. */
  status: 'round1' | 'round2' | 'confirmed' | 'canceled'
  /** The user's participants. The service's sub-shares are sealed to their keys (hex). */
  participants: { index: number; holder: 'device' | 'recovery'; encryptionKey: string }[]
  /** All first messages, by index, the service's first. */
  round1: Round1[]
  /** The service's polynomial until the second round, then its share; null after it has ended. */
  state_sealed: Buffer | null
  /** In hex. Set in the second round. */
  sharing: { commitments: string[]; verifyingShares: string[] } | null
  transcript: Buffer
  round2_hash: Buffer | null
  round2: AnsweredSubshares | null
  /** Id of the wallet that it creates. The wallet exists after the confirmation. */
  wallet_id: Id<'wal'>
  expires_at: Date
  created_at: Date
  updated_at: Date
}

/** Writes a new key generation. */
export async function insertKeyGeneration(tx: Db, row: KeyGenerationRow): Promise<void> {
  const lists = { participants: json(row.participants), round1: json(row.round1) }
  await tx.run(insertion('key_generations', { ...row, ...lists }))
}

/** Identifies a key generation of a user. */
export interface Place {
  tenantId: Id<'ten'>
  appId: Id<'app'>
  userId: Id<'usr'>
  id: Id<'dkg'>
}

const select = (of: Place) => sql`
  select * from key_generations
  where tenant_id = ${of.tenantId} and id = ${of.id} and app_id = ${of.appId} and user_id = ${of.userId}`

/** A user's key generation. */
export function findKeyGeneration(db: Db, of: Place): Promise<KeyGenerationRow | undefined> {
  return db.one<KeyGenerationRow>(select(of))
}

/** The same, locked until the transaction ends. */
export function lockKeyGeneration(tx: Db, of: Place): Promise<KeyGenerationRow | undefined> {
  return tx.one<KeyGenerationRow>(sql`${select(of)} for no key update`)
}

/** Stores the progress of a key generation. */
export async function updateKeyGeneration(tx: Db, row: KeyGenerationRow): Promise<void> {
  const changed = { ...row, round2: json(row.round2) }
  await tx.run(update('key_generations', changed, 'status state_sealed sharing round2_hash round2 updated_at'))
}

/** Cancels a user's open key generations except the last `keep`, and destroys their secrets. */
export async function cancelOlder(
  tx: Db,
  now: Date,
  of: { tenantId: Id<'ten'>; userId: Id<'usr'>; keep: number },
): Promise<void> {
  await tx.run(sql`
    update key_generations set status = 'canceled', state_sealed = null, round2 = null, updated_at = ${now}
    where tenant_id = ${of.tenantId} and id in (
      select id from key_generations
      where tenant_id = ${of.tenantId} and user_id = ${of.userId} and status in ('round1', 'round2')
      order by id desc offset ${of.keep})`)
}

/** Deletes a user's canceled key generations except the last `keep`. */
export async function forgetOlder(tx: Db, of: { tenantId: Id<'ten'>; userId: Id<'usr'>; keep: number }): Promise<void> {
  await tx.run(sql`
    delete from key_generations where tenant_id = ${of.tenantId} and id in (
      select id from key_generations
      where tenant_id = ${of.tenantId} and user_id = ${of.userId} and status = 'canceled'
      order by id desc offset ${of.keep})`)
}

/** Destroys the secrets of a batch of the expired key generations, of all tenants. @returns how many */
export function wipeExpired(db: Db, now: Date, limit: number): Promise<number> {
  return db.run(sql`
    update key_generations set state_sealed = null, round2 = null, updated_at = ${now}
    where (tenant_id, id) in (
      select tenant_id, id from key_generations where state_sealed is not null and expires_at <= ${now}
      limit ${limit} for no key update skip locked)`)
}

/** Deletes a batch of the key generations, of all tenants, that expired before `until`. @returns how many */
export function deleteExpired(db: Db, until: Date, limit: number): Promise<number> {
  return db.run(sql`
    delete from key_generations where (tenant_id, id) in (
      select tenant_id, id from key_generations where expires_at <= ${until} limit ${limit} for update skip locked)`)
}
