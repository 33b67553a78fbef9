import { type Db, type Sql, sql } from '../../platform/db/db.ts'
import { inScope, readPage } from '../../platform/db/page.ts'
import { json, matching, update, wire } from '../../platform/db/rows.ts'
import { eventsWrites, type StoredEvent } from '../../platform/events/events.ts'
import type { Page, PageQuery } from '../../platform/http/route.ts'
import type { Id } from '../../platform/ids.ts'
import type { Command, Effect } from '../../platform/ports/ledger.ts'
import type { KeptSignature } from '../../platform/ports/signature.ts'
import {
  isMarked,
  readRecord,
  readToEnd,
  resealed,
  sealed,
  type Versioned,
} from '../../platform/security/records/access.ts'
import type { NonceCommitments } from '../custody/schema.ts'
import type { CoSignature } from '../custody/service.ts'
import type { Operation, Transaction, TransactionSummary } from './schema.ts'
import { TRANSACTION_RECORD } from './transaction-record.ts'

/** A part of a delegated session's caps, or of its wallet's budgets, that a transaction takes: see `budgets/count.ts` there. */
type Reserved = { bucket: string; units: string } & ({ entry: number | `conditions[${number}]` } | { budget: string })

/** Why a transaction failed. */
interface Failure {
  code: string
  message: string
  /** The HTTP status of the response. */
  status: number
  details: object[]
}

/** The service's part in a signature by a shared key: the requested commitments, and its share once it is made. */
interface Cosigned {
  /** The other signer's commitments. */
  commitments: NonceCommitments
  /** Null until the transaction is reserved. */
  made: CoSignature | null
}

/** A transaction as the table holds it. */
export interface TransactionRow extends Versioned {
  tenant_id: Id<'ten'>
  id: Id<'tx'>
  app_id: Id<'app'>
  user_id: Id<'usr'>
  wallet_id: Id<'wal'>
  party_id: string
  delegated_session_id: Id<'dse'>
  ledger: string
  command_id: string
  commands_hash: Buffer
  status: Transaction['status']
  operations: Operation[]
  effects: Effect[]
  spends: Reserved[]
  /** Stored only while it is open, like `prepared` and `signatures`. */
  commands: Command[] | null
  prepared: Buffer | null
  signatures: KeptSignature[] | null
  /** Only if the wallet's key is shared, and while it is open. */
  cosigned: Cosigned | null
  expires_at: Date | null
  check_at: Date | null
  /** What was left of the session's caps in the first response. */
  remaining: object | null
  /** The version of its session that it made; null while it reserves nothing. */
  session_version: number | null
  /** The version of its wallet's spending that it made; null if it counts for no budget. */
  spending_version: number | null
  update_id: string | null
  ledger_offset: number | null
  error: Failure | null
  created_at: Date
  updated_at: Date
  completed_at: Date | null
}

/** A row as lists show it. */
function toSummary(row: SummaryRow): TransactionSummary {
  return wire(
    { ...row, offset: row.ledger_offset, error: row.error && { code: row.error.code, message: row.error.message } },
    `id app_id user_id wallet_id party_id delegated_session_id ledger command_id status operations update_id offset
    error expires_at completed_at created_at updated_at`,
  )
}

/** A row as the API returns a single transaction. */
export function toTransaction(row: TransactionRow): Transaction {
  return { ...toSummary(row), effects: row.effects }
}

/** A new transaction with its MAC, to be inserted. */
export function sealedTransaction(db: Db, row: TransactionRow): Promise<TransactionRow> {
  return sealed(db, TRANSACTION_RECORD, row)
}

/** Inserts a new transaction if `condition` holds: a part of the statement that changes its session. */
export function transactionInsertion(row: TransactionRow, condition: Sql): Sql {
  return sql`
    transaction_row as (
      insert into transactions (tenant_id, id, app_id, user_id, wallet_id, party_id, delegated_session_id, ledger, command_id,
        commands_hash, status, operations, effects, spends, commands, prepared, signatures, cosigned, expires_at, check_at, remaining,
        session_version, spending_version, update_id, ledger_offset, created_at, updated_at, completed_at, version, mac)
      select ${row.tenant_id}, ${row.id}, ${row.app_id}, ${row.user_id}, ${row.wallet_id}, ${row.party_id},
        ${row.delegated_session_id}, ${row.ledger}, ${row.command_id}, ${row.commands_hash}::bytea, ${row.status},
        ${json(row.operations)}::json, ${json(row.effects)}::json, ${json(row.spends)}::json, ${json(row.commands)}::json,
        ${row.prepared}::bytea, ${json(row.signatures)}::json, ${json(row.cosigned)}::json, ${row.expires_at}::timestamptz, ${row.check_at}::timestamptz,
        ${json(row.remaining)}::json, ${row.session_version}::integer, ${row.spending_version}::integer, ${row.update_id}, ${row.ledger_offset}::bigint, ${row.created_at}::timestamptz,
        ${row.updated_at}::timestamptz, ${row.completed_at}::timestamptz, ${row.version}::integer, ${row.mac}::bytea
      where ${condition})`
}

