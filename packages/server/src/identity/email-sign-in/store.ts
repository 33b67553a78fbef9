import { lockName } from '../../platform/concurrency/named-lock.ts'
import { type Db, type Sql, sql } from '../../platform/db/db.ts'
import { type AppScope, inScope } from '../../platform/db/page.ts'
import { insertion, update } from '../../platform/db/rows.ts'
import type { Id } from '../../platform/ids.ts'
import { readRecord, readToEnd, resealed, sealed, type Versioned } from '../../platform/security/records/access.ts'
import type { RecordRow } from '../../platform/security/records/kind.ts'
import { USER_RECORD } from '../../platform/security/records/user-record.ts'
import type { CodePurpose } from '../emails/schema.ts'
import { EMAIL_CHALLENGE_RECORD } from './challenge-record.ts'

/** A row of the table `email_challenges`. */
export interface ChallengeRow extends Versioned {
  tenant_id: Id<'ten'>
  id: Id<'chl'>
  app_id: Id<'app'>
  purpose: CodePurpose
  email: string
  email_key: string
  /** Who links the address; null for a sign-in. */
  user_id: Id<'usr'> | null
  session_id: Id<'ses'> | null
  /** Null if no code was sent. */
  code_hmac: Buffer | null
  email_id: Id<'eml'>
  wrong_answers: number
  expires_at: Date
  ended_at: Date | null
  created_at: Date
}

/** An address in an app; with `userId`, as an address that this user links. */
export interface Address {
  tenantId: Id<'ten'>
  appId: Id<'app'>
  key: string
  userId: Id<'usr'> | null
}

/**
 * Locks addresses until the transaction ends: their challenges and answers come one after the other. So do those of the user
 * who links or changes them, whose limit counts over all addresses. Everybody locks in the same order.
 */
export async function lockAddresses(tx: Db, addresses: readonly Address[]): Promise<void> {
  const names = (each: Address) => [
    ...(each.userId === null ? [] : [JSON.stringify(['email of a user', each.tenantId, each.userId])]),
    JSON.stringify(['email', each.tenantId, each.appId, each.key]),
  ]
  // In JSON, the users come before the addresses.
  for (const name of [...new Set(addresses.flatMap(names))].sort()) await lockName(tx, name)
}

/** How much an address, and the user who links it, have been used since a time, and when the oldest of it began. */
export interface Usage {
  starts: number
  oldestStart: Date | null
  wrong: number
  oldestWrong: Date | null
}

/** The columns of `Usage`, over challenges that an address had. */
export const usageFigures = (startsSince: Date): Sql => sql`
    count(*) filter (where created_at > ${startsSince}) as starts,
    min(created_at) filter (where created_at > ${startsSince}) as "oldestStart",
    coalesce(sum(wrong_answers), 0) as wrong, min(created_at) filter (where wrong_answers > 0) as "oldestWrong"`

/** Counts challenges since `startsSince`, and wrong answers to those that began since `wrongSince`, which is earlier. */
export async function countUsage(
  tx: Db,
  { tenantId, appId, key, userId }: Address,
  startsSince: Date,
  wrongSince: Date,
): Promise<Usage> {
  const figures = sql`
    ${usageFigures(startsSince)}
    from email_challenges where tenant_id = ${tenantId} and created_at > ${wrongSince}`
  const row = await tx.one<Usage>(sql`
    select greatest(a.starts, u.starts)::int as starts, least(a."oldestStart", u."oldestStart") as "oldestStart",
      greatest(a.wrong, u.wrong)::int as wrong, least(a."oldestWrong", u."oldestWrong") as "oldestWrong"
    from (select ${figures} and app_id = ${appId} and email_key = ${key}) a,
      (select ${figures} and user_id = ${userId}) u`)
  return row as Usage
}

/** Ends the live challenges of an address and purpose: the one that follows is the only one. */
export async function endOthers(tx: Db, address: Address, purpose: CodePurpose, now: Date): Promise<void> {
  const live = await readToEnd<ChallengeRow>(
    tx,
    EMAIL_CHALLENGE_RECORD,
    sql`
    select * from email_challenges
    where tenant_id = ${address.tenantId} and app_id = ${address.appId} and email_key = ${address.key}
      and purpose = ${purpose} and ended_at is null and expires_at > ${now}
    order by id for update`,
  )
  for (const row of live) await store(tx, { ...row, ended_at: now })
}

