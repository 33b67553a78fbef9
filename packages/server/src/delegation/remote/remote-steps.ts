import type { Db } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import { failures, HttpError } from '../../platform/http/errors.ts'
import { callLedger } from '../../platform/ports/call-ledger.ts'
import { type Command, LedgerError, type LedgerSignature, type Prepared } from '../../platform/ports/ledger.ts'
import {
  findTransaction,
  isUntouched,
  lockTransaction,
  postpone,
  type TransactionRow,
  transactionEvent,
  updateTransaction,
} from '../../wallets/transactions/service.ts'
import { requireSameShares, withCoSignature } from '../execute/cosign.ts'
import { asAnswer, type Denial, deny, evaluateActs, evaluateCost, ledgerFailure } from '../execute/evaluate.ts'
import { type ExecuteCall, LIFETIME_MS, ledgerOf, requireUse } from '../execute/execute.ts'
import { ledgerCommandId, withPrepared } from '../execute/execution.ts'
import { recordFailed, reserve } from '../execute/record.ts'
import { findLive, requireLive } from '../manage/access.ts'
import { DELEGATED_SESSION_ERRORS } from '../service.ts'
import * as store from '../store.ts'
import {
  expired,
  failureOf,
  lockSessionAndTransaction,
  recordHappened,
  releaseNever,
  signaturesOf,
  storedSignatures,
} from './outcome.ts'

const fail = failures(DELEGATED_SESSION_ERRORS)

/** For so long a transaction is its request's own, until it has prepared and reserved. */
export const RECEIVED_MS = 60_000
/** The same from there until it is signed, and from there until it is sent: more than the ledger has to answer. */
export const STEP_MS = 30_000
/** How soon somebody looks what became of what got no answer. */
const UNANSWERED_MS = 1_000

/** A time that is so long after another. */
export const later = (now: Date, ms: number) => new Date(now.getTime() + ms)

/** A transaction as it is by now. @throws not_found where its user is gone */
export async function readAgain(deps: Deps, row: Pick<TransactionRow, 'tenant_id' | 'id'>): Promise<TransactionRow> {
  const found = await findTransaction(deps.db, row.tenant_id, row.id)
  if (found === undefined) throw fail('not_found')
  return found
}

/**
 * What in a prepared transaction is not as it was asked for, apart from what it does. One that could happen later than
 * asked for would hold what it reserves for as long as its ledger likes.
 */
function strangeness(prepared: Prepared, commandId: string, expiresAt: Date): Denial | null {
  const refuse = (what: string): Denial => ({
    code: 'policy_denied',
    rule: 'effects',
    command: null,
    message: `The prepared transaction ${what}.`,
    more: {},
  })
  if (prepared.commandId !== commandId) return refuse('has another command id')
  return prepared.expiresAt <= expiresAt ? null : refuse('expires later than asked for')
}

/** Prepares what was received, and judges what the bytes say. @throws LedgerError */
async function prepareRemote(
  deps: Deps,
  session: store.LiveRow,
  row: TransactionRow,
): Promise<{ prepared: Prepared; denial: Denial | null }> {
  const ledger = ledgerOf(deps, session)
  const commands = row.commands as Command[]
  const now = deps.now()
  const request = {
    tenantId: session.tenant_id,
    commandId: ledgerCommandId(row),
    actAs: session.party_id,
    commands,
    now,
    expiresAt: later(now, LIFETIME_MS[session.custody]),
  }
  return callLedger(ledger, async () => {
    const { bytes } = await ledger.prepare(deps.db, request)
    const prepared = ledger.decode(bytes)
    const denial = strangeness(prepared, request.commandId, request.expiresAt)
    return { prepared, denial: denial ?? (await evaluateActs(deps.db, ledger, session, commands, prepared)) }
  })
}

/** Settles what has reserved nothing as refused; what a denial says is told of beside it. */
async function refuse(
  tx: Db,
  deps: Deps,
  call: ExecuteCall,
  { session, row }: { session: store.LiveRow; row: TransactionRow },
  denial: Denial,
): Promise<never> {
  const refusal = await deny(tx, deps, call, session, denial).catch((error: unknown) => {
    if (error instanceof HttpError) return error
    throw error
  })
  await recordFailed(tx, deps, session, row, failureOf(refusal), { cause: call, reserved: false })
  throw refusal
}

/** Transaction A: reserves, under the session's lock, against what is spent by now. @returns the transaction as it is then */
async function reserveRemote(
  deps: Deps,
  call: ExecuteCall,
  before: TransactionRow,
  { prepared, denial, cosigned }: { prepared: Prepared; denial: Denial | null; cosigned: TransactionRow['cosigned'] },
): Promise<TransactionRow> {
  return deps.db.tx(async (tx) => {
    const held = await lockSessionAndTransaction(tx, deps, before)
    if (held === undefined) throw fail('not_found')
    const { session, row } = held
    if (!isUntouched(row, before)) return row
    const now = deps.now()
    try {
      requireLive(session, now)
      requireUse(session)
      // The service's part was made before this lock: of shares that were replaced since, it must not leave.
      requireSameShares(session, { cosigned })
    } catch (error) {
      if (!(error instanceof HttpError)) throw error
      await recordFailed(tx, deps, session, row, failureOf(error), { cause: call, reserved: false })
      throw error.commitOnThrow()
    }
    if (denial !== null) return refuse(tx, deps, call, held, denial)
    const judged = evaluateCost(session, prepared, now)
    if ('denial' in judged) return refuse(tx, deps, call, held, judged.denial)
    const own = session.custody === 'embedded'
    const { bytes, expiresAt } = prepared
    const reserved: TransactionRow = {
      ...withPrepared(row, prepared, judged.charges),
      status: own ? 'reserved' : 'signature_required',
      prepared: bytes,
      cosigned,
      expires_at: expiresAt,
      check_at: own ? later(now, STEP_MS) : expiresAt,
      updated_at: now,
    }
    return reserve(tx, deps, session, reserved)
  })
}

