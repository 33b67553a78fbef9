import { DAYS } from '../policy/hours.ts'
import type { ApprovalRule, Policy, Rule, SessionCondition, Spend } from '../policy/policy-schema.ts'
import { lifetimeMsOf } from '../policy/require-approval.ts'

const rule = ({ templateId, actions, choices, where }: Rule): Rule => ({
  templateId,
  actions: actions ?? (choices === undefined ? ['create', 'exercise'] : ['exercise']),
  ...(choices === undefined ? {} : { choices }),
  ...(where === undefined ? {} : { where }),
})

const spend = (entry: Spend): Spend =>
  entry.unlimited === true ? entry : { ...entry, window: entry.window ?? 'lifetime' }

const seconds = (expiresInSeconds: number | undefined) => lifetimeMsOf(expiresInSeconds) / 1000

const approval = (entry: ApprovalRule): ApprovalRule => ({
  ...entry,
  expiresInSeconds: seconds(entry.expiresInSeconds),
})

function condition({ hours, otherwise, expiresInSeconds, ...rest }: SessionCondition): SessionCondition {
  return {
    ...rest,
    ...(hours === undefined
      ? {}
      : { hours: { ...hours, days: DAYS.filter((day) => (hours.days ?? DAYS).includes(day)) } }),
    otherwise: otherwise ?? 'deny',
    ...(otherwise === 'require_approval' ? { expiresInSeconds: seconds(expiresInSeconds) } : {}),
  }
}

/** A policy with everything that was left out and has a default. It allows the same. */
export function normalized({ allow, deny, spend: caps, requireApproval, conditions, query }: Policy): Policy {
  return {
    allow: allow.map(rule),
    deny: (deny ?? []).map(rule),
    spend: (caps ?? []).map(spend),
    requireApproval: (requireApproval ?? []).map(approval),
    conditions: (conditions ?? []).map(condition),
    ...(query === undefined ? {} : { query }),
  }
}
