import { sharedActLock } from '../platform/concurrency/user-lock.ts'
import { type Db, type Sql, sql } from '../platform/db/db.ts'
import type { AppScope } from '../platform/db/page.ts'
import { change, insertion, update } from '../platform/db/rows.ts'
import { eventsWrites, eventsWritesIf, type StoredEvent } from '../platform/events/events.ts'
import type { Id } from '../platform/ids.ts'
import { guestOver } from '../platform/security/guest-over.ts'
import { readRecord, readToEnd, resealed, sealed, type Versioned } from '../platform/security/records/access.ts'
import { type RecordRow, recordColumns, recordIn } from '../platform/security/records/kind.ts'
import { USER_RECORD } from '../platform/security/records/user-record.ts'
import { WALLET_RECORD, type WalletRow } from '../wallets/wallets/service.ts'
import type { SpendingRow } from './budgets/spending-record.ts'
import {
  type Counted,
  checkedSpending,
  countIf,
  isStill,
  lockedSpending,
  noteSpending,
  refuseOlder,
  SPENDING_COLUMNS,
  spendingBeside,
  spendingIn,
} from './budgets/spending-store.ts'
import type { Policy } from './policy/policy-schema.ts'
import type { Spent } from './policy/windows.ts'
import type { DelegatedSession } from './schema.ts'
import { SESSION_RECORD } from './session-record.ts'

/** A delegated session as the table holds it. */
export interface SessionRow extends Versioned {
  tenant_id: Id<'ten'>
  id: Id<'dse'>
  app_id: Id<'app'>
  user_id: Id<'usr'>
  wallet_id: Id<'wal'>
  name: string | null
  token_hash: Buffer
  /** Thumbprint of the key that the session is bound to; null if its token is enough. */
  jkt: string | null
  policy: Policy
  /**
   * All users whom the policy names as approvers, by their ids in order; null for nobody. Processes of releases without approvers
   * refuse a row that has it.
   */
  approvers: string[] | null
  server_execute: boolean
  max_uses: number | null
  uses: number
  completed: number
  spent: Spent
  /** When a denial by each rule last published an event. */
  denials: Record<string, string>
  /** Wrong signatures by a shared key so far. */
  wrong_signatures: number
  /** An expired session stays `active` until it is swept. */
  status: DelegatedSession['status']
  last_used_at: Date | null
  expires_at: Date
  revoked_at: Date | null
  created_at: Date
  updated_at: Date
}

/** A session with the state of its wallet and user, which decides whether it may act. */
export interface LiveRow extends SessionRow {
  party_id: string
  ledger: string
  custody: 'embedded' | 'shared' | 'self_custody'
  public_key: Buffer | null
  /** Of the shares of the wallet's key; null if it is not shared. */
  generation: number | null
  wallet_status: 'pending' | 'ready' | 'failed'
  frozen: boolean
  user_status: string
  guest_over: boolean
  /** The wallet's MAC: what was decided on one state of the wallet is not written on another. */
  wallet__mac: Buffer | null
  /** The user's, in the same way. */
  user__mac: Buffer | null
  /** The newest version of the session that a transaction made; null for none. Read where commands are executed. */
  used_version?: number | null
  /** The same of the wallet's spending. */
  used_spending?: number | null
  /** Among the wallet's columns: its own budgets. Null if nothing is counted. */
  wallet__budgets: WalletRow['budgets']
  /** The entries of its address book. */
  wallet__recipients: WalletRow['recipients']
  /** What all sessions of the wallet have spent; null if nothing is counted. */
  spending: SpendingRow | null
}

/**
 * Inserts a new session and its event, in one statement. Waits for whoever ends the user's sessions: a new session is among
 * those that end, or is created after they have ended.
 */
export async function insertSession(tx: Db, row: SessionRow, event: StoredEvent): Promise<void> {
  await tx.run(sql`
    with queued as materialized (select ${sharedActLock(sql`${row.user_id}::text`)}),
    ${eventsWritesIf([event], sql`(select true from queued)`)}
    ${insertion('delegated_sessions', await sealed(tx, SESSION_RECORD, row))}`)
}

const withinReach = ({ tenantId, appId }: AppScope, id: string) => sql`
  s.tenant_id = ${tenantId} and s.id = ${id} and (${appId}::text is null or s.app_id = ${appId})`

/** The session, in any state. */
export function findSession(db: Db, reach: AppScope, id: string): Promise<SessionRow | undefined> {
  return readRecord<SessionRow>(
    db,
    SESSION_RECORD,
    sql`select s.* from delegated_sessions s where ${withinReach(reach, id)}`,
  )
}

