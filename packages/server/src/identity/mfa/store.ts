import { type Db, sql } from '../../platform/db/db.ts'
import { change, insertion } from '../../platform/db/rows.ts'
import type { Id } from '../../platform/ids.ts'
import { sha256 } from '../../platform/security/crypto.ts'
import { readRecord, resealed, type Versioned } from '../../platform/security/records/access.ts'
import type { RecordRow } from '../../platform/security/records/kind.ts'
import { USER_RECORD } from '../../platform/security/records/user-record.ts'
import { lockAccount, setSecondFactor, type UserRow } from '../users/service.ts'
import { FACTOR_RECORD } from './factor-record.ts'

/** A row of the table `mfa_factors`. */
export interface FactorRow extends Versioned {
  tenant_id: Id<'ten'>
  user_id: Id<'usr'>
  /** Null while only a set-up is pending. */
  secret_sealed: Buffer | null
  pending_secret_sealed: Buffer | null
  pending_until: Date | null
  last_step: number
  failures: number
  locked_until: Date | null
  enabled_at: Date | null
  /** Over the recovery codes that are not used; null in a row from before it. */
  recovery_digest: Buffer | null
}

/** The owner of a factor. */
export interface Owner {
  tenantId: Id<'ten'>
  userId: Id<'usr'>
}

/** A user and their second factor, or the pending set-up of one, both locked until the transaction ends. */
export interface Held {
  user: UserRow
  factor: FactorRow | undefined
}

/** Why a factor's row is not the one that its user's record names; null if it is. */
function faultOf({ user, factor }: Held): string | null {
  if (user.mfa_enabled !== (factor !== undefined && factor.secret_sealed !== null))
    return 'its second factor is another'
  const isNewest = factor === undefined || factor.version === user.factor_version
  return isNewest ? null : 'its second factor is not the newest'
}

/**
 * Locks the user, then the second factor. Lock order: the user first, as in a deletion.
 * @returns undefined if the user does not exist @throws record_tampered
 */
export async function lockFactor(tx: Db, { tenantId, userId }: Owner): Promise<Held | undefined> {
  const user = await lockAccount(tx, tenantId, userId)
  if (user === undefined) return undefined
  const factor = await readRecord<FactorRow>(
    tx,
    FACTOR_RECORD,
    sql`select * from mfa_factors where tenant_id = ${tenantId} and user_id = ${userId} for update`,
  )
  const fault = faultOf({ user, factor })
  // A process of an earlier release keeps neither version nor digest.
  if (fault !== null && (await tx.records.isEnforced(FACTOR_RECORD.since)))
    tx.records.refuse(USER_RECORD, user as object as RecordRow, fault)
  return { user, factor }
}

const COLUMNS =
  'secret_sealed pending_secret_sealed pending_until last_step failures locked_until enabled_at recovery_digest version mac'

const NO_FACTOR = {
  secret_sealed: null,
  pending_secret_sealed: null,
  pending_until: null,
  last_step: 0,
  failures: 0,
  locked_until: null,
  enabled_at: null,
  mac: null,
} as const

const digestOf = (hashes: readonly Buffer[]) => sha256(Buffer.concat(hashes.toSorted(Buffer.compare)))

/**
 * Stores a factor as it is from now on, and in the user's record which version of it counts. No version comes twice: a factor
 * that was deleted does not come back.
 */
async function write(tx: Db, { user, factor }: Held, changes: Partial<FactorRow>): Promise<Held> {
  const { tenant_id, id } = user
  const version = Math.max(factor?.version ?? 0, user.factor_version ?? 0)
  const before = factor ?? { ...NO_FACTOR, tenant_id, user_id: id, recovery_digest: digestOf([]) }
  const row = await resealed<FactorRow>(tx, FACTOR_RECORD, { ...before, ...changes, version })
  await tx.run(
    factor === undefined
      ? insertion('mfa_factors', row)
      : sql`update mfa_factors set ${change(row, COLUMNS)} where tenant_id = ${tenant_id} and user_id = ${id}`,
  )
  tx.afterCommit(() => tx.records.committed(FACTOR_RECORD, row as object as RecordRow))
  const enabled = row.secret_sealed !== null
  return { user: await setSecondFactor(tx, user, { enabled, version: row.version }), factor: row }
}

/** Stores a pending set-up and replaces an earlier one. An active factor and its lock do not change. */
export async function putPending(tx: Db, held: Held, secret: Buffer, until: Date): Promise<void> {
  await write(tx, held, { pending_secret_sealed: secret, pending_until: until })
}

