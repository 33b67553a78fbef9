import { type Db, sql } from '../../platform/db/db.ts'
import type { Id } from '../../platform/ids.ts'

/** A messenger account in an app. */
export interface Account {
  tenantId: Id<'ten'>
  appId: Id<'app'>
  subject: string
  username: string | null
}

const PROVIDER = 'telegram'

/** Uses up a payload. Of concurrent calls, only one succeeds. @returns whether it was unused */
export async function usePayload(
  tx: Db,
  payload: { tenantId: Id<'ten'>; hash: Buffer; expiresAt: Date },
): Promise<boolean> {
  const added = await tx.run(sql`
    insert into messenger_payloads (tenant_id, hash, expires_at)
    values (${payload.tenantId}, ${payload.hash}, ${payload.expiresAt}) on conflict do nothing`)
  return added === 1
}

/** The user of an account. Stores the account's current username. */
export async function findUserOf(tx: Db, account: Account): Promise<Id<'usr'> | undefined> {
  const row = await tx.one<{ user_id: Id<'usr'> }>(sql`
    update identities set username = ${account.username}
    where tenant_id = ${account.tenantId} and app_id = ${account.appId} and provider = ${PROVIDER}
      and subject = ${account.subject} returning user_id`)
  return row?.user_id
}

/** Locks the account until the transaction ends. */
export async function lockAccount(tx: Db, { tenantId, appId, subject }: Account): Promise<void> {
  const name = JSON.stringify([PROVIDER, tenantId, appId, subject])
  await tx.run(sql`select pg_advisory_xact_lock(hashtextextended(${name}, 0))`)
}

/** Links an account to a user. */
export async function insertIdentity(tx: Db, account: Account, userId: Id<'usr'>, now: Date): Promise<void> {
  await tx.run(sql`
    insert into identities (tenant_id, app_id, provider, subject, user_id, username, created_at)
    values (${account.tenantId}, ${account.appId}, ${PROVIDER}, ${account.subject}, ${userId}, ${account.username}, ${now})`)
}

const PAYLOADS_A_DELETION = 5_000

/** Deletes a portion of the used payloads that are too old to be accepted. @returns whether there may be more */
export async function deleteOldPayloads(db: Db): Promise<boolean> {
  const gone = await db.run(sql`
    delete from messenger_payloads where (tenant_id, hash) in (
      select tenant_id, hash from messenger_payloads where expires_at < now() limit ${PAYLOADS_A_DELETION})`)
  return gone === PAYLOADS_A_DELETION
}