/** Stores what can change in an open transaction: a part of the statement that changes its session. */
export async function transactionChange(db: Db, before: TransactionRow): Promise<Sql> {
  const row = await resealed(db, TRANSACTION_RECORD, before)
  const lists = { effects: json(row.effects), spends: json(row.spends), commands: json(row.commands) }
  const kept = { ...row, ...lists, signatures: json(row.signatures) }
  const columns = `status effects spends commands prepared signatures cosigned expires_at check_at remaining session_version
    spending_version update_id ledger_offset error updated_at completed_at version mac`
  return sql`transaction_row as (${update('transactions', kept, columns)})`
}

/** Inserts a new transaction that reserves nothing of its session yet. */
export async function insertTransaction(tx: Db, row: TransactionRow): Promise<void> {
  // As the database keeps them: JSON has no infinite numbers.
  const commands = row.commands && (JSON.parse(JSON.stringify(row.commands)) as Command[])
  await tx.run(sql`with ${transactionInsertion(await sealedTransaction(tx, { ...row, commands }), sql`true`)} select`)
}

/** Stores a change of a transaction that nobody is told of. */
export async function setTransaction(tx: Db, row: TransactionRow): Promise<void> {
  await tx.run(sql`with ${await transactionChange(tx, row)} select`)
}

/** Stores a change of an open transaction, with its event. */
export async function updateTransaction(tx: Db, row: TransactionRow, event: StoredEvent): Promise<void> {
  await tx.run(sql`with ${await transactionChange(tx, row)}, ${eventsWrites([event])} select`)
}

const readOne = (db: Db, statement: Sql) => readRecord<TransactionRow>(db, TRANSACTION_RECORD, statement)

/** Claims an open transaction until then; undefined if another request has taken or changed it since `row` was read. */
export function postpone(db: Db, row: TransactionRow, until: Date): Promise<TransactionRow | undefined> {
  return readOne(
    db,
    sql`
    update transactions set check_at = ${until}
    where tenant_id = ${row.tenant_id} and id = ${row.id} and status = ${row.status} and check_at = ${row.check_at}
    returning *`,
  )
}

/** A transaction as it is now; with `appId`, only if it belongs to that app. */
export function findTransaction(
  db: Db,
  tenantId: Id<'ten'>,
  id: Id<'tx'>,
  appId: Id<'app'> | null = null,
): Promise<TransactionRow | undefined> {
  return readOne(db, sql`select * from transactions where ${inScope({ tenantId, appId })} and id = ${id}`)
}

/** The same, locked. Its session must be locked first. */
export function lockTransaction(tx: Db, tenantId: Id<'ten'>, id: Id<'tx'>): Promise<TransactionRow | undefined> {
  return readOne(tx, sql`select * from transactions where tenant_id = ${tenantId} and id = ${id} for update`)
}

/** The transaction that a delegated session made under a command id. */
export function findByCommand(
  db: Db,
  tenantId: Id<'ten'>,
  sessionId: Id<'dse'>,
  commandId: string,
): Promise<TransactionRow | undefined> {
  return readOne(
    db,
    sql`
    select * from transactions
    where tenant_id = ${tenantId} and delegated_session_id = ${sessionId} and command_id = ${commandId}`,
  )
}

/** A session's open transactions that are signed, or have the service's share of a signature; at most 1000. */
export function signedAndOpen(db: Db, tenantId: Id<'ten'>, sessionId: Id<'dse'>): Promise<TransactionRow[]> {
  return readToEnd<TransactionRow>(
    db,
    TRANSACTION_RECORD,
    sql`
    select * from transactions
    where tenant_id = ${tenantId} and delegated_session_id = ${sessionId} and check_at is not null
      and (status = 'submitted' or (status = 'signature_required' and cosigned is not null))
    order by id limit 1000`,
  )
}

/** Has the worker look at what waits for an owner, of sessions that the transaction has ended. */
export async function lookAtAwaiting(tx: Db, sessionIds: readonly Id<'dse'>[], now: Date): Promise<void> {
  await tx.run(sql`
    update transactions set check_at = ${now}
    where delegated_session_id = any(${sessionIds}::text[]) and status = 'approval_required'`)
}

