import { type Usage, usageFigures } from '../../../identity/email-sign-in/store.ts'
import { lockName } from '../../../platform/concurrency/named-lock.ts'
import { type Db, sql } from '../../../platform/db/db.ts'
import { change, insertion, update } from '../../../platform/db/rows.ts'
import type { Id } from '../../../platform/ids.ts'
import {
  readRecord,
  readToEnd,
  resealed,
  type Sealed,
  sealed,
  type Versioned,
} from '../../../platform/security/records/access.ts'
import type { RecordRow } from '../../../platform/security/records/kind.ts'
import { MEMBER_CODE_RECORD, MEMBER_IDENTITY_RECORD, MEMBER_SIGN_IN_RECORD } from './records.ts'

/** The organisation's login, as a client of it. */
interface ProviderColumns {
  provider_id: Id<'prv'> | null
  name: string | null
  issuer: string | null
  client_id: string | null
  client_secret_sealed: Buffer | null
}

/** A row of the table `member_sign_in`. A tenant without one has not turned the way on. Only `oidc` has a provider. */
interface MethodRow extends Versioned, ProviderColumns {
  tenant_id: Id<'ten'>
  method: 'email_code' | 'oidc'
  enabled: boolean
  updated_at: Date
}

/** A way to sign in, as it was last set. */
export function findMethod(db: Db, tenantId: Id<'ten'>, method: MethodRow['method']): Promise<MethodRow | undefined> {
  return readRecord<MethodRow>(
    db,
    MEMBER_SIGN_IN_RECORD,
    sql`select * from member_sign_in where tenant_id = ${tenantId} and method = ${method}`,
  )
}

/** Whether an owner has turned a way on. */
export async function isOn(db: Db, tenantId: Id<'ten'>, method: MethodRow['method']): Promise<boolean> {
  return (await findMethod(db, tenantId, method))?.enabled === true
}

/**
 * Sets a way, in the transaction that holds the tenant's members. Its row is never deleted: its version tells an earlier one that is
 * put back.
 */
export async function setMethod(tx: Db, given: Omit<MethodRow, 'version' | 'mac'>): Promise<void> {
  const { tenant_id: tenantId, method } = given
  const before = await findMethod(tx, tenantId, method)
  if (before === undefined) {
    const row: MethodRow = { ...given, version: 0, mac: null }
    await tx.run(insertion('member_sign_in', await sealed(tx, MEMBER_SIGN_IN_RECORD, row)))
    return
  }
  const row = await resealed(tx, MEMBER_SIGN_IN_RECORD, { ...before, ...given })
  await tx.run(sql`
    update member_sign_in set ${change(row, 'enabled provider_id name issuer client_id client_secret_sealed updated_at version mac')}
    where tenant_id = ${tenantId} and method = ${method}`)
  tx.afterCommit(() => tx.records.committed(MEMBER_SIGN_IN_RECORD, row as object as RecordRow))
}

/** A row of the table `member_identities`: an account at the organisation's login. */
export interface IdentityRow extends Sealed {
  tenant_id: Id<'ten'>
  id: Id<'idn'>
  member_id: Id<'mem'>
  provider_id: Id<'prv'>
  issuer: string
  subject: string
  created_at: Date
}

/** An account, by the provider's row, the issuer and the subject. */
type WhichAccount = Pick<IdentityRow, 'tenant_id' | 'provider_id' | 'issuer' | 'subject'>

/** The identity of an account. */
export function findIdentity(db: Db, of: WhichAccount): Promise<IdentityRow | undefined> {
  return readRecord<IdentityRow>(
    db,
    MEMBER_IDENTITY_RECORD,
    sql`
    select * from member_identities where tenant_id = ${of.tenant_id} and provider_id = ${of.provider_id}
      and issuer = ${of.issuer} and subject = ${of.subject}`,
  )
}

/** The identity of a member at a provider. */
export function findIdentityOf(
  db: Db,
  tenantId: Id<'ten'>,
  providerId: Id<'prv'>,
  memberId: Id<'mem'>,
): Promise<IdentityRow | undefined> {
  return readRecord<IdentityRow>(
    db,
    MEMBER_IDENTITY_RECORD,
    sql`
    select * from member_identities
    where tenant_id = ${tenantId} and provider_id = ${providerId} and member_id = ${memberId}`,
  )
}

/** Inserts an identity. @returns false, and writes none, if a member has the account */
export async function insertIdentity(tx: Db, row: IdentityRow): Promise<boolean> {
  const written = await tx.run(sql`
    ${insertion('member_identities', await sealed(tx, MEMBER_IDENTITY_RECORD, row))}
    on conflict (tenant_id, provider_id, issuer, subject) do nothing`)
  return written === 1
}

