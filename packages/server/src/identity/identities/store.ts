import { lockName } from '../../platform/concurrency/named-lock.ts'
import { type Db, sql } from '../../platform/db/db.ts'
import { readRecordPage } from '../../platform/db/page.ts'
import { insertion, wire } from '../../platform/db/rows.ts'
import type { Page, PageQuery } from '../../platform/http/route.ts'
import type { Id } from '../../platform/ids.ts'
import { readJoined, readRecord, readToEnd, type Sealed, sealed } from '../../platform/security/records/access.ts'
import { type RecordRow, recordColumns } from '../../platform/security/records/kind.ts'
import { USER_RECORD } from '../../platform/security/records/user-record.ts'
import type { User } from '../users/schema.ts'
import { findAnyUser, listCredential, toUser, type UserRow, unlistCredential } from '../users/service.ts'
import { IDENTITY_RECORD } from './identity-record.ts'
import type { Identity } from './schema.ts'

/** An account elsewhere, or an email address, as it is known in an app. */
export interface Account {
  tenantId: Id<'ten'>
  appId: Id<'app'>
  provider: Identity['provider']
  /** In whose name space the subject is; empty for a messenger, for email addresses and for external wallets. */
  issuer: string
  subject: string
}

/** A row of the table `identities`. */
export interface IdentityRow extends Sealed {
  tenant_id: Id<'ten'>
  id: Id<'idn'>
  app_id: Id<'app'>
  user_id: Id<'usr'>
  provider: Identity['provider']
  issuer: string
  subject: string
  username: string | null
  created_at: Date
}

/** A row in its API form. */
export function toIdentity(row: IdentityRow): Identity {
  const shown = { ...row, issuer: row.issuer === '' ? null : row.issuer }
  return wire(shown, 'id user_id app_id provider issuer subject username created_at')
}

const isAccount = ({ tenantId, appId, provider, issuer, subject }: Account) =>
  sql`tenant_id = ${tenantId} and app_id = ${appId} and provider = ${provider} and issuer = ${issuer} and subject = ${subject}`

/** Requires that a user, whose record is read here, still has an identity. @throws record_tampered */
async function requireOwn(db: Db, user: UserRow, identityId: string): Promise<void> {
  await db.records.requireListed(USER_RECORD, user as object as RecordRow, 'credentials', identityId)
}

/** The user of an account. Stores the account's current username. @throws record_tampered */
export async function findUserOf(tx: Db, account: Account, username: string | null): Promise<Id<'usr'> | undefined> {
  const row = await readRecord<IdentityRow>(
    tx,
    IDENTITY_RECORD,
    sql`update identities set username = ${username} where ${isAccount(account)} returning *`,
  )
  if (row === undefined) return undefined
  const user = await findAnyUser(tx, row.tenant_id, row.user_id)
  if (user === undefined) return undefined
  await requireOwn(tx, user, row.id)
  return user.id
}

/** The user of an account as they are now, and when their sessions end at the latest: null unless they are a guest. */
export interface Known {
  user: User
  endsAt: Date | null
}

/** The user whose identity an account is, in one statement that writes nothing. @throws record_tampered */
export async function findKnown(db: Db, account: Account): Promise<Known | undefined> {
  const readAt = performance.now()
  const row = await readJoined<UserRow & { ends_at: Date | null; identity__id: string }>(
    db,
    [IDENTITY_RECORD],
    sql`
    select u.*, i.*, case when u.guest_ended then to_timestamp(0) when g.status = 'active' then g.expires_at end as ends_at
    from (select ${recordColumns(IDENTITY_RECORD, 'identities')} from identities where ${isAccount(account)}) i
    join users u on u.tenant_id = ${account.tenantId} and u.id = i.identity__user_id
    left join guests g on g.tenant_id = u.tenant_id and g.user_id = u.id`,
  )
  if (row === undefined) return undefined
  await db.records.check(USER_RECORD, [row as object as RecordRow], readAt, !db.inTransaction)
  await requireOwn(db, row, row.identity__id)
  return { user: toUser(row), endsAt: row.ends_at }
}

/** Locks an account, which may be nobody's yet, until the transaction ends. */
export async function lockAccount(tx: Db, { provider, tenantId, appId, issuer, subject }: Account): Promise<void> {
  await lockName(tx, JSON.stringify([provider, tenantId, appId, issuer, subject]))
}

/** Links an account to a user. */
export async function insertIdentity(tx: Db, row: IdentityRow): Promise<void> {
  await listCredential(tx, row.tenant_id, row.user_id, row.id)
  await tx.run(insertion('identities', await sealed(tx, IDENTITY_RECORD, row)))
}

/** One of a user's identities, to remove it: it may have been changed by somebody else, see `readToEnd`. */
export async function findIdentityToRemove(
  db: Db,
  tenantId: Id<'ten'>,
  userId: Id<'usr'>,
  id: Id<'idn'>,
): Promise<IdentityRow | undefined> {
  const [row] = await readToEnd<IdentityRow>(
    db,
    IDENTITY_RECORD,
    sql`select * from identities where tenant_id = ${tenantId} and user_id = ${userId} and id = ${id}`,
  )
  return row
}

/** All identities of a user, to remove them: see `readToEnd`. */
export function findIdentitiesToRemove(tx: Db, tenantId: Id<'ten'>, userId: Id<'usr'>): Promise<IdentityRow[]> {
  return readToEnd<IdentityRow>(
    tx,
    IDENTITY_RECORD,
    sql`select * from identities where tenant_id = ${tenantId} and user_id = ${userId} order by id`,
  )
}

