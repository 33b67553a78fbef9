import { setImmediate } from 'node:timers/promises'
import type { Deps } from '../../platform/deps.ts'
import { invalid, notFoundField } from '../../platform/http/errors.ts'
import { isId } from '../../platform/ids.ts'
import type { Command, Effect, Ledger } from '../../platform/ports/ledger.ts'
import { findPast, lastCompleted, type PastTransaction } from '../../wallets/transactions/service.ts'
import { findWalletRow, type WalletRow } from '../../wallets/wallets/service.ts'
import { bookedOf } from '../address-book/known.ts'
import { type Quorum, quorumKey, quorumOf } from '../approvals/approvers/quorum.ts'
import { requireApprovers } from '../approvals/approvers/require.ts'
import { approvedBefore } from '../approvals/verdict.ts'
import { fail } from '../errors.ts'
import { evaluateActs } from '../execute/evaluate.ts'
import { ledgerOf } from '../execute/execution.ts'
import { requireValidPolicy } from '../manage/create.ts'
import type { Budget } from '../policy/conditions.ts'
import { judgePayment, type Known } from '../policy/judge.ts'
import { type Payment, paymentOf } from '../policy/payment.ts'
import { type CompiledPolicy, compile, type Decision, decideCommands } from '../policy/policy.ts'
import { addCharges } from '../policy/spend.ts'
import type { Spent } from '../policy/windows.ts'
import type { Simulated, SimulatePolicy, Simulation } from './rehearsal-schema.ts'
import { type Asker, requireAsker } from './validate.ts'

const LAST_DEFAULT = 100
const TRACE_LINES_MAX = 40
/** How many comparisons a simulation makes, a tenth of a second of computing. It is refused when the next transaction comes after them. */
const COMPARISONS_MAX = 10_000_000

/** A session with the policy, as far as it has come. */
interface Rehearsal {
  deps: Deps
  policy: CompiledPolicy
  wallet: WalletRow
  ledger: Ledger & Required<Pick<Ledger, 'flowsOf'>>
  /** The parties of the address book of now. */
  book: ReadonlySet<string>
  /** Who would have been asked about which party by now: see `askedKey`. */
  approved: Set<string>
  spent: Spent
}

/** @throws not_found (names `walletId`), also for the wallet of another user, app or tenant */
async function walletFor(deps: Deps, { caller, user }: Asker, id: string): Promise<WalletRow> {
  const wallet = isId('wal', id) ? await findWalletRow(deps.db, caller, id) : undefined
  if (wallet === undefined || (user !== null && wallet.user_id !== user.id)) throw notFoundField('walletId')
  return wallet
}

/** The commands that a transaction was made of: its root effects, with what the ledger filled in. */
function commandsOf(effects: readonly Effect[]): Command[] {
  const roots = new Map<number, Effect>()
  for (const effect of effects) if (!roots.has(effect.command)) roots.set(effect.command, effect)
  return [...roots.values()].map(({ type, templateId, contractId, choice, arguments: given }) =>
    type === 'created'
      ? { create: { templateId, arguments: given } }
      : { exercise: { templateId, contractId, choice: choice ?? '', arguments: given } },
  )
}

function linesOf({ trace = [] }: Decision): string[] {
  const lines = trace.flatMap(({ command, action, allowed, rule, rules }) => [
    `command ${command} (${action}): ${allowed ? 'allowed' : 'refused'} by ${rule}`,
    ...rules.map((one) => `${one.rule} ${one.matched ? 'matched' : 'did not match'}: ${one.reason}`),
  ])
  return lines.slice(0, TRACE_LINES_MAX)
}

type Verdict = Pick<Simulated, 'verdict' | 'code' | 'rule' | 'message'>

const refused = ({ code, rule, message }: Omit<Verdict, 'verdict'>): Verdict => ({
  verdict: 'refused',
  code,
  rule,
  message,
})

const askedKey = ({ user_id }: WalletRow, approvers: Quorum | null, party: string) =>
  `${quorumKey(quorumOf(approvers, user_id))} ${party}`

/** Whom those who are asked had approved a payment to, or would have been asked about. */
async function approvedOf({ deps, policy, wallet, approved }: Rehearsal, payment: Payment, at: Date) {
  const isApproved = await approvedBefore(deps.db, { ...wallet, wallet_id: wallet.id }, policy, payment, at)
  const either: Known['isApproved'] = (party, approvers) =>
    approved.has(askedKey(wallet, approvers, party)) || isApproved(party, approvers)
  return either
}