/** Whether a wallet has a transaction that holds a part of its budgets, or that failed and may be charged again. */
export async function hasUnsettled(db: Db, tenantId: Id<'ten'>, walletId: Id<'wal'>): Promise<boolean> {
  const found = await db.one(sql`
    select from transactions where tenant_id = ${tenantId} and wallet_id = ${walletId} and check_at is not null limit 1`)
  return found !== undefined
}

/** Whose transactions are looked for: those of a wallet or of an app. */
export interface InFlightFilter {
  tenantId: Id<'ten'>
  walletId: Id<'wal'> | null
  appId: Id<'app'> | null
}

/**
 * What all sessions of a wallet or an app, ended ones too, have signed and may still happen; at most `limit`. On `settled`
 * ledgers nobody but the service can submit what has the service's share of a signature.
 */
export function listInFlight(
  db: Db,
  { tenantId, walletId, appId }: InFlightFilter,
  settled: readonly string[],
  limit: number,
): Promise<
  Pick<TransactionRow, 'id' | 'command_id' | 'ledger' | 'expires_at' | 'wallet_id' | 'delegated_session_id'>[]
> {
  return db.query(sql`
    select id, command_id, ledger, expires_at, wallet_id, delegated_session_id from transactions
    where ${matching({ tenant_id: tenantId, wallet_id: walletId, app_id: appId })} and check_at is not null
      and (status = 'submitted' or (status = 'signature_required' and cosigned is not null and ledger <> all (${settled})))
    order by id limit ${limit}`)
}

/**
 * Takes open transactions that are due for a check, of all tenants, until `until`. Of several callers each transaction goes
 * to one. Fewer are returned where some do not verify.
 */
export async function takeDue(db: Db, now: Date, until: Date, limit: number): Promise<TransactionRow[]> {
  const rows = await readToEnd<TransactionRow>(
    db,
    TRANSACTION_RECORD,
    sql`
    with due as (
      select tenant_id, id from transactions where check_at <= ${now} order by check_at limit ${limit} for update skip locked)
    update transactions t set check_at = ${until} from due where t.tenant_id = due.tenant_id and t.id = due.id returning t.*`,
  )
  // One that somebody else changed stays open. The others go on.
  return rows.filter((row) => !isMarked(row))
}

/** A transaction that happened, as a policy is tried on it. */
export type PastTransaction = Pick<TransactionRow, 'id' | 'command_id' | 'effects' | 'created_at'>

/** The ids of a wallet's last completed transactions, newest first. */
export async function lastCompleted(
  db: Db,
  { tenantId, walletId }: { tenantId: Id<'ten'>; walletId: Id<'wal'> },
  limit: number,
): Promise<Id<'tx'>[]> {
  const rows = await db.query<{ id: Id<'tx'> }>(sql`
    select id from transactions where tenant_id = ${tenantId} and wallet_id = ${walletId} and status = 'completed'
    order by id desc limit ${limit}`)
  return rows.map(({ id }) => id)
}

/** What one of them did; undefined if its user was deleted meanwhile. */
export function findPast(db: Db, tenantId: Id<'ten'>, id: Id<'tx'>): Promise<PastTransaction | undefined> {
  return db.one<PastTransaction>(sql`
    select id, command_id, effects, created_at from transactions where tenant_id = ${tenantId} and id = ${id}`)
}

/** What transactions to list. Null and undefined match everything. */
export type TransactionFilter = { [Column in FilterColumn]: string | null | undefined }
type FilterColumn = 'tenant_id' | 'app_id' | 'status' | 'wallet_id' | 'user_id' | 'delegated_session_id' | 'command_id'

/** The columns for lists, without those that can have megabytes. */
const SUMMARY = sql`
  tenant_id, id, app_id, user_id, wallet_id, party_id, delegated_session_id, ledger, command_id, status, operations, expires_at,
  update_id, ledger_offset, error, created_at, updated_at, completed_at`

/** A transaction without its effects and without the data that is stored only while it is open. */
type SummaryRow = Omit<
  TransactionRow,
  | 'effects'
  | 'commands_hash'
  | 'spends'
  | 'commands'
  | 'prepared'
  | 'signatures'
  | 'check_at'
  | 'remaining'
  | 'version'
  | 'mac'
>

/** A page of the transactions that a filter finds, newest first. */
export function listTransactions(
  db: Db,
  filter: TransactionFilter,
  query: PageQuery,
): Promise<Page<TransactionSummary>> {
  return readPage(
    db,
    sql`from (select ${SUMMARY} from transactions where ${matching({ ...filter })}) t`,
    query,
    toSummary,
  )
}