/** From received to reserved. What the ledger refuses for good is settled; what may pass leaves it received. */
export async function advanceToReserved(deps: Deps, call: ExecuteCall, row: TransactionRow): Promise<TransactionRow> {
  const session = await findLive(store.findLive, deps.db, deps, call, row.delegated_session_id)
  try {
    const made = await prepareRemote(deps, session, row)
    const { cosigned } = made.denial === null ? await withCoSignature(deps.db, deps, session, row, made.prepared) : row
    await deps.failpoint('cosigned')
    const reserved = await reserveRemote(deps, call, row, { ...made, cosigned })
    await deps.failpoint('reserved')
    return reserved
  } catch (error) {
    // Without the service's part, which its commitments or shares do not allow, there is nothing to reserve. That the
    // service is too busy for it passes: who asks again goes on.
    if (error instanceof HttpError && row.cosigned !== null && error.code !== 'rate_limited')
      await releaseNever(deps, row, error, call)
    if (!(error instanceof LedgerError)) throw error
    const about = { err: error, tenantId: row.tenant_id, transactionId: row.id, ledger: row.ledger }
    deps.log.warn(about, 'a transaction could not be prepared')
    if (error.retryable) throw asAnswer(error)
    return releaseNever(deps, row, ledgerFailure(error), call)
  }
}

/** Makes the signatures over a digest, where the session is held. */
export type Sign = (tx: Db, session: store.LiveRow, digest: Buffer) => Promise<LedgerSignature[]>

/**
 * Transaction B: nothing is signed but here, where the session's lock is shared with others that sign and kept from who
 * revokes, and nothing leaves before the signed bytes are stored. @returns the transaction as it is then, and whether this
 * call has signed it
 */
async function signRemote(
  deps: Deps,
  call: ExecuteCall,
  before: TransactionRow,
  sign: Sign,
): Promise<{ row: TransactionRow; isOurs: boolean }> {
  const ledger = ledgerOf(deps, before)
  const { tenant_id: tenantId, delegated_session_id: sessionId } = before
  return deps.db.tx(async (tx) => {
    const session = await findLive(store.lockLiveForShare, tx, deps, call, sessionId)
    const row = await lockTransaction(tx, tenantId, before.id)
    if (row === undefined || !isUntouched(row, before)) return { row: row ?? before, isOurs: false }
    const now = deps.now()
    requireLive(session, now)
    requireSameShares(session, row)
    if (row.prepared === null || row.expires_at === null || row.expires_at <= now) throw expired()
    const signatures = await sign(tx, session, ledger.decode(row.prepared).digest)
    const signed: TransactionRow = {
      ...row,
      status: 'submitted',
      signatures: storedSignatures(signatures),
      check_at: later(now, STEP_MS),
      updated_at: now,
    }
    await updateTransaction(tx, deps, signed, transactionEvent(now, 'tx.submitted', signed, call))
    return { row: signed, isOurs: true }
  })
}

/** Sends what this call has just signed, and nobody else has sent. */
async function send(deps: Deps, call: ExecuteCall, row: TransactionRow): Promise<TransactionRow> {
  const ledger = ledgerOf(deps, row)
  try {
    const receipt = await callLedger(ledger, () =>
      ledger.submit(deps.db, row.tenant_id, row.prepared as Buffer, signaturesOf(row), deps.now()),
    )
    await deps.failpoint('submitted')
    const settled = await recordHappened(deps, row, receipt, call)
    await deps.failpoint('settled')
    return settled
  } catch (error) {
    if (!(error instanceof LedgerError)) throw error
    const about = { err: error, tenantId: row.tenant_id, transactionId: row.id, ledger: row.ledger }
    deps.log.warn(about, 'a transaction was not executed at once')
    const isRefused = error.definite && !error.retryable
    // Only as long as nobody has sent it a second time does this answer speak for all that was sent. A delegate that has a
    // whole signature by a shared key can send it too, until it expires: until then it counts as spent.
    if (isRefused && row.cosigned === null) return releaseNever(deps, row, ledgerFailure(error), call)
    const left = await postpone(deps.db, row, later(deps.now(), UNANSWERED_MS))
    if (isRefused) throw ledgerFailure(error)
    return left ?? readAgain(deps, row)
  }
}

/** From reserved to the ledger. Where it must not be signed any more, it is released, and answered as the state says. */
export async function signAndSend(
  deps: Deps,
  call: ExecuteCall,
  before: TransactionRow,
  sign: Sign,
): Promise<TransactionRow> {
  const { row, isOurs } = await signRemote(deps, call, before, sign).catch(async (error: unknown) => {
    // A part of a signature that has left may still be used, whatever became of the session: it is released once it can't.
    const mayHappen = before.cosigned !== null || (error instanceof HttpError && error.code === 'signature_invalid')
    if (error instanceof HttpError && !mayHappen) await releaseNever(deps, before, error, call)
    throw error
  })
  if (!isOurs) return row
  await deps.failpoint('signed')
  return send(deps, call, row)
}
