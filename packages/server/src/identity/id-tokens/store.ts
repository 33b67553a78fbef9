import { type Db, sql } from '../../platform/db/db.ts'
import { change, insertion } from '../../platform/db/rows.ts'
import type { OfApp } from '../../platform/hooks.ts'
import type { Id } from '../../platform/ids.ts'
import {
  isMarked,
  readJoined,
  readRecord,
  readRecords,
  readToEnd,
  resealed,
  sealed,
  type Versioned,
} from '../../platform/security/records/access.ts'
import { APP_RECORD } from '../../platform/security/records/app-record.ts'
import { type RecordRow, recordColumns } from '../../platform/security/records/kind.ts'
import { USER_RECORD } from '../../platform/security/records/user-record.ts'
import { ID_TOKEN_KEY_RECORD } from './key-record.ts'

/** A row of the table `id_token_keys`. */
export interface KeyRow extends Versioned {
  tenant_id: Id<'ten'>
  /** The `kid`. */
  id: string
  app_id: Id<'app'>
  /** PKCS #8, sealed (context: `id token key`, tenant, app, id). */
  private_key_sealed: Buffer
  created_at: Date
  retires_at: Date | null
  revoked_at: Date | null
}

const ofApp = ({ tenantId, appId }: OfApp) => sql`tenant_id = ${tenantId} and app_id = ${appId}`

/** The key that signs now. @throws record_tampered */
export function findCurrentKey(db: Db, of: OfApp): Promise<KeyRow | undefined> {
  return readRecord<KeyRow>(
    db,
    ID_TOKEN_KEY_RECORD,
    sql`select * from id_token_keys where ${ofApp(of)} and retires_at is null`,
  )
}

/** The keys whose tokens can still be valid, the newest first. @throws record_tampered */
export function listPublishedKeys(db: Db, of: OfApp, now: Date): Promise<KeyRow[]> {
  return readRecords<KeyRow>(
    db,
    ID_TOKEN_KEY_RECORD,
    sql`
    select * from id_token_keys where ${ofApp(of)} and revoked_at is null and (retires_at is null or retires_at > ${now})
    order by retires_at desc nulls first, id`,
  )
}

/** Writes an app's current key, unless another process was faster: then that one's counts. */
export async function insertKey(tx: Db, made: KeyRow): Promise<void> {
  const row = await sealed(tx, ID_TOKEN_KEY_RECORD, made)
  await tx.run(
    sql`${insertion('id_token_keys', row)} on conflict (tenant_id, app_id) where retires_at is null do nothing`,
  )
}

/** The next keys of all apps, locked: those that sign now and, with `all`, all that are not revoked. See `readToEnd`. */
export function lockKeysToEnd(
  tx: Db,
  { after, all, limit }: { after: readonly [string, string]; all: boolean; limit: number },
): Promise<KeyRow[]> {
  return readToEnd<KeyRow>(
    tx,
    ID_TOKEN_KEY_RECORD,
    sql`
    select * from id_token_keys
    where (tenant_id, id) > (${after[0]}, ${after[1]}) and (retires_at is null or (${all}::boolean and revoked_at is null))
    order by tenant_id, id limit ${limit} for update`,
  )
}

/** Stores when a key retires or that it was revoked. One that somebody else changed is deleted: nothing may verify by it. */
export async function storeEnd(tx: Db, before: KeyRow): Promise<void> {
  const it = sql`tenant_id = ${before.tenant_id} and id = ${before.id}`
  if (isMarked(before)) {
    await tx.run(sql`delete from id_token_keys where ${it}`)
    return
  }
  const row = await resealed(tx, ID_TOKEN_KEY_RECORD, before)
  await tx.run(sql`update id_token_keys set ${change(row, 'retires_at revoked_at version mac')} where ${it}`)
  tx.afterCommit(() => tx.records.committed(ID_TOKEN_KEY_RECORD, row as object as RecordRow))
}

/** What an ID token says of a user, with the settings of their app. */
export interface SubjectRow {
  guest: boolean
  status: string
  email: string | null
  email_verified: boolean
  metadata: Record<string, string>
  openid: { audiences: string[]; claims: string[] }
}

/** A user or guest with the settings of their app. @throws record_tampered */
export function findSubject(db: Db, tenantId: Id<'ten'>, userId: Id<'usr'>): Promise<SubjectRow | undefined> {
  return readJoined<SubjectRow>(
    db,
    [USER_RECORD, APP_RECORD],
    sql`
    select u.guest, u.status, u.email, u.email_verified, u.metadata, a.openid,
      ${recordColumns(USER_RECORD, 'u')}, ${recordColumns(APP_RECORD, 'a')}
    from users u join apps a on a.tenant_id = u.tenant_id and a.id = u.app_id
    where u.tenant_id = ${tenantId} and u.id = ${userId}`,
  )
}
