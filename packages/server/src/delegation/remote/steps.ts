import type { Db } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import { existing, HttpError } from '../../platform/http/errors.ts'
import { callLedger } from '../../platform/ports/call-ledger.ts'
import { type Command, LedgerError, type LedgerSignature, type Prepared } from '../../platform/ports/ledger.ts'
import { keptSignature } from '../../platform/ports/signature.ts'
import {
  findTransaction,
  isUntouched,
  lockTransaction,
  postpone,
  type TransactionRow,
  transactionEvent,
  updateTransaction,
} from '../../wallets/transactions/service.ts'
import { type Acting, type ExecuteCall, findLive, withLimits } from '../access.ts'
import { refusedWithoutOwner } from '../approvals/ask.ts'
import { denialOfReserved } from '../approvals/still-allowed.ts'
import { beginCounting, isUncounted } from '../budgets/begin-counting.ts'
import { fail } from '../errors.ts'
import { requireSameShares, withCoSignature } from '../execute/cosign.ts'
import { asAnswer, type Denial, deny, evaluateActs, evaluateCost, ledgerFailure } from '../execute/evaluate.ts'
import { ledgerOf, prepareRequest, withPrepared } from '../execute/execution.ts'
import { recordFailed, recordReserved } from '../execute/record.ts'
import { policyOf, requireLive, requireUse } from '../session.ts'
import * as store from '../store.ts'
import { lockSessionAndTransaction, releaseFailed, resolveCompleted, submit } from './outcome.ts'

/** How long a received transaction belongs to its request, which prepares and reserves it. */
export const RECEIVED_MS = 60_000
/** The same from reserved to signed, and from signed to sent; longer than the ledger may take to respond. */
export const STEP_MS = 30_000
/** When a submission without a response is checked for the first time. */
const UNANSWERED_MS = 1_000

/** The time `ms` after `now`. */
export const later = (now: Date, ms: number) => new Date(now.getTime() + ms)

/** A transaction as it is now. @throws not_found if its user was deleted */
export async function readAgain(deps: Deps, row: Pick<TransactionRow, 'tenant_id' | 'id'>): Promise<TransactionRow> {
  return existing(await findTransaction(deps.db, row.tenant_id, row.id))
}

/** From received to reserved. A final refusal by the ledger fails it; after a temporary one it stays received. */
export async function advanceToReserved(deps: Deps, call: ExecuteCall, row: TransactionRow): Promise<TransactionRow> {
  const session = await findLive(store.findLive, deps.db, deps, call, row.delegated_session_id)
  if (isUncounted(session)) await beginCounting(deps.db, session, deps.now())
  try {
    const made = await prepareRemote(deps, session, row)
    const { cosigned } = made.denial === null ? await withCoSignature(deps.db, deps, session, row, made.prepared) : row
    await deps.failpoint('cosigned')
    const reserved = await reserveRemote(deps, call, row, { ...made, cosigned })
    await deps.failpoint('reserved')
    return reserved
  } catch (error) {
    // If commitments or shares do not allow the service's signature share, there is nothing to reserve. A service that is
    // too busy is a temporary refusal: a repeat continues from here.
    if (error instanceof HttpError && row.cosigned !== null && error.code !== 'rate_limited')
      await releaseFailed(deps, row, error, call)
    if (!(error instanceof LedgerError)) throw error
    const about = { err: error, tenantId: row.tenant_id, transactionId: row.id, ledger: row.ledger }
    deps.log.warn(about, 'a transaction could not be prepared')
    if (error.retryable) throw asAnswer(error)
    return releaseFailed(deps, row, ledgerFailure(error), call)
  }
}

/** Prepares a received transaction, and evaluates what the bytes say. @throws LedgerError */
async function prepareRemote(
  deps: Deps,
  session: store.LiveRow,
  row: TransactionRow,
): Promise<{ prepared: Prepared; denial: Denial | null }> {
  const ledger = ledgerOf(deps, session)
  const commands = row.commands as Command[]
  const request = prepareRequest(session, row, commands, deps.now())
  return callLedger(ledger, async () => {
    const { bytes } = await ledger.prepare(deps.db, request)
    const prepared = ledger.decode(bytes)
    const mismatch = mismatchOf(prepared, request)
    const asked = { ...session, commands }
    return { prepared, denial: mismatch ?? (await evaluateActs(deps.db, ledger, policyOf(session), asked, prepared)) }
  })
}

/**
 * How a prepared transaction differs from the request, apart from its effects. With a later expiry it would hold its
 * reservation for as long as its ledger likes.
 */
function mismatchOf(prepared: Prepared, { commandId, expiresAt }: { commandId: string; expiresAt: Date }) {
  const refuse = (what: string): Denial => ({
    code: 'policy_denied',
    rule: 'effects',
    command: null,
    message: `The prepared transaction ${what}.`,
    more: {},
  })
  if (prepared.commandId !== commandId) return refuse('has another commandId')
  return prepared.expiresAt <= expiresAt ? null : refuse('expires later than requested')
}

