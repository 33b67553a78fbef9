import { invalid } from '../../platform/http/errors.ts'
import { parseAmount } from '../../platform/ports/amount.ts'
import type { Policy, Rule, Spend } from '../policy/policy-schema.ts'
import type { ConnectAgent } from './connect-schema.ts'

/** What an agent that asks for nothing in particular may do: transfer what the user gives it an amount of, and read holdings. */
const PAYMENTS: Pick<Policy, 'allow' | 'query'> = {
  allow: [{ templateId: 'Token:Holding', choices: ['Transfer'] }],
  query: { templateIds: ['Token:Holding'] },
}

type Allowed = ConnectAgent['spend'][number]

const unitsOf = (amount: string) => parseAmount(amount) ?? 0n

/** An entry of `spend` with the amount that the user allows: never more than was asked for. */
function lowered(asked: Spend, allowed: Allowed | undefined, field: string): Spend {
  if (allowed?.asset.issuer !== asked.asset.issuer || allowed.asset.symbol !== asked.asset.symbol)
    throw invalid(`${field}.asset`, 'Must be the asset that was asked for, in the same order.')
  const { amount } = allowed
  if (amount === null) {
    if (asked.unlimited === true) return asked
    throw invalid(`${field}.amount`, 'Must be an amount: a limit was asked for.')
  }
  if (asked.unlimited !== true && unitsOf(amount) > unitsOf(asked.amount ?? '0'))
    throw invalid(`${field}.amount`, `Must be at most ${asked.amount}, which was asked for.`, 'too_large')
  return { asset: asked.asset, amount, ...(asked.window === undefined ? {} : { window: asked.window }) }
}

/** @throws validation_failed */
function chosen({ asset, amount }: Allowed, index: number): Spend {
  if (amount === null) throw invalid(`spend.${index}.amount`, 'Must be an amount.')
  return { asset, amount }
}

/** Conditions of a rule hold together, so one more can only take away. */
const only = (recipients: readonly string[], rule: Rule): Rule => ({
  ...rule,
  where: [...(rule.where ?? []), { path: 'receiver', op: 'in', value: [...recipients] }],
})

/**
 * The policy that the user allows: what was asked for, or less of it. It is built from what was asked for, so nothing in the user's
 * answer can widen it. @throws validation_failed
 */
export function narrowed(asked: Policy | null, { spend, recipients }: Omit<ConnectAgent, 'expiresInSeconds'>): Policy {
  const named = asked?.spend ?? []
  if (asked !== null && spend.length !== named.length)
    throw invalid('spend', 'Must have an entry for each that was asked for.')
  const { allow, ...rest } = asked ?? PAYMENTS
  const caps =
    asked === null ? spend.map(chosen) : named.map((entry, index) => lowered(entry, spend[index], `spend.${index}`))
  return {
    ...rest,
    allow: recipients === null ? allow : allow.map((rule) => only(recipients, rule)),
    ...(asked !== null && asked.spend === undefined ? {} : { spend: caps }),
  }
}
