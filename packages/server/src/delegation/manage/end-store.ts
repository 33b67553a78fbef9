import { type Db, type Sql, sql } from '../../platform/db/db.ts'
import { update } from '../../platform/db/rows.ts'
import { eventsWrites, type StoredEvent } from '../../platform/events/events.ts'
import type { Id } from '../../platform/ids.ts'
import { readToEnd, resealed } from '../../platform/security/records/access.ts'
import { SESSION_RECORD } from '../session-record.ts'
import { noteVersion, type SessionRow } from '../store.ts'

/** Stores a session's end and its event, in one statement, in the transaction that holds its row. */
export async function endSession(tx: Db, row: SessionRow, event: StoredEvent): Promise<void> {
  const after = await resealed(tx, SESSION_RECORD, row)
  await tx.run(sql`
    with ${eventsWrites([event])}
    ${update('delegated_sessions', after, 'status revoked_at updated_at version mac')}`)
  noteVersion(tx, after)
}

/** Sessions as they are after a change of all of them: status, end, version and MAC, in the transaction that holds their rows. */
async function storeEach(tx: Db, rows: readonly SessionRow[]): Promise<SessionRow[]> {
  const after = await Promise.all(rows.map((row) => resealed(tx, SESSION_RECORD, row)))
  await tx.run(sql`
    update delegated_sessions s set status = e.status, revoked_at = e.revoked_at, updated_at = e.updated_at,
      version = e.version, mac = e.mac
    from unnest(${after.map((row) => row.tenant_id)}::text[], ${after.map((row) => row.id)}::text[],
      ${after.map((row) => row.status)}::text[], ${after.map((row) => row.revoked_at)}::timestamptz[],
      ${after.map((row) => row.updated_at)}::timestamptz[], ${after.map((row) => row.version)}::integer[],
      ${after.map((row) => row.mac)}::bytea[]) e(tenant_id, id, status, revoked_at, updated_at, version, mac)
    where s.tenant_id = e.tenant_id and s.id = e.id`)
  for (const row of after) noteVersion(tx, row)
  return after
}

/** Ends expired sessions, of all tenants, except those that another process has locked. */
export async function expireDue(tx: Db, now: Date, limit: number): Promise<SessionRow[]> {
  const due = await readToEnd<SessionRow>(
    tx,
    SESSION_RECORD,
    sql`
    select * from delegated_sessions where status = 'active' and expires_at <= ${now}
    order by expires_at limit ${limit} for update skip locked`,
  )
  return storeEach(
    tx,
    due.map((row) => ({ ...row, status: 'expired', updated_at: now })),
  )
}

/** A wallet whose sessions are meant. */
export interface SessionsWallet {
  tenantId: Id<'ten'>
  walletId: Id<'wal'>
}

/**
 * Revokes at most `limit` active sessions of a wallet. One that has expired and is not swept is revoked too: to a process
 * whose clock is behind it may still be active. @returns their new rows
 */
export async function revokeActive(tx: Db, now: Date, of: SessionsWallet, limit: number): Promise<SessionRow[]> {
  const active = await lockActive(tx, of, sql`order by id limit ${limit}`)
  return storeEach(
    tx,
    active.map((row) => ({ ...row, status: 'revoked', revoked_at: now, updated_at: now })),
  )
}

/** A wallet's active sessions, to end them or their decisions. */
function lockActive(tx: Db, of: SessionsWallet, which: Sql): Promise<SessionRow[]> {
  return readToEnd<SessionRow>(
    tx,
    SESSION_RECORD,
    sql`
    select * from delegated_sessions
    where tenant_id = ${of.tenantId} and wallet_id = ${of.walletId} and status = 'active' ${which} for update`,
  )
}

/**
 * The same for an app: at most `limit` of those whose id is greater than `after`, in the order of their ids.
 * @returns their new rows
 */
export async function revokeActiveOfApp(
  tx: Db,
  now: Date,
  { tenantId, appId, after }: { tenantId: Id<'ten'>; appId: Id<'app'>; after: string },
  limit: number,
): Promise<SessionRow[]> {
  const active = await readToEnd<SessionRow>(
    tx,
    SESSION_RECORD,
    sql`
    select * from delegated_sessions
    where tenant_id = ${tenantId} and app_id = ${appId} and status = 'active' and id > ${after}
    order by id limit ${limit} for update`,
  )
  return storeEach(
    tx,
    active.map((row) => ({ ...row, status: 'revoked', revoked_at: now, updated_at: now })),
  )
}

/** The same for some wallets, and sessions up to `last`. The wallets are locked. @returns their new rows */
export async function revokeActiveOfWallets(
  tx: Db,
  now: Date,
  { tenantId, walletIds, last }: { tenantId: Id<'ten'>; walletIds: readonly Id<'wal'>[]; last: Id<'dse'> },
): Promise<SessionRow[]> {
  const active = await readToEnd<SessionRow>(
    tx,
    SESSION_RECORD,
    sql`
    select * from delegated_sessions
    where tenant_id = ${tenantId} and wallet_id = any(${walletIds}::text[]) and status = 'active' and id <= ${last}
    order by id for update`,
  )
  return storeEach(
    tx,
    active.map((row) => ({ ...row, status: 'revoked', revoked_at: now, updated_at: now })),
  )
}

/**
 * Makes decisions stale that a wallet's active sessions have made and not written yet: they are made again. The transaction
 * must hold the user's lock (`platform/concurrency/user-lock.ts`).
 */
export async function invalidateDecisions(tx: Db, of: SessionsWallet): Promise<void> {
  await storeEach(tx, await lockActive(tx, of, sql`order by id`))
}

/** Publishes events about sessions of one app, after their changes. */
export async function publishEvents(tx: Db, events: readonly StoredEvent[]): Promise<void> {
  await tx.run(sql`with ${eventsWrites(events)} select`)
}