/** Reserves, with the session locked, against what is spent by now. @returns the transaction's new row */
async function reserveRemote(
  deps: Deps,
  call: ExecuteCall,
  before: TransactionRow,
  { prepared, denial, cosigned }: { prepared: Prepared; denial: Denial | null; cosigned: TransactionRow['cosigned'] },
): Promise<TransactionRow> {
  return deps.db.tx(async (tx) => {
    const locked = existing(await lockSessionAndTransaction(tx, deps, before, store.lockLiveToCount))
    const { row } = locked
    const session = await withLimits(tx, deps, locked.session)
    if (!isUntouched(row, before)) return row
    const now = deps.now()
    // The app got its first budgets at this moment: a repeat finds the count begun.
    if (isUncounted(session)) throw fail('ledger_unavailable')
    try {
      requireLive(session, now)
      requireUse(session)
      // The service's share was made before this lock. If the key was reshared since, it must not be sent.
      requireSameShares(session, { cosigned })
      if (denial !== null) await deny(tx, deps, call, session, denial)
      const cost = await evaluateCost(tx, session, prepared, now)
      if ('denial' in cost) return await deny(tx, deps, call, session, cost.denial)
      if (cost.required !== null) return await deny(tx, deps, call, session, refusedWithoutOwner(cost.required))
      const isSignedHere = session.custody === 'embedded'
      const reserved: TransactionRow = {
        ...withPrepared(row, prepared, cost.charges),
        status: isSignedHere ? 'reserved' : 'signature_required',
        prepared: prepared.bytes,
        cosigned,
        expires_at: prepared.expiresAt,
        check_at: isSignedHere ? later(now, STEP_MS) : prepared.expiresAt,
        updated_at: now,
      }
      return await recordReserved(tx, deps, session, reserved, cost.parts)
    } catch (error) {
      if (!(error instanceof HttpError)) throw error
      await recordFailed(tx, deps, session, row, error, call)
      throw error.commitOnThrow()
    }
  })
}

/** Makes the signatures over a payload, while the session is locked. */
export type Sign = (tx: Db, session: store.LiveRow, payload: Buffer) => Promise<LedgerSignature[]>

/** From reserved to the ledger. A transaction that must no longer be signed is released, and the call fails. */
export async function signAndSend(
  deps: Deps,
  call: ExecuteCall,
  before: TransactionRow,
  sign: Sign,
): Promise<TransactionRow> {
  const { row, isOurs } = await signAllowed(deps, call, before, sign).catch(async (error: unknown) => {
    // A signature share that was sent can still be used, whatever became of the session: it is released on expiry.
    const mayHappen = before.cosigned !== null || (error instanceof HttpError && error.code === 'signature_invalid')
    if (error instanceof HttpError && !mayHappen) await releaseFailed(deps, before, error, call)
    throw error
  })
  if (!isOurs) return row
  await deps.failpoint('signed')
  return send(deps, call, row)
}

/** What became of signing. `isOurs`: this call has signed it. */
interface Signing {
  row: TransactionRow
  isOurs: boolean
}

/** Signs, or says that the policy does not allow it any more. @throws policy_denied, spend_limit_exceeded, budget_exceeded */
async function signAllowed(deps: Deps, call: ExecuteCall, before: TransactionRow, sign: Sign): Promise<Signing> {
  const signing = await signRemote(deps, call, before, sign)
  if (!('denial' in signing)) return signing
  // Noted once the lock is released: several signers share it, and would wait for each other to write.
  return deny(deps.db, deps, call, signing.session, signing.denial)
}

/**
 * Signs what the policy still allows. Only here is anything signed: with the session locked in share mode, so that others may
 * sign but nobody revokes, and nothing is sent before the signatures are stored.
 */
async function signRemote(
  deps: Deps,
  call: ExecuteCall,
  before: TransactionRow,
  sign: Sign,
): Promise<Signing | { session: Acting; denial: Denial }> {
  const ledger = ledgerOf(deps, before)
  const { tenant_id: tenantId, delegated_session_id: sessionId } = before
  return deps.db.tx(async (tx) => {
    const session = await findLive(store.lockLiveForShare, tx, deps, call, sessionId)
    const row = await lockTransaction(tx, tenantId, before.id)
    if (row === undefined || !isUntouched(row, before)) return { row: row ?? before, isOurs: false }
    const now = deps.now()
    requireLive(session, now)
    requireSameShares(session, row)
    if (row.prepared === null || row.expires_at === null || row.expires_at <= now) throw fail('prepared_expired')
    const denial = await denialOfReserved(tx, deps, session, { ...row, prepared: row.prepared })
    if (denial !== null) return { session, denial }
    const signatures = await sign(tx, session, ledger.decode(row.prepared).payload)
    const signed: TransactionRow = {
      ...row,
      status: 'submitted',
      signatures: signatures.map((each) => keptSignature(row.party_id, each)),
      check_at: later(now, STEP_MS),
      updated_at: now,
    }
    await updateTransaction(tx, deps, signed, transactionEvent(now, 'tx.submitted', signed, call))
    return { row: signed, isOurs: true }
  })
}

/** Sends a transaction that this call has just signed, for the first time. */
async function send(deps: Deps, call: ExecuteCall, row: TransactionRow): Promise<TransactionRow> {
  try {
    const receipt = await submit(deps, row)
    await deps.failpoint('submitted')
    const completed = await resolveCompleted(deps, row, receipt, call)
    await deps.failpoint('settled')
    return completed
  } catch (error) {
    if (!(error instanceof LedgerError)) throw error
    const about = { err: error, tenantId: row.tenant_id, transactionId: row.id, ledger: row.ledger }
    deps.log.warn(about, 'a transaction was not executed at once')
    const isRefused = error.definite && !error.retryable
    // A refusal is final only if nobody else can have sent it. A delegate with a whole signature by a shared key can, until
    // the transaction expires: until then it counts as spent.
    if (isRefused && row.cosigned === null) return releaseFailed(deps, row, ledgerFailure(error), call)
    const left = await postpone(deps.db, row, later(deps.now(), UNANSWERED_MS))
    if (isRefused) throw ledgerFailure(error)
    return left ?? readAgain(deps, row)
  }
}
