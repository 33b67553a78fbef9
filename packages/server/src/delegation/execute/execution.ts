import type { Id } from '../../platform/ids.ts'
import { newId } from '../../platform/ids.ts'
import type { Prepared } from '../../platform/ports/ledger.ts'
import { operationsOf, type TransactionRow } from '../../wallets/transactions/service.ts'
import type { Charge } from '../policy/spend.ts'
import type { Execution, Remaining } from '../schema.ts'
import type { LiveRow } from '../store.ts'
import { hashOf, type RequestedCommands } from './request.ts'

/** A transaction that does not exist yet. */
export function newTransaction(
  session: LiveRow,
  { commandId, commands, commitments }: Pick<RequestedCommands, 'commandId' | 'commands' | 'commitments'>,
  now: Date,
): TransactionRow {
  const id: Id<'tx'> = newId('tx')
  return {
    tenant_id: session.tenant_id,
    id,
    app_id: session.app_id,
    user_id: session.user_id,
    wallet_id: session.wallet_id,
    party_id: session.party_id,
    delegated_session_id: session.id,
    ledger: session.ledger,
    command_id: commandId ?? id,
    commands_hash: hashOf(commands),
    status: 'received',
    operations: operationsOf(commands),
    effects: [],
    spends: [],
    commands: null,
    prepared: null,
    signatures: null,
    cosigned: commitments === null ? null : { commitments, made: null },
    expires_at: null,
    check_at: null,
    remaining: null,
    update_id: null,
    ledger_offset: null,
    error: null,
    created_at: now,
    updated_at: now,
    completed_at: null,
  }
}

/** What a ledger knows a transaction's command by: one session's ids are none of another's. */
export function ledgerCommandId(row: Pick<TransactionRow, 'delegated_session_id' | 'command_id'>): string {
  return `${row.delegated_session_id}/${row.command_id}`
}

/** The transaction with what was prepared for it and what that takes of the session's caps. */
export function withPrepared(row: TransactionRow, prepared: Prepared, charges: readonly Charge[]): TransactionRow {
  return { ...row, effects: prepared.effects, spends: [...charges] }
}

/** A transaction as `execute` answers it, the first time and every other. */
export function toExecution(
  row: TransactionRow,
  session: Pick<LiveRow, 'public_key'>,
  remaining: Remaining,
  digestOf: (bytes: Buffer) => Buffer,
): Execution {
  const asksForSignature = row.status === 'signature_required' && row.prepared !== null && row.expires_at !== null
  return {
    transactionId: row.id,
    commandId: row.command_id,
    status: row.status,
    updateId: row.update_id,
    offset: row.ledger_offset,
    effects: row.effects,
    remaining: (row.remaining as Remaining | null) ?? remaining,
    signingRequest: asksForSignature
      ? {
          id: row.id,
          preparedTransaction: (row.prepared as Buffer).toString('base64'),
          digest: digestOf(row.prepared as Buffer).toString('hex'),
          publicKey: session.public_key?.toString('hex') ?? '',
          serverCommitments: row.cosigned?.made?.serverCommitments ?? null,
          serverSignatureShare: row.cosigned?.made?.serverSignatureShare ?? null,
          expiresAt: (row.expires_at as Date).toISOString(),
        }
      : null,
    decision: null,
  }
}