/** Stores how a challenge went, in the transaction that holds its address. */
async function store(tx: Db, before: ChallengeRow): Promise<void> {
  const row = await resealed(tx, EMAIL_CHALLENGE_RECORD, before)
  await tx.run(update('email_challenges', row, 'wrong_answers ended_at version mac'))
  tx.afterCommit(() => tx.records.committed(EMAIL_CHALLENGE_RECORD, row as object as RecordRow))
}

/** Inserts a challenge. */
export async function insertChallenge(tx: Db, row: ChallengeRow): Promise<void> {
  await tx.run(insertion('email_challenges', await sealed(tx, EMAIL_CHALLENGE_RECORD, row)))
}

/** The challenge of this id and purpose, if the key sees its app. */
export function findChallenge(
  db: Db,
  scope: AppScope,
  id: Id<'chl'>,
  purpose: CodePurpose,
): Promise<ChallengeRow | undefined> {
  return readRecord<ChallengeRow>(
    db,
    EMAIL_CHALLENGE_RECORD,
    sql`select * from email_challenges where ${inScope(scope)} and id = ${id} and purpose = ${purpose}`,
  )
}

/** Counts a wrong answer; with `ends`, it was the last one that was taken. */
export async function countWrong(tx: Db, row: ChallengeRow, ends: boolean, now: Date): Promise<void> {
  await store(tx, { ...row, wrong_answers: row.wrong_answers + 1, ended_at: ends ? now : null })
}

/** Ends a challenge that was answered. */
export async function endChallenge(tx: Db, row: ChallengeRow, now: Date): Promise<void> {
  await store(tx, { ...row, ended_at: now })
}

/** The user who has an address, locked until the transaction ends. */
export interface Holder {
  id: Id<'usr'>
  /** The address as the user has it. */
  email: string
  email_verified: boolean
}

/** Locks the user who has an address. */
export function lockHolder(tx: Db, { tenantId, appId, key }: Address): Promise<Holder | undefined> {
  return readRecord<Holder>(
    tx,
    USER_RECORD,
    sql`
    select * from users where tenant_id = ${tenantId} and app_id = ${appId} and email_key = ${key} for no key update`,
  )
}

/**
 * Whether nobody has ever been in an account, nor prepared a way into it. Its user is locked. A wallet counts as use: a server
 * may act for somebody whom it knows by another login, and who only named the address. Not if an import said that the address
 * is verified.
 */
export async function isUntouched(tx: Db, tenantId: Id<'ten'>, userId: Id<'usr'>): Promise<boolean> {
  const found = await tx.run(sql`
    select from users u where u.tenant_id = ${tenantId} and u.id = ${userId}
      and u.last_seen_at is null and not u.mfa_enabled and not u.guest and coalesce(u.credentials, '') = ''
      and not exists (select from passkeys p where p.tenant_id = u.tenant_id and p.user_id = u.id)
      and not exists (select from identities i where i.tenant_id = u.tenant_id and i.user_id = u.id)
      and (u.email_verified or not exists (select from wallets w where w.tenant_id = u.tenant_id and w.user_id = u.id))`)
  return found === 1
}

/** The user who has an address, and whether they have confirmed it here. */
export interface Known {
  id: Id<'usr'>
  email: string
  confirmed: boolean
}

/** The user who has an address. What it says decides only whether an email is sent. */
export function findHolder(db: Db, { tenantId, appId, key }: Address): Promise<Known | undefined> {
  return readRecord<Known>(
    db,
    USER_RECORD,
    sql`
    select u.*, u.email_verified and exists (
      select from identities i where i.tenant_id = u.tenant_id and i.app_id = u.app_id and i.user_id = u.id
        and i.provider = 'email' and i.issuer = '' and i.subject = u.email_key) as confirmed
    from users u where u.tenant_id = ${tenantId} and u.app_id = ${appId} and u.email_key = ${key}`,
  )
}

const CHALLENGES_A_DELETION = 5_000

/** Deletes a portion of the challenges that count for no limit any more. @returns whether there may be more */
export async function deleteOldChallenges(db: Db): Promise<boolean> {
  const gone = await db.run(sql`
    delete from email_challenges where (tenant_id, id) in (
      select tenant_id, id from email_challenges where created_at < now() - interval '25 hours' limit ${CHALLENGES_A_DELETION})`)
  return gone === CHALLENGES_A_DELETION
}