/** The same to end it. It may have been changed by somebody else: see `readToEnd`. */
export async function findSessionToEnd(db: Db, reach: AppScope, id: string): Promise<SessionRow | undefined> {
  const [row] = await readToEnd<SessionRow>(
    db,
    SESSION_RECORD,
    sql`select s.* from delegated_sessions s where ${withinReach(reach, id)}`,
  )
  return row
}

/** The same, locked until the transaction ends, after its wallet. */
export async function lockSessionToEnd(tx: Db, reach: AppScope, id: string): Promise<SessionRow | undefined> {
  const [row] = await readToEnd<SessionRow>(
    tx,
    SESSION_RECORD,
    sql`select s.* from delegated_sessions s where ${withinReach(reach, id)} for update`,
  )
  return row
}

/**
 * A session, then its user and its wallet, each found by its own key. Lateral joins fix the order: the planner would read all
 * users of a tenant that it believes to be small. `held` is how user and wallet are locked, `by` how the session is. `beside` is
 * what else is read: the wallet's spending, or nothing.
 */
const live = (now: Date, reach: AppScope, which: Sql, held: Sql, by: Sql, beside: Beside): Sql => sql`
  select s.*, w.*, u.*, coalesce(g.over, false) as guest_over ${beside.columns}
  from delegated_sessions s
  cross join lateral (
    select u.status as user_status, u.guest, ${recordColumns(USER_RECORD, 'u')}
    from users u where u.tenant_id = ${reach.tenantId} and u.id = s.user_id ${held}) u
  cross join lateral (
    select w.party_id, w.ledger, w.custody, w.public_key, w.generation, w.status as wallet_status, w.frozen_at is not null as frozen,
      ${recordColumns(WALLET_RECORD, 'w')}
    from wallets w where w.tenant_id = ${reach.tenantId} and w.id = s.wallet_id ${held}) w
  left join lateral (
    select ${guestOver(now)} as over from guests g
    where u.guest and g.tenant_id = ${reach.tenantId} and g.user_id = s.user_id offset 0) g on true
  ${beside.joined}
  where ${which} ${by}`

interface Beside {
  columns: Sql
  joined: Sql
}
const alone: Beside = { columns: sql``, joined: sql`` }
const withSpending = ({ tenantId }: AppScope): Beside => ({
  columns: sql`, ${SPENDING_COLUMNS}`,
  joined: spendingBeside(tenantId),
})

/** The row of a session with its wallet, its user and what is spent of the wallet, all verified. @throws record_tampered */
async function readLive<Row extends LiveRow>(db: Db, statement: Sql): Promise<Row | undefined> {
  const readAt = performance.now()
  const row = await db.one<Row>(statement)
  if (row === undefined) return undefined
  await db.records.check(SESSION_RECORD, [row as object as RecordRow], readAt, !db.inTransaction)
  for (const kind of [WALLET_RECORD, USER_RECORD])
    await db.records.check(kind, [recordIn(kind, row) as RecordRow], readAt, !db.inTransaction)
  if ((row.used_version ?? 0) > row.version)
    db.records.refuse(SESSION_RECORD, row as object as RecordRow, 'it is older than its transactions')
  if (row.status === 'active')
    await db.records.requireListed(WALLET_RECORD, recordIn(WALLET_RECORD, row) as RecordRow, 'sessions', row.id)
  row.spending = await checkedSpending(db, row, readAt)
  if (row.spending !== null && (row.used_spending ?? 0) > row.spending.version) refuseOlder(db, row.spending)
  return row
}

/** A session with the state of its wallet and user. */
export function findLive(db: Db, now: Date, reach: AppScope, id: string): Promise<LiveRow | undefined> {
  return readLive<LiveRow>(db, live(now, reach, withinReach(reach, id), sql`offset 0`, sql``, withSpending(reach)))
}

/** The same, found by its token. */
export function findLiveByToken(db: Db, now: Date, reach: AppScope, tokenHash: Buffer): Promise<LiveRow | undefined> {
  const which = sql`
    s.token_hash = ${tokenHash} and s.tenant_id = ${reach.tenantId} and (${reach.appId}::text is null or s.app_id = ${reach.appId})`
  return readLive<LiveRow>(db, live(now, reach, which, sql`offset 0`, sql``, withSpending(reach)))
}

/** A session with all that executing commands needs to know. */
export interface ReadyRow extends LiveRow {
  /** The session's transaction under the command id; null for none. */
  known_transaction: Id<'tx'> | null
  /** What its ledger reads, if the caller may execute: see `Ledger.snapshot`. */
  snapshot: unknown
}

