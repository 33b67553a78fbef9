import type { Db, Sql } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import { newEvent, type StoredEvent } from '../../platform/events/events.ts'
import { failures } from '../../platform/http/errors.ts'
import type { Caller, Origin, Page } from '../../platform/http/route.ts'
import { paging } from '../../platform/http/route.ts'
import { type Id, isId } from '../../platform/ids.ts'
import type { Command } from '../../platform/ports/ledger.ts'
import { resolveApp } from '../../tenancy/apps/service.ts'
import type { ListTransactions, Operation, Transaction, TransactionSummary } from './schema.ts'
import * as store from './store.ts'

export type { Failure, KeptSignature, TransactionRow } from './store.ts'

const fail = failures({})

/** One transaction. @throws not_found */
export async function getTransaction(deps: Deps, caller: Caller, id: string): Promise<Transaction> {
  const row = isId('tx', id) ? await store.findTransaction(deps.db, caller.tenantId, caller.appId, id) : undefined
  if (row === undefined) throw fail('not_found')
  return store.toTransaction(row)
}

/** A page of the transactions that a filter finds, newest first. */
export async function listTransactions(
  deps: Deps,
  caller: Caller,
  query: ListTransactions,
): Promise<Page<TransactionSummary>> {
  const { page, pageSize, offset } = paging(query)
  const appId = query.app_id === undefined ? caller.appId : await resolveApp(deps, caller, query.app_id, 'app_id')
  const filter: store.TransactionFilter = {
    tenantId: caller.tenantId,
    appId,
    status: query.status ?? null,
    walletId: query.wallet_id ?? null,
    userId: query.user_id ?? null,
    sessionId: query.delegated_session_id ?? null,
    commandId: query.command_id ?? null,
  }
  const { rows, total } = await store.listTransactions(deps.db, filter, { offset, pageSize })
  return { items: rows.map(store.toSummary), total, page, pageSize }
}

/** Commands in short, as events and lists show them. */
export function operationsOf(commands: readonly Command[]): Operation[] {
  return commands.map((command) =>
    'create' in command
      ? { type: 'create', templateId: command.create.templateId, choice: null, contractId: null }
      : {
          type: 'exercise',
          templateId: command.exercise.templateId,
          choice: command.exercise.choice,
          contractId: command.exercise.contractId,
        },
  )
}

/** `tx.submitted`, `tx.completed` or `tx.failed` of a transaction, as it is by then. */
export function transactionEvent(
  now: Date,
  type: 'tx.submitted' | 'tx.completed' | 'tx.failed',
  row: store.TransactionRow,
  cause?: { caller: Caller; origin: Origin },
): StoredEvent {
  const data = {
    transactionId: row.id,
    commandId: row.command_id,
    userId: row.user_id,
    walletId: row.wallet_id,
    partyId: row.party_id,
    delegatedSessionId: row.delegated_session_id,
    ledger: row.ledger,
  }
  const outcome = {
    'tx.submitted': {},
    'tx.completed': {
      updateId: row.update_id,
      offset: row.ledger_offset,
      completedAt: row.completed_at?.toISOString() ?? null,
      operations: row.operations,
    },
    'tx.failed': { error: row.error?.message ?? '', code: row.error?.code ?? '' },
  }
  return newEvent(now, {
    tenantId: row.tenant_id,
    appId: row.app_id,
    type,
    data: { ...data, ...outcome[type] },
    cause,
  })
}

/** A new transaction as a part of the statement that changes its session, if `condition` holds. */
export function transactionInsertion(row: store.TransactionRow, condition: Sql): Sql {
  return store.insertion(row, condition)
}

/** The change of an open transaction as a part of the statement that changes its session. */
export function transactionChange(row: store.TransactionRow): Sql {
  return store.change(row)
}

/** Writes a new transaction that takes nothing of its session yet. */
export async function insertTransaction(tx: Db, row: store.TransactionRow): Promise<void> {
  await store.insertTransaction(tx, row)
}

/** Moves an open transaction on, with its event, where its session does not change with it. */
export async function updateTransaction(tx: Db, deps: Deps, row: store.TransactionRow, event: StoredEvent) {
  await store.updateTransaction(tx, row, event)
  tx.afterCommit(deps.wake.outbox)
}

/** Whether a transaction is still as it was when `before` was read: nobody has taken it or moved it on. */
export function isUntouched(row: store.TransactionRow, before: store.TransactionRow): boolean {
  return row.status === before.status && row.check_at?.getTime() === before.check_at?.getTime()
}

/** Keeps an open transaction for oneself until then, if it is untouched since `row` was read; undefined if it is not. */
export function postpone(db: Db, row: store.TransactionRow, until: Date): Promise<store.TransactionRow | undefined> {
  return store.postpone(db, row, until)
}

/** What a delegated session made under a command id. */
export function findByCommand(
  db: Db,
  tenantId: Id<'ten'>,
  sessionId: Id<'dse'>,
  commandId: string,
): Promise<store.TransactionRow | undefined> {
  return store.findByCommand(db, tenantId, sessionId, commandId)
}

/** A transaction as it is now. */
export function findTransaction(db: Db, tenantId: Id<'ten'>, id: Id<'tx'>): Promise<store.TransactionRow | undefined> {
  return store.findTransaction(db, tenantId, null, id)
}

/** The same, locked; its session must be locked before. */
export function lockTransaction(tx: Db, tenantId: Id<'ten'>, id: Id<'tx'>): Promise<store.TransactionRow | undefined> {
  return store.lockTransaction(tx, tenantId, id)
}

/** A session's transactions that are signed and whose outcome is open, at most 1000. */
export function signedAndOpen(db: Db, tenantId: Id<'ten'>, sessionId: Id<'dse'>): Promise<store.TransactionRow[]> {
  return store.signedAndOpen(db, tenantId, sessionId)
}

/** Takes open transactions that are due to be looked at; each is somebody else's to take again after `until`. */
export function takeDue(db: Db, now: Date, until: Date, limit: number): Promise<store.TransactionRow[]> {
  return store.takeDue(db, now, until, limit)
}