/** What the policy says of a transaction. Counts it, if it would have happened. */
async function verdictOn(
  rehearsal: Rehearsal,
  past: PastTransaction,
  commands: readonly Command[],
  { rule, message }: Decision,
): Promise<Verdict> {
  const { deps, policy, wallet, ledger, book } = rehearsal
  const { tenant_id, party_id } = wallet
  const { effects, created_at: at } = past
  const acts = { actAs: party_id, effects }
  const denial = await evaluateActs(deps.db, ledger, policy, { tenant_id, party_id, commands }, acts)
  if (denial !== null) return refused(denial)
  const payment = paymentOf({ flows: ledger.flowsOf(effects) ?? [] }, party_id)
  const isApproved = await approvedOf(rehearsal, payment, at)
  const state = { isApproved, isInBook: (one: string) => book.has(one) }
  const judged = judgePayment(policy, payment, { ...state, spent: rehearsal.spent, now: at })
  if ('denied' in judged) return refused(judged.denied)
  rehearsal.spent = addCharges(rehearsal.spent, judged.charges)
  if (judged.required === null) return { verdict: 'allowed', code: null, rule, message }
  const { reasons } = judged.required
  for (const { approvers } of reasons)
    for (const party of payment.recipients) rehearsal.approved.add(askedKey(wallet, approvers, party))
  const [reason] = reasons
  return { verdict: 'asked', code: 'approval_required', rule: reason.rule, message: reason.message }
}

async function rehearsalOf(
  deps: Deps,
  wallet: WalletRow,
  policy: SimulatePolicy['policy'],
  work: Budget,
): Promise<Rehearsal> {
  const ledger = ledgerOf(deps, wallet)
  const { flowsOf } = ledger
  if (flowsOf === undefined) throw fail('simulation_unavailable')
  return {
    deps,
    policy: { ...compile(policy), work },
    wallet,
    ledger: { ...ledger, flowsOf },
    book: await bookedOf(deps.db, wallet, deps.now()),
    approved: new Set(),
    spent: {},
  }
}

const tooMuch = (looked: number) =>
  invalid(
    'last',
    `The policy has too many values to compare with so many transactions. Send at most ${looked}, or a policy with fewer conditions.`,
    'too_large',
  )

/**
 * What a policy would have said of a wallet's last transactions, decided as execution decides. Reads only, and locks nothing.
 * @throws validation_failed, not_found (names `walletId`), session_missing, simulation_unavailable, record_tampered
 */
export async function simulate(
  deps: Deps,
  asker: Asker,
  { policy, walletId, last = LAST_DEFAULT }: SimulatePolicy,
): Promise<Simulation> {
  requireAsker(asker)
  requireValidPolicy(policy)
  const wallet = await walletFor(deps, asker, walletId)
  await requireApprovers(deps, { tenantId: wallet.tenant_id, appId: wallet.app_id }, policy)
  const work = { comparisons: COMPARISONS_MAX }
  const rehearsal = await rehearsalOf(deps, wallet, policy, work)
  const ids = await lastCompleted(deps.db, { tenantId: wallet.tenant_id, walletId: wallet.id }, last)
  const transactions: Simulated[] = []
  for (const id of ids.reverse()) {
    if (work.comparisons < 0) throw tooMuch(transactions.length)
    const past = await findPast(deps.db, wallet.tenant_id, id)
    if (past === undefined) continue
    const commands = commandsOf(past.effects)
    const decision = decideCommands(rehearsal.policy, commands, { explain: true })
    const verdict = await verdictOn(rehearsal, past, commands, decision)
    const named = { transactionId: id, commandId: past.command_id, at: past.created_at.toISOString() }
    transactions.unshift({ ...named, ...verdict, trace: linesOf(decision) })
    // Others get their turn: a policy and a transaction may both be large.
    await setImmediate()
  }
  const counted = (verdict: Simulated['verdict']) => transactions.filter((one) => one.verdict === verdict).length
  return {
    walletId: wallet.id,
    allowed: counted('allowed'),
    asked: counted('asked'),
    refused: counted('refused'),
    transactions,
  }
}