/** The newest versions of a session `l`, and of its wallet's spending, that a transaction made. Each read is one step in an index. */
const usedVersion = sql`(select max(t.session_version) from transactions t where t.delegated_session_id = l.id) as used_version,
      case when l.wallet__budgets is not null
        then (select max(t.spending_version) from transactions t where t.wallet_id = l.wallet_id) end as used_spending`

/** The same for executing: everything in one statement. */
export function findReady(
  db: Db,
  now: Date,
  reach: AppScope,
  id: string,
  { commandId, snapshot, tokenHash }: { commandId: string | null; snapshot: Sql; tokenHash: Buffer | null },
): Promise<ReadyRow | undefined> {
  return readLive<ReadyRow>(
    db,
    sql`
    select l.*, (
      select t.id from transactions t
      where t.tenant_id = ${reach.tenantId} and t.delegated_session_id = l.id and t.command_id = ${commandId}) as known_transaction,
      ${usedVersion},
      case when l.status = 'active' and l.expires_at > ${now}
        and case when ${tokenHash}::bytea is null then l.server_execute else l.token_hash = ${tokenHash} end
        then ${snapshot} end as snapshot
    from (${live(now, reach, withinReach(reach, id), sql`offset 0`, sql``, withSpending(reach))}) l`,
  )
}

/**
 * Every act for a user takes the user's lock in share mode before it locks a row (`platform/concurrency/user-lock.ts`), so that
 * a freeze, suspension or deletion does not wait for acts that began after it.
 */
const queued = (reach: AppScope, id: string): Sql => sql`
  queued as materialized (
    select s.id, ${sharedActLock(sql`s.user_id`)} from delegated_sessions s where ${withinReach(reach, id)})`

const lockedLive = (now: Date, reach: AppScope, by: Sql, beside = withSpending(reach)): Sql =>
  live(now, reach, sql`s.tenant_id = ${reach.tenantId} and s.id = (select id from queued)`, sql`for share`, by, beside)

/**
 * The same, locked until the transaction ends: the session exclusively, its wallet and user against changes. A freeze,
 * suspension or revocation either comes first or waits.
 */
export function lockLive(tx: Db, now: Date, reach: AppScope, id: string): Promise<LiveRow | undefined> {
  const locked = lockedLive(now, reach, sql`for update of s`)
  return readLive<LiveRow>(tx, sql`with ${queued(reach, id)} select l.*, ${usedVersion} from (${locked}) l`)
}

/** The same, with what is spent of the wallet locked as well: for who reserves or releases. */
export function lockLiveToCount(tx: Db, now: Date, reach: AppScope, id: string): Promise<LiveRow | undefined> {
  return readLive<LiveRow>(
    tx,
    sql`
    with ${queued(reach, id)}, locked as materialized (${lockedLive(now, reach, sql`for update of s`, alone)}),
    ${lockedSpending(reach.tenantId)}
    select l.*, spending.*, ${usedVersion} from locked l left join spending on true`,
  )
}

/** The same for signing what was reserved: concurrent with other signers, never with a revocation. */
export function lockLiveForShare(tx: Db, now: Date, reach: AppScope, id: string): Promise<LiveRow | undefined> {
  return readLive<LiveRow>(tx, sql`with ${queued(reach, id)} ${lockedLive(now, reach, sql`for share of s`)}`)
}

/** What executing changes in a session. */
const USED = 'uses completed spent status last_used_at updated_at version mac'

/** Notes the version of a session that was just written, once it is committed. */
export function noteVersion(db: Db, row: SessionRow): void {
  db.afterCommit(() => db.records.committed(SESSION_RECORD, row as object as RecordRow))
}

/**
 * Stores what executing changes in a session, with its transaction, its events and what is counted, in one statement. The
 * transaction holds the session and, to count, the wallet's spending.
 */
export async function recordUse(
  tx: Db,
  row: SessionRow,
  transaction: Sql,
  events: readonly StoredEvent[],
  counted: Counted | null = null,
): Promise<void> {
  const after = await resealed(tx, SESSION_RECORD, row)
  const counting = counted === null ? sql`` : sql`, ${countIf(counted, sql`true`, row.updated_at)}`
  await tx.run(sql`
    with ${transaction}, ${eventsWrites(events)} ${counting}
    update delegated_sessions set ${change(after, USED)}
    where tenant_id = ${row.tenant_id} and id = ${row.id} and version = ${row.version}`)
  noteVersion(tx, after)
  if (counted !== null) noteSpending(tx, counted)
}

/**
 * What a use of a session writes if the session is still as it was read, and session, wallet and user are live: the
 * transaction, its events, and on a transactional ledger what happens there. One statement: all or nothing.
 */