/** A user's email addresses as identities, to remove them: see `readToEnd`. */
export function findAddressesToRemove(tx: Db, tenantId: Id<'ten'>, userId: Id<'usr'>): Promise<IdentityRow[]> {
  return readToEnd<IdentityRow>(
    tx,
    IDENTITY_RECORD,
    sql`select * from identities where tenant_id = ${tenantId} and user_id = ${userId} and provider = 'email' order by id`,
  )
}

/** A page of a user's identities, newest first. */
export function listIdentities(
  db: Db,
  tenantId: Id<'ten'>,
  userId: Id<'usr'>,
  query: PageQuery,
): Promise<Page<Identity>> {
  const found = sql`from identities where tenant_id = ${tenantId} and user_id = ${userId}`
  return readRecordPage(db, IDENTITY_RECORD, found, query, toIdentity)
}

/** How many identities a user has. */
export function countIdentities(db: Db, tenantId: Id<'ten'>, userId: Id<'usr'>): Promise<number> {
  return db.count(sql`select count(*) as n from identities where tenant_id = ${tenantId} and user_id = ${userId}`)
}

/** Removes an account from its user, if it has one. */
export async function removeAccount(tx: Db, account: Account): Promise<void> {
  const rows = await readToEnd<IdentityRow>(
    tx,
    IDENTITY_RECORD,
    sql`select * from identities where ${isAccount(account)}`,
  )
  for (const row of rows) await deleteIdentity(tx, row)
}

/** Removes an identity from its user. */
export async function deleteIdentity(
  tx: Db,
  { tenant_id: tenantId, user_id: userId, id }: Pick<IdentityRow, 'tenant_id' | 'user_id' | 'id'>,
): Promise<void> {
  await unlistCredential(tx, tenantId, userId, id)
  await tx.run(sql`delete from identities where tenant_id = ${tenantId} and id = ${id}`)
}

/** An address that its user has no longer, or that was not shown again since it changed, signs nobody in. */
const addressWorks = sql`exists (
  select from users o where o.tenant_id = i.tenant_id and o.id = i.user_id and o.email_key = i.subject and o.email_verified)`

const walletWorks = sql`exists (
  select from apps a
  where a.tenant_id = i.tenant_id and a.id = i.app_id and a.external_wallets -> 'types' @> to_jsonb(i.provider))`

/** Neither does an identity of an issuer or provider that is refused, nor an address or a wallet where the app has no such sign-in. */
const worksNow = sql`
  case i.provider
    when 'issuer' then exists (
      select from app_issuers t
      where t.tenant_id = i.tenant_id and t.app_id = i.app_id and t.issuer = i.issuer and t.jit <> 'refuse')
    when 'oidc' then exists (
      select from app_providers p
      where p.tenant_id = i.tenant_id and p.app_id = i.app_id and p.issuer = i.issuer and p.jit <> 'refuse')
    when 'email' then ${addressWorks} and exists (
      select from apps a where a.tenant_id = i.tenant_id and a.id = i.app_id and (a.email ->> 'enabled')::boolean)
    when 'eip4361' then ${walletWorks}
    when 'ed25519' then ${walletWorks}
    else true end`

/** How many ways to sign in a user has at present: passkeys, and identities that work. */
export function countWaysIn(db: Db, tenantId: Id<'ten'>, userId: Id<'usr'>): Promise<number> {
  return db.count(sql`
    select (select count(*) from passkeys where tenant_id = ${tenantId} and user_id = ${userId})
      + (select count(*) from identities i where i.tenant_id = ${tenantId} and i.user_id = ${userId} and ${worksNow}) as n`)
}

/** Whether an identity signs its user in at present. */
export async function isWayIn(db: Db, tenantId: Id<'ten'>, id: Id<'idn'>): Promise<boolean> {
  return (
    (await db.run(sql`select from identities i where i.tenant_id = ${tenantId} and i.id = ${id} and ${worksNow}`)) === 1
  )
}

/** What is known of how a user can sign in. */
export interface WaysIn {
  /** Issuers and providers that can sign the user in at present. */
  issuers: string[]
  messenger: boolean
  email: boolean
  /** Whether the key of an external wallet signs the user in. */
  externalWallet: boolean
  /** How long a recovery by email waits, in hours; null if the app has none. */
  recoveryHours: number | null
  passkeys: number
  secondFactor: boolean
}

/** How a user can sign in at present. Undefined if the user does not exist. */
export function findWaysIn(db: Db, tenantId: Id<'ten'>, userId: Id<'usr'>): Promise<WaysIn | undefined> {
  return db.one<WaysIn>(sql`
    select array(
        select distinct i.issuer from identities i
        where i.tenant_id = u.tenant_id and i.user_id = u.id and i.provider in ('issuer', 'oidc') and ${worksNow} order by i.issuer) as issuers,
      exists (select from identities i where i.tenant_id = u.tenant_id and i.user_id = u.id and i.provider = 'telegram') as messenger,
      exists (
        select from identities i
        where i.tenant_id = u.tenant_id and i.user_id = u.id and i.provider = 'email' and ${worksNow}) as email,
      exists (
        select from identities i
        where i.tenant_id = u.tenant_id and i.user_id = u.id and i.provider in ('eip4361', 'ed25519')
          and ${worksNow}) as "externalWallet",
      (select (a.email_recovery ->> 'waitHours')::int from apps a
        where a.tenant_id = u.tenant_id and a.id = u.app_id and (a.email_recovery ->> 'enabled')::boolean) as "recoveryHours",
      (select count(*)::int from passkeys p where p.tenant_id = u.tenant_id and p.user_id = u.id) as passkeys,
      u.mfa_enabled as "secondFactor"
    from users u where u.tenant_id = ${tenantId} and u.id = ${userId}`)
}