/** Deletes the identities of a member; without one, those of all members of the tenant. */
export async function deleteIdentities(tx: Db, tenantId: Id<'ten'>, memberId: Id<'mem'> | null): Promise<void> {
  await tx.run(sql`
    delete from member_identities where tenant_id = ${tenantId} and (${memberId}::text is null or member_id = ${memberId})`)
}

/** Tenants, by their ids: at most two, to find out whether there is a single one. */
export function firstTenants(db: Db): Promise<{ id: Id<'ten'> }[]> {
  return db.query<{ id: Id<'ten'> }>(sql`select id from tenants order by id limit 2`)
}

/** A row of the table `member_codes`. */
export interface CodeRow extends Versioned {
  tenant_id: Id<'ten'>
  id: Id<'chl'>
  /** Null, as the HMAC, if nobody gets the code. */
  member_id: Id<'mem'> | null
  email_key: string
  code_hmac: Buffer | null
  browser_hash: string
  wrong_answers: number
  expires_at: Date
  ended_at: Date | null
  created_at: Date
}

/** An address that somebody signs in with. */
export interface Address {
  tenantId: Id<'ten'>
  key: string
}

/** Locks an address until the transaction ends: its codes and answers come one after the other. */
export const lockAddress = (tx: Db, { tenantId, key }: Address): Promise<void> =>
  lockName(tx, JSON.stringify(['email of a member', tenantId, key]))

/** Counts the codes of an address since `startsSince`, and wrong answers to those since `wrongSince`, which is earlier. */
export async function countUsage(
  tx: Db,
  { tenantId, key }: Address,
  startsSince: Date,
  wrongSince: Date,
): Promise<Usage> {
  const row = await tx.one<Usage>(sql`
    select ${usageFigures(startsSince)}
    from member_codes where tenant_id = ${tenantId} and created_at > ${wrongSince} and email_key = ${key}`)
  return row as Usage
}

/** Ends the live codes of an address: the one that follows is the only one. */
export async function endOthers(tx: Db, { tenantId, key }: Address, now: Date): Promise<void> {
  const live = await readToEnd<CodeRow>(
    tx,
    MEMBER_CODE_RECORD,
    sql`
    select * from member_codes
    where tenant_id = ${tenantId} and email_key = ${key} and ended_at is null and expires_at > ${now}
    order by id for update`,
  )
  for (const row of live) await endCode(tx, row, now)
}

/** Inserts a code. */
export async function insertCode(tx: Db, row: CodeRow): Promise<void> {
  await tx.run(insertion('member_codes', await sealed(tx, MEMBER_CODE_RECORD, row)))
}

/** A code of a tenant. */
export function findCode(db: Db, tenantId: Id<'ten'>, id: Id<'chl'>): Promise<CodeRow | undefined> {
  return readRecord<CodeRow>(
    db,
    MEMBER_CODE_RECORD,
    sql`select * from member_codes where tenant_id = ${tenantId} and id = ${id}`,
  )
}

/** Stores how a code was answered, in the transaction that holds its address. */
async function storeAnswer(tx: Db, before: CodeRow): Promise<void> {
  const row = await resealed(tx, MEMBER_CODE_RECORD, before)
  await tx.run(update('member_codes', row, 'wrong_answers ended_at version mac'))
  tx.afterCommit(() => tx.records.committed(MEMBER_CODE_RECORD, row as object as RecordRow))
}

/** Counts a wrong answer; with `ends`, it was the last one that was taken. */
export const countWrong = (tx: Db, row: CodeRow, ends: boolean, now: Date): Promise<void> =>
  storeAnswer(tx, { ...row, wrong_answers: row.wrong_answers + 1, ended_at: ends ? now : null })

/** Ends a code that was answered. */
export const endCode = (tx: Db, row: CodeRow, now: Date): Promise<void> => storeAnswer(tx, { ...row, ended_at: now })

/** Deletes all codes, of every tenant. */
export async function deleteCodes(tx: Db): Promise<void> {
  await tx.run(sql`delete from member_codes`)
}

const CODES_A_DELETION = 5_000

/** Deletes a portion of the codes that count for no limit any more. @returns whether there may be more */
export async function deleteOldCodes(db: Db): Promise<boolean> {
  const gone = await db.run(sql`
    delete from member_codes where (tenant_id, id) in (
      select tenant_id, id from member_codes where created_at < now() - interval '25 hours' limit ${CODES_A_DELETION})`)
  return gone === CODES_A_DELETION
}
