import type { Quorum } from '../approvals/approvers/quorum.ts'
import type { Payment } from './payment.ts'
import type { CompiledPolicy } from './policy.ts'
import { type ApprovalReason, approvalReasons } from './require-approval.ts'
import { type ConditionDenial, judgeConditions } from './session-conditions.ts'
import { type Charge, charge, type SpendDenial } from './spend.ts'
import type { Spent } from './windows.ts'

/** Whom those know who are asked. */
export interface Known {
  /** Whether so many of these users, or the owner (null), have approved a payment to a party that happened. */
  isApproved: (party: string, approvers: Quorum | null) => boolean
  /** Whether the wallet's address book has a party, whose time to count has come. */
  isInBook: (party: string) => boolean
}

/** What a payment is judged by, beside the policy. */
export interface State extends Known {
  /** What the session has spent, with what its conditions count. */
  spent: Spent
  now: Date
}

/** What a policy wants the owner, or others, to approve. */
export interface Required {
  payment: Payment
  /** At least one, in the policy's order, conditions first. */
  reasons: [ApprovalReason, ...ApprovalReason[]]
  /** The shortest of all that ask. */
  lifetimeMs: number
}

/** Why a policy denies what a transaction pays. */
export type PaymentDenial = ConditionDenial | SpendDenial

/**
 * What a policy says of a payment whose acts it allows: what to count, and what has to be approved; or why it denies.
 * Everything that decides on payments asks here: execution, approval, dry run and simulation. Changes nothing.
 */
export function judgePayment(
  policy: CompiledPolicy,
  payment: Payment,
  { spent, now, isApproved, isInBook }: State,
): { denied: PaymentDenial } | { charges: Charge[]; required: Required | null } {
  const conditions = judgeConditions(policy.conditions, payment, { spent, now, isInBook })
  if ('denied' in conditions) return conditions
  const charged = charge(policy, spent, payment.costs, now)
  if ('denied' in charged) return charged
  const [first, ...more] = [...conditions.reasons, ...approvalReasons(policy.approvals, payment, isApproved)]
  const charges = [...charged.charges, ...conditions.charges]
  if (first === undefined) return { charges, required: null }
  const reasons: Required['reasons'] = [first, ...more]
  const lifetimeMs = Math.min(...reasons.map((reason) => reason.lifetimeMs))
  return { charges, required: { payment, reasons, lifetimeMs } }
}
