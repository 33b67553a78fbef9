import type { Db } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import { eventOf, newEvent, type StoredEvent } from '../../platform/events/events.ts'
import { existing, pathId } from '../../platform/http/errors.ts'
import type { Caller, Origin, Page } from '../../platform/http/route.ts'
import type { Command } from '../../platform/ports/ledger.ts'
import type { RecordRow } from '../../platform/security/records/kind.ts'
import { listScope } from '../../tenancy/apps/service.ts'
import type { ListTransactions, Operation, Transaction, TransactionSummary } from './schema.ts'
import * as store from './store.ts'
import { TRANSACTION_RECORD } from './transaction-record.ts'

export type { InFlightFilter, PastTransaction, TransactionRow } from './store.ts'
export {
  findByCommand,
  findPast,
  findTransaction,
  hasUnsettled,
  insertTransaction,
  lastCompleted,
  listInFlight,
  listTransactions as listTransactionsOf,
  lockTransaction,
  lookAtAwaiting,
  postpone,
  sealedTransaction,
  setTransaction,
  signedAndOpen,
  takeDue,
  toTransaction,
  transactionChange,
  transactionInsertion,
} from './store.ts'

/** Refuses a transaction whose row says that it was completed, of which its ledger knows nothing. @throws record_tampered */
export const refuseUnproven = (db: Db, row: store.TransactionRow): never =>
  db.records.refuse(TRANSACTION_RECORD, row as object as RecordRow, 'its ledger has no such update')

/** One transaction. @throws not_found */
export async function getTransaction(deps: Deps, caller: Caller, id: string): Promise<Transaction> {
  return store.toTransaction(
    existing(await store.findTransaction(deps.db, caller.tenantId, pathId('tx', id), caller.appId)),
  )
}

/** A page of the transactions that match a filter, newest first. */
export async function listTransactions(
  deps: Deps,
  caller: Caller,
  query: ListTransactions,
): Promise<Page<TransactionSummary>> {
  const { tenantId: tenant_id, appId: app_id } = await listScope(deps, caller, query)
  const { status, wallet_id, user_id, delegated_session_id, command_id } = query
  const filter = { tenant_id, app_id, status, wallet_id, user_id, delegated_session_id, command_id }
  return store.listTransactions(deps.db, filter, query)
}

/** The short form of commands, for events and lists. */
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

/** An event about a transaction as it is after the change. */
export function transactionEvent(
  now: Date,
  type: 'tx.submitted' | 'tx.completed' | 'tx.completed_late' | 'tx.failed',
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
  const completed = {
    updateId: row.update_id,
    offset: row.ledger_offset,
    completedAt: row.completed_at?.toISOString() ?? null,
    operations: row.operations,
  }
  const outcome = {
    'tx.submitted': {},
    'tx.completed': completed,
    'tx.completed_late': completed,
    'tx.failed': { error: row.error?.message ?? '', code: row.error?.code ?? '' },
  }
  return newEvent(now, eventOf(row, type, { ...data, ...outcome[type] }, cause))
}

/** Stores a change of an open transaction that changes nothing in its session, with its event. */
export async function updateTransaction(tx: Db, deps: Deps, row: store.TransactionRow, event: StoredEvent) {
  await store.updateTransaction(tx, row, event)
  tx.afterCommit(deps.wake.outbox)
}

/** Whether no other request has taken or changed a transaction since `before` was read. */
export function isUntouched(row: store.TransactionRow, before: store.TransactionRow): boolean {
  return row.status === before.status && row.check_at?.getTime() === before.check_at?.getTime()
}