/** Activates the pending factor with its recovery codes. The time step of the code that confirmed it is used up. */
export async function activate(
  tx: Db,
  held: Held & { factor: FactorRow },
  { step, now, hashes }: { step: number; now: Date; hashes: readonly Buffer[] },
): Promise<void> {
  const { tenant_id: tenantId, id: userId } = held.user
  await tx.run(sql`delete from recovery_codes where tenant_id = ${tenantId} and user_id = ${userId}`)
  await tx.run(sql`
    insert into recovery_codes (tenant_id, user_id, hash)
    select ${tenantId}, ${userId}, hash from unnest(${hashes}::bytea[]) as hash`)
  await write(tx, held, {
    secret_sealed: held.factor.pending_secret_sealed,
    pending_secret_sealed: null,
    pending_until: null,
    last_step: step,
    failures: 0,
    enabled_at: now,
    recovery_digest: digestOf(hashes),
  })
}

/** Records a correct code of the factor and resets the count of wrong ones. */
export async function recordCorrectCode(tx: Db, held: Held & { factor: FactorRow }, step: number): Promise<void> {
  await write(tx, held, { failures: 0, last_step: Math.max(held.factor.last_step, step) })
}

/** Stores the count of wrong codes, and until when no code is accepted. */
export async function recordWrongCode(tx: Db, held: Held, failures: number, lockedUntil: Date | null): Promise<void> {
  await write(tx, held, { failures, locked_until: lockedUntil })
}

/** Deletes the factor and its recovery codes. */
export async function deleteFactor(tx: Db, { user, factor }: Held): Promise<void> {
  const { tenant_id: tenantId, id: userId } = user
  const version = Math.max(factor?.version ?? 0, user.factor_version ?? 0)
  await setSecondFactor(tx, user, { enabled: false, version })
  await tx.run(sql`delete from recovery_codes where tenant_id = ${tenantId} and user_id = ${userId}`)
  await tx.run(sql`delete from mfa_factors where tenant_id = ${tenantId} and user_id = ${userId}`)
}

/** The hashes of the unused recovery codes. @throws record_tampered when they are not those that the factor's record names */
async function unusedCodes(tx: Db, factor: FactorRow): Promise<Buffer[]> {
  const rows = await tx.query<{ hash: Buffer }>(sql`
    select hash from recovery_codes
    where tenant_id = ${factor.tenant_id} and user_id = ${factor.user_id} and used_at is null`)
  const hashes = rows.map(({ hash }) => hash)
  const isKnown = factor.recovery_digest !== null && digestOf(hashes).equals(factor.recovery_digest)
  if (!isKnown && (await tx.records.isEnforced(FACTOR_RECORD.since)))
    tx.records.refuse(FACTOR_RECORD, factor as object as RecordRow, 'its recovery codes are others')
  return hashes
}

/**
 * Uses up a recovery code, which resets the count of wrong ones. @returns how many are left; null if there is no such code
 * @throws record_tampered
 */
export async function useRecoveryCode(
  tx: Db,
  held: Held & { factor: FactorRow },
  hash: Buffer,
  now: Date,
): Promise<number | null> {
  const { factor } = held
  const unused = await unusedCodes(tx, factor)
  const left = unused.filter((one) => !one.equals(hash))
  if (left.length === unused.length) return null
  await tx.run(sql`
    update recovery_codes set used_at = ${now}
    where tenant_id = ${factor.tenant_id} and user_id = ${factor.user_id} and hash = ${hash} and used_at is null`)
  await write(tx, held, { failures: 0, recovery_digest: digestOf(left) })
  return left.length
}

/** When the factor was enabled, and the number of unused recovery codes. Undefined without a factor. @throws record_tampered */
export async function findStatus(
  db: Db,
  { tenantId, userId }: Owner,
): Promise<{ enabled_at: Date; remaining: number } | undefined> {
  const row = await readRecord<FactorRow & { enabled_at: Date; remaining: number }>(
    db,
    FACTOR_RECORD,
    sql`
    select f.*, (select count(*) from recovery_codes r
      where r.tenant_id = f.tenant_id and r.user_id = f.user_id and r.used_at is null) as remaining
    from mfa_factors f where f.tenant_id = ${tenantId} and f.user_id = ${userId}`,
  )
  return row?.secret_sealed == null ? undefined : row
}
