import { type Db, sql } from '../../platform/db/db.ts'
import type { Id } from '../../platform/ids.ts'

/** A row of the table `mfa_factors`. */
export interface FactorRow {
  /** Null while only a set-up is pending. */
  secret_sealed: Buffer | null
  pending_secret_sealed: Buffer | null
  pending_until: Date | null
  last_step: number
  failures: number
  locked_until: Date | null
  enabled_at: Date | null
}

/** The owner of a factor. */
export interface Owner {
  tenantId: Id<'ten'>
  userId: Id<'usr'>
}

/**
 * Locks the user, and with it the second factor, until the transaction ends. Lock order: the user first, as in a deletion.
 * @returns whether the user exists
 */
export async function lockUser(tx: Db, { tenantId, userId }: Owner): Promise<boolean> {
  const row = await tx.one(sql`select 1 from users where tenant_id = ${tenantId} and id = ${userId} for no key update`)
  return row !== undefined
}

/** The factor, or the pending set-up of one, locked until the transaction ends. */
export function lockFactor(tx: Db, { tenantId, userId }: Owner): Promise<FactorRow | undefined> {
  return tx.one<FactorRow>(sql`
    select secret_sealed, pending_secret_sealed, pending_until, last_step, failures, locked_until, enabled_at
    from mfa_factors where tenant_id = ${tenantId} and user_id = ${userId} for update`)
}

/** Stores a pending set-up and replaces an earlier one. An active factor and its lock do not change. */
export async function putPending(tx: Db, { tenantId, userId }: Owner, sealed: Buffer, until: Date): Promise<void> {
  await tx.run(sql`
    insert into mfa_factors (tenant_id, user_id, pending_secret_sealed, pending_until)
    values (${tenantId}, ${userId}, ${sealed}, ${until})
    on conflict (tenant_id, user_id) do update
      set pending_secret_sealed = excluded.pending_secret_sealed, pending_until = excluded.pending_until`)
}

/** Activates the pending factor. The time step of the code that confirmed it is used up. */
export async function activate(tx: Db, { tenantId, userId }: Owner, step: number, now: Date): Promise<void> {
  await tx.run(sql`
    update mfa_factors set secret_sealed = pending_secret_sealed, pending_secret_sealed = null, pending_until = null,
      last_step = ${step}, failures = 0, enabled_at = ${now}
    where tenant_id = ${tenantId} and user_id = ${userId}`)
}

/** Records a correct code and resets the count of wrong ones. `step`: the code's time step, null for a recovery code. */
export async function recordCorrectCode(tx: Db, { tenantId, userId }: Owner, step: number | null): Promise<void> {
  await tx.run(sql`
    update mfa_factors set failures = 0, last_step = greatest(last_step, ${step}::bigint)
    where tenant_id = ${tenantId} and user_id = ${userId}`)
}

/** Stores the count of wrong codes, and until when no code is accepted. */
export async function recordWrongCode(
  tx: Db,
  { tenantId, userId }: Owner,
  failures: number,
  lockedUntil: Date | null,
): Promise<void> {
  await tx.run(sql`
    update mfa_factors set failures = ${failures}, locked_until = ${lockedUntil}
    where tenant_id = ${tenantId} and user_id = ${userId}`)
}

/** Deletes the factor and its recovery codes. */
export async function deleteFactor(tx: Db, { tenantId, userId }: Owner): Promise<void> {
  await tx.run(sql`delete from recovery_codes where tenant_id = ${tenantId} and user_id = ${userId}`)
  await tx.run(sql`delete from mfa_factors where tenant_id = ${tenantId} and user_id = ${userId}`)
}

/** Replaces the recovery codes. */
export async function putRecoveryCodes(
  tx: Db,
  { tenantId, userId }: Owner,
  hashes: readonly (Buffer | null)[],
): Promise<void> {
  await tx.run(sql`delete from recovery_codes where tenant_id = ${tenantId} and user_id = ${userId}`)
  await tx.run(sql`
    insert into recovery_codes (tenant_id, user_id, hash)
    select ${tenantId}, ${userId}, hash from unnest(${hashes}::bytea[]) as hash`)
}

/** Uses up a recovery code. @returns whether it existed and was unused */
export async function useRecoveryCode(tx: Db, { tenantId, userId }: Owner, hash: Buffer, now: Date): Promise<boolean> {
  const used = await tx.run(sql`
    update recovery_codes set used_at = ${now}
    where tenant_id = ${tenantId} and user_id = ${userId} and hash = ${hash} and used_at is null`)
  return used === 1
}

/** The number of unused recovery codes. */
export function countRecoveryCodes(db: Db, { tenantId, userId }: Owner): Promise<number> {
  return db.count(sql`
    select count(*) as n from recovery_codes where tenant_id = ${tenantId} and user_id = ${userId} and used_at is null`)
}

/** When the factor was enabled, and the number of unused recovery codes. Undefined without a factor. */
export function findStatus(
  db: Db,
  { tenantId, userId }: Owner,
): Promise<{ enabled_at: Date; remaining: number } | undefined> {
  return db.one(sql`
    select f.enabled_at, (select count(*) from recovery_codes r
      where r.tenant_id = f.tenant_id and r.user_id = f.user_id and r.used_at is null) as remaining
    from mfa_factors f where f.tenant_id = ${tenantId} and f.user_id = ${userId} and f.secret_sealed is not null`)
}
