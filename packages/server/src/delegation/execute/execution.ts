import type { Db } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import { HttpError, invalid } from '../../platform/http/errors.ts'
import { isId, newId } from '../../platform/ids.ts'
import type { Command, Ledger, Prepared, PrepareRequest } from '../../platform/ports/ledger.ts'
import { isSignedFor, signatureOf } from '../../platform/ports/signature.ts'
import { canonicalJson } from '../../platform/security/canonical-json.ts'
import {
  findByCommand,
  type lockTransaction,
  operationsOf,
  refuseUnproven,
  type TransactionRow,
} from '../../wallets/transactions/service.ts'
import type { Acting, ExecuteCall } from '../access.ts'
import { linkOf } from '../approvals/approval.ts'
import { approvalIdOf } from '../approvals/approval-record.ts'
import { fail } from '../errors.ts'
import type { Charge } from '../policy/spend.ts'
import type { Execution, RemainingBeside } from '../schema.ts'
import { policyOf, remainingBeside, requireLive, requireUse } from '../session.ts'
import type { LiveRow } from '../store.ts'
import { COSIGNING_MS, requireCommitments, requireSameShares } from './cosign.ts'
import { deny, evaluateCommands } from './evaluate.ts'
import { hashOf, type RequestedCommands } from './request.ts'
import { structureProblems } from './values.ts'

/** How long a prepared transaction can be executed: at once, or as long as the signer of this custody has. */
const LIFETIME_MS = { embedded: 60_000, shared: COSIGNING_MS, self_custody: 10 * 60_000 } as const

/** The ledger of a session's wallet. */
export function ledgerOf(deps: Deps, row: Pick<LiveRow, 'ledger'>): Ledger {
  const ledger = deps.ledgers.get(row.ledger)
  if (ledger === undefined) throw fail('ledger_unavailable')
  return ledger
}

/**
 * The transaction that the same session made under this command id before, if any.
 * @throws duplicate_command if it has other commands or commitments; signing_request_superseded
 */
export async function findRepeat(
  db: Db,
  session: LiveRow,
  { commandId, commands, commitments }: Omit<RequestedCommands, 'dryRun'>,
): Promise<TransactionRow | undefined> {
  if (commandId === null) return undefined
  const row = await findByCommand(db, session.tenant_id, session.id, commandId)
  if (row !== undefined && !row.commands_hash.equals(hashOf(commands)))
    throw fail('duplicate_command').about(
      'commandId',
      `Transaction ${row.id} has this commandId with other commands. Use another commandId.`,
    )
  if (row?.cosigned != null) {
    // Other commitments need another signature share, and a transaction gets only one.
    if (canonicalJson(row.cosigned.commitments) !== canonicalJson(commitments))
      throw fail('duplicate_command').about(
        'commitments',
        `Transaction ${row.id} was requested with other commitments. Use another commandId.`,
      )
    requireSameShares(session, row)
  }
  return row
}

/** The session's transaction that a signature is for; locked if `look` locks. @throws not_found (names `signingRequestId`) */
export async function findSigningRequest(
  look: typeof lockTransaction,
  db: Db,
  session: LiveRow,
  id: string,
): Promise<TransactionRow> {
  const row = isId('tx', id) ? await look(db, session.tenant_id, id) : undefined
  if (row !== undefined && row.delegated_session_id === session.id) return row
  throw fail('not_found').about('signingRequestId', 'This session has no signing request with this id.')
}

/** A new transaction for these commands, not stored yet. */
export function newTransaction(
  session: LiveRow,
  { commandId, commands, commitments }: RequestedCommands,
  now: Date,
): TransactionRow {
  const id = newId('tx')
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
    session_version: null,
    spending_version: null,
    update_id: null,
    ledger_offset: null,
    error: null,
    created_at: now,
    updated_at: now,
    completed_at: null,
    version: 0,
    mac: null,
  }
}

/** Refuses commands that a ledger of this kind never takes. @throws validation_failed */
export function requireTaken({ commandsMax, structured }: Ledger, commands: readonly Command[]): void {
  if (commands.length > commandsMax)
    throw invalid('commands', `Must have at most ${commandsMax} entries on this ledger.`)
  const problems = structured ? [] : structureProblems(commands)
  if (problems.length > 0) throw fail('validation_failed', problems)
}

/**
 * The same, once session, quota and policy allow the commands as they were requested: all that is checked before the
 * ledger is asked. @throws what `requireLive` throws, uses_in_flight, quota_exceeded, validation_failed, policy_denied
 */
export async function acceptCommands(
  db: Db,
  deps: Deps,
  call: ExecuteCall,
  session: LiveRow,
  requested: RequestedCommands,
): Promise<TransactionRow> {
  const now = deps.now()
  requireLive(session, now)
  requireUse(session)
  await deps.quotas.require(db, session.tenant_id, 'transactions')
  requireCommitments(session, requested.commitments)
  requireTaken(ledgerOf(deps, session), requested.commands)
  const denial = evaluateCommands(policyOf(session), requested.commands)
  if (denial !== null) return deny(db, deps, call, session, denial)
  return newTransaction(session, requested, now)
}