export interface Use {
  /** The session as it was read. */
  before: LiveRow
  after: SessionRow
  /** The ledger's parts of the statement, among them `applied`; null if nothing happens on the ledger yet. */
  ledger: Sql | null
  /** What it changes in the wallet's spending; null for nothing. */
  counted: Counted | null
  transaction: (condition: Sql) => Sql
  events: readonly StoredEvent[]
  now: Date
}

/** What became of a use: written, or nothing was, because this was not as it had been read any more. */
export type WriteOutcome = 'written' | 'changed' | { spending: SpendingRow }

/** What a use is written on. Of a row with all columns, PostgreSQL would copy them all. */
const DECIDED_ON = sql`
  wallet_id, version, mac, status, expires_at, user_status, user__mac, guest_over, frozen, wallet_status, wallet__mac, generation`

export async function writeUse(db: Db, use: Use): Promise<WriteOutcome> {
  const { before, ledger, transaction, events, now, counted } = use
  const after = await resealed(db, SESSION_RECORD, use.after)
  const reach = { tenantId: before.tenant_id, appId: null }
  const happened = sql`(select true from applied)`
  const readAt = performance.now()
  const row = await db.one<{ written: boolean }>(sql`
    with ${queued(reach, before.id)}, locked as materialized (
      select ${DECIDED_ON} from (${lockedLive(now, reach, sql`for update of s`, alone)}) l),
    ${counted === null ? sql`` : sql`${lockedSpending(before.tenant_id)},`}
    held as materialized (
      select true from locked
      where version = ${before.version} and status = 'active' and expires_at > ${now} and user_status = 'active'
        and not guest_over and not frozen and wallet_status = 'ready'
        and generation is not distinct from ${before.generation}::integer
        and mac is not distinct from ${before.mac}::bytea and user__mac is not distinct from ${before.user__mac}::bytea
        and wallet__mac is not distinct from ${before.wallet__mac}::bytea
        ${counted === null ? sql`` : sql`and ${isStill(counted.before)}`}),
    ${ledger ?? sql`applied as (select true from held)`},
    ${transaction(happened)},
    ${eventsWritesIf(events, happened)},
    ${counted === null ? sql`` : sql`${countIf(counted, happened, now)},`}
    used as (
      update delegated_sessions set ${change(after, USED)}
      where tenant_id = ${before.tenant_id} and id = ${before.id} and ${happened})
    ${counted === null ? sql`select true as written from applied` : WRITTEN}`)
  if (row?.written) {
    noteVersion(db, after)
    if (counted !== null) noteSpending(db, counted)
    return 'written'
  }
  const spending = row === undefined || counted === null ? null : spendingIn(row)
  if (spending === null || spending.version === counted?.before.version) return 'changed'
  await checkedSpending(db, { ...before, ...row }, readAt)
  return { spending }
}

/** Whether a counted use was written and, if not, the wallet's spending as it is now: what to decide on next. */
const WRITTEN = sql`
  select n.written, spending.* from (select exists (select from applied) as written) n
  left join spending on not n.written`

/** Publishes a denial by a rule, unless that was done after `since`. @returns whether it was published */
export async function recordDenial(
  db: Db,
  row: SessionRow,
  rule: string,
  { now, since, events }: { now: Date; since: Date; events: readonly StoredEvent[] },
): Promise<boolean> {
  const published = await db.one(sql`
    with noted as (
      update delegated_sessions set denials = denials || jsonb_build_object(${rule}::text, ${now.toISOString()}::text)
      where tenant_id = ${row.tenant_id} and id = ${row.id}
        and coalesce((denials ->> ${rule}::text)::timestamptz, '-infinity') <= ${since}
      returning true),
    ${eventsWritesIf(events, sql`(select true from noted)`)}
    select from noted`)
  return published !== undefined
}

/** Counts a wrong signature, in the transaction that holds the session's row. @returns the new row */
export async function countWrongSignature(tx: Db, before: SessionRow): Promise<SessionRow> {
  const counted = { ...before, wrong_signatures: before.wrong_signatures + 1 }
  const row = await resealed(tx, SESSION_RECORD, counted)
  await tx.run(update('delegated_sessions', row, 'wrong_signatures version mac'))
  noteVersion(tx, row)
  return row
}

/** A wallet's sessions that are active, and when they end: those that are not swept, too. */
export function activeSessions(
  tx: Db,
  tenantId: Id<'ten'>,
  walletId: Id<'wal'>,
): Promise<{ id: Id<'dse'>; expires_at: Date }[]> {
  return tx.query(sql`
    select id, expires_at from delegated_sessions
    where tenant_id = ${tenantId} and wallet_id = ${walletId} and status = 'active'`)
}
