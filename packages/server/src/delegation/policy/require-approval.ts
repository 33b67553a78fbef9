import type { ErrorDetail } from '../../platform/http/errors.ts'
import { formatAmount, parseAmount } from '../../platform/ports/amount.ts'
import { checkApprovers, compileApprovers, type Quorum, quorumWords } from '../approvals/approvers/quorum.ts'
import type { Payment } from './payment.ts'
import type { ApprovalRule } from './policy-schema.ts'

/** A day: how long the owner has by default. */
const SECONDS_DEFAULT = 86_400

/** A compiled rule that asks. */
export interface CompiledApprovalRule {
  name: `requireApproval[${number}]`
  lifetimeMs: number
  /** Who is asked; null for the owner. */
  approvers: Quorum | null
  /** Null for a rule about new recipients. */
  above: { issuer: string; symbol: string; units: bigint } | null
}

/** A rule or condition that asks, and why. */
export interface ApprovalReason {
  rule: CompiledApprovalRule['name'] | `conditions[${number}]`
  message: string
  /** Who is asked; null for the owner. */
  approvers: Quorum | null
  /** How long they have. */
  lifetimeMs: number
}

/** How long the owner has, where a rule says so or not. */
export const lifetimeMsOf = (expiresInSeconds = SECONDS_DEFAULT): number => expiresInSeconds * 1000

/** Checks what the schema of a rule cannot express. */
export function checkApprovalRules(rules: readonly ApprovalRule[], field: string): ErrorDetail[] {
  return rules.flatMap((rule, index) => [
    ...assetProblems(rule, `${field}.${index}`),
    ...checkApprovers(rule.approvers, `${field}.${index}`),
  ])
}

function assetProblems({ asset, above, newRecipient }: ApprovalRule, at: string): ErrorDetail[] {
  const wrong = (name: string, code: string, message: string): ErrorDetail[] => [
    { field: `${at}.${name}`, code, message },
  ]
  if (newRecipient === true)
    return (['asset', 'above'] as const).flatMap((name) =>
      (name === 'asset' ? asset : above) === undefined
        ? []
        : wrong(name, 'invalid', 'Must be absent if "newRecipient" is set.'),
    )
  if (above === undefined) return wrong('above', 'required', 'Either "above" or "newRecipient": true is required.')
  return asset === undefined ? wrong('asset', 'required', '"asset" is required beside "above".') : []
}

/** Compiles a rule. It has passed its schema and `checkApprovalRules`. */
export function compileApprovalRule(
  { asset, above, approvers, expiresInSeconds }: ApprovalRule,
  index: number,
): CompiledApprovalRule {
  const units = above === undefined ? null : parseAmount(above)
  return {
    name: `requireApproval[${index}]`,
    lifetimeMs: lifetimeMsOf(expiresInSeconds),
    approvers: compileApprovers(approvers),
    above: asset === undefined || units === null ? null : { ...asset, units },
  }
}

/** The rules that ask, in the policy's order. `isKnown`: whether those who are asked have approved a payment to a party. */
export function approvalReasons(
  rules: readonly CompiledApprovalRule[],
  { costs, recipients }: Payment,
  isKnown: (party: string, approvers: Quorum | null) => boolean,
): ApprovalReason[] {
  return rules.flatMap(({ name: rule, above, approvers, lifetimeMs }): ApprovalReason[] => {
    const who = quorumWords(approvers)
    if (above === null) {
      const stranger = recipients.find((party) => !isKnown(party, approvers))
      const message =
        approvers === null
          ? `The owner has not approved a payment to ${stranger} before.`
          : `A payment to ${stranger} has not been approved by ${who} before.`
      return stranger === undefined ? [] : [{ rule, message, approvers, lifetimeMs }]
    }
    const { issuer, symbol, units } = above
    const cost = costs.find(({ asset }) => asset.issuer === issuer && asset.symbol === symbol)?.units ?? 0n
    const need = approvers === null ? "the owner's approval" : `the approval of ${who}`
    const message = `This spends ${formatAmount(cost)} ${symbol}; more than ${formatAmount(units)} needs ${need}.`
    return cost > units ? [{ rule, message, approvers, lifetimeMs }] : []
  })
}