/** The id under which a ledger knows a command. It contains the session: sessions choose command ids independently. */
export function ledgerCommandId(row: Pick<TransactionRow, 'delegated_session_id' | 'command_id'>): string {
  return `${row.delegated_session_id}/${row.command_id}`
}

/** What a ledger is asked to prepare for a transaction. */
export function prepareRequest(
  session: LiveRow,
  row: TransactionRow,
  commands: readonly Command[],
  now: Date,
): PrepareRequest {
  return {
    tenantId: session.tenant_id,
    commandId: ledgerCommandId(row),
    actAs: session.party_id,
    commands,
    now,
    expiresAt: new Date(now.getTime() + LIFETIME_MS[session.custody]),
  }
}

/** The transaction with its prepared bytes, and the charges to the session's caps. */
export function withPrepared(row: TransactionRow, prepared: Prepared, charges: readonly Charge[]): TransactionRow {
  return { ...row, effects: prepared.effects, spends: [...charges] }
}

/** What a delegate has to sign; null unless the transaction waits for a signature. */
function signingRequestOf(deps: Deps, session: LiveRow, row: TransactionRow): Execution['signingRequest'] {
  const { prepared, expires_at: expiresAt } = row
  if (row.status !== 'signature_required' || prepared === null || expiresAt === null) return null
  return {
    id: row.id,
    preparedTransaction: prepared.toString('base64'),
    digest: ledgerOf(deps, session).decode(prepared).payload.toString('hex'),
    publicKey: session.public_key?.toString('hex') ?? '',
    serverCommitments: row.cosigned?.made?.serverCommitments ?? null,
    serverSignatureShare: row.cosigned?.made?.serverSignatureShare ?? null,
    expiresAt: expiresAt.toISOString(),
  }
}

/** What the owner is asked; null unless the transaction waits for that. */
export function approvalOf(deps: Deps, row: TransactionRow): Execution['approval'] {
  if (row.status !== 'approval_required' || row.expires_at === null) return null
  const id = approvalIdOf(row.id)
  return { id, link: linkOf(deps, { app_id: row.app_id, id }), expiresAt: row.expires_at.toISOString() }
}

/**
 * What `execute` returns for a transaction that a transactional ledger ended before. A completed row has no MAC, so it counts only
 * with the update that the session's party signed for this command, with these commands: else nothing has happened. `signature`: the one of a call that names a
 * signing request, which must be over that update, so that the row of one request cannot stand for the update of another; null for
 * others. @throws record_tampered; signature_invalid; its error, if it failed
 */
export async function answerEnded(
  db: Db,
  deps: Deps,
  session: Acting,
  row: TransactionRow,
  signature: Buffer | null = null,
): Promise<Execution> {
  if (row.status === 'completed') {
    // Of the row, only what was looked up counts. Whoever wrote another party into it could sign for that one.
    const command = { actAs: session.party_id, commandId: ledgerCommandId(row), prepared: null }
    const outcome = await ledgerOf(deps, session).getTransaction(db, session.tenant_id, command)
    if (outcome.state !== 'final' || outcome.receipt.updateId !== row.update_id) return refuseUnproven(db, row)
    if (signature !== null) requireSigned(session, outcome.signed?.payload, signature)
    // Somebody who exchanged the hash could have it answer for other commands.
    if (outcome.signed && !hashOf(outcome.signed.commands).equals(row.commands_hash)) return refuseUnproven(db, row)
  }
  return answerOf(deps, session, row)
}

/** A signature by the session's key of what happened. Where the service holds the key, nobody else signs. @throws signature_invalid */
function requireSigned({ party_id, public_key }: LiveRow, payload: Buffer | undefined, signature: Buffer): void {
  if (
    payload === undefined ||
    public_key === null ||
    !isSignedFor(party_id, payload, signatureOf(public_key, signature))
  )
    throw fail('signature_invalid').about('signature', "Must be a valid signature of the digest by the wallet's key.")
}

/** A transaction as `execute` returns it, at first and in repeats. @throws its error, if it failed */
export function answerOf(deps: Deps, session: Acting, row: TransactionRow): Execution {
  if (row.status === 'failed' && row.error !== null) {
    const { status, code, message, details } = row.error
    throw new HttpError(status, code, message, details as never)
  }
  return {
    transactionId: row.id,
    commandId: row.command_id,
    status: row.status,
    updateId: row.update_id,
    offset: row.ledger_offset,
    effects: row.effects,
    remaining: {
      ...remainingBeside(session, session.limits, session.spending?.spent ?? {}, deps.now()),
      // A transaction of a release before budgets has none.
      ...(row.remaining as Partial<RemainingBeside> | null),
    },
    signingRequest: signingRequestOf(deps, session, row),
    approval: approvalOf(deps, row),
    decision: null,
  }
}
