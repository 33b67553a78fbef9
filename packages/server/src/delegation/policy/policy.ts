import type { ErrorDetail } from '../../platform/http/errors.ts'
import { parseAmount } from '../../platform/ports/amount.ts'
import type { Arguments, Command } from '../../platform/ports/ledger.ts'
import {
  type Budget,
  type CompiledCondition,
  checkConditions,
  compileConditions,
  conditionWords,
  isMet,
  type Reading,
  read,
  type Side,
} from './conditions.ts'
import type { Policy, Rule, Spend } from './policy-schema.ts'
import { type CompiledApprovalRule, checkApprovalRules, compileApprovalRule } from './require-approval.ts'
import { type CompiledSessionCondition, checkSessionConditions, compileSessionCondition } from './session-conditions.ts'

const POLICY_BYTES_MAX = 64 * 1024
const DETAILS_MAX = 50
/** How many rules an explanation lists: for one command, and for all. */
const RULES_TOLD_MAX = 20
const ALL_RULES_TOLD_MAX = 1_000
/** How many comparisons one decision may make, some tens of milliseconds. Larger requests are denied. */
const COMPARISONS_MAX = 1_000_000

/**
 * The rule that decided. `allow[2]` allowed, `deny[0]` denied. `allow`: no rule allowed it. `effects`: the prepared
 * transaction differs from the request. `spend`: an asset moves that `spend` does not list. `spend[0]`: this cap.
 */
export type RuleName = 'allow' | 'effects' | 'spend' | `${'allow' | 'deny' | 'spend'}[${number}]`

/** A policy's decision. */
export interface Decision {
  allowed: boolean
  /** If all commands are allowed, the rule that allowed the first. */
  rule: RuleName
  /** Index of the command that was denied, from 0; null if all are allowed, or no single command caused it. */
  command: number | null
  /** Human-readable. */
  message: string
  /** Only if an explanation was requested. */
  trace?: CommandTrace[]
}

/** Why a command is allowed or denied. */
interface CommandTrace {
  command: number
  allowed: boolean
  rule: RuleName
  /** `exercise Token:Holding Transfer`. */
  action: string
  /** The rules for its template, deny rules first. Other rules were not checked. */
  rules: { rule: RuleName; matched: boolean; reason: string }[]
  /** How many further rules are not listed. */
  rulesLeftOut: number
}

/** What rules are checked against: a command, or a root effect of a prepared transaction. */
export interface Act {
  action: 'create' | 'exercise'
  templateId: string
  /** Only for an exercise. */
  choice: string | null
  arguments: Arguments
}

/** An act that is being decided on. */
interface Case extends Act {
  reading: Reading
}

interface CompiledRule {
  name: RuleName
  side: Side
  create: boolean
  exercise: boolean
  /** Null for any. */
  choices: ReadonlySet<string> | null
  where: readonly CompiledCondition[]
}

/** A compiled spend entry. */
export interface CompiledSpend {
  issuer: string
  symbol: string
  /** Null if there is no limit. */
  cap: { window: NonNullable<Spend['window']>; limit: bigint } | null
}

/** A compiled policy. Callers can cache it. */
export interface CompiledPolicy {
  /** Rules by template, in the policy's order. */
  rules: ReadonlyMap<string, { allow: readonly CompiledRule[]; deny: readonly CompiledRule[] }>
  /** By index of the policy's entry. */
  spend: readonly CompiledSpend[]
  /** What the owner has to approve. */
  approvals: readonly CompiledApprovalRule[]
  /** What every transaction has to meet. */
  conditions: readonly CompiledSessionCondition[]
  /** Templates that can be queried. */
  queryTemplateIds: readonly string[]
  /** What all decisions together have left, for a call that makes many. Counted, not enforced: the caller looks at it between them. */
  work?: Budget
}

const assetKey = ({ asset }: Spend) => JSON.stringify([asset.issuer, asset.symbol])

function checkRule(rule: Rule, field: string): ErrorDetail[] {
  const found = checkConditions(rule.where ?? [], `${field}.where`)
  if (rule.choices === undefined || rule.actions === undefined || rule.actions.includes('exercise')) return found
  const message = 'Must be absent if create is the only action, because only exercise has choices.'
  return [{ field: `${field}.choices`, code: 'invalid', message }, ...found]
}

function checkSpend(spends: readonly Spend[], field: string): ErrorDetail[] {
  const seen = new Set<string>()
  const unlimited = new Set(spends.filter((spend) => spend.unlimited === true).map(assetKey))
  return spends.flatMap((spend, index) => {
    const at = `${field}.${index}`
    const key = assetKey(spend)
    const slot = `${spend.unlimited === true ? 'unlimited' : (spend.window ?? 'lifetime')} ${key}`
    const found: ErrorDetail[] = []
    if (spend.unlimited === true)
      for (const name of ['amount', 'window'] as const) {
        if (spend[name] === undefined) continue
        found.push({ field: `${at}.${name}`, code: 'invalid', message: 'Must be absent if "unlimited" is set.' })
      }
    else if (spend.amount === undefined)
      found.push({
        field: `${at}.amount`,
        code: 'required',
        message: 'Either "amount" or "unlimited": true is required.',
      })
    if (seen.has(slot))
      found.push({ field: at, code: 'repeated', message: 'Another entry has the same asset and window.' })
    else if (spend.unlimited !== true && unlimited.has(key))
      found.push({ field: at, code: 'invalid', message: 'Another entry makes this asset unlimited.' })
    seen.add(slot)
    return found
  })
}

/** Checks rules for a policy that its schema cannot express. Fields are named below `field`. */
export function checkPolicy(policy: Policy, field = 'policy'): ErrorDetail[] {
  const bytes = Buffer.byteLength(JSON.stringify(policy))
  if (bytes > POLICY_BYTES_MAX)
    return [{ field, code: 'too_large', message: `Must be at most ${POLICY_BYTES_MAX} bytes as JSON.` }]
  return [
    ...policy.allow.flatMap((rule, index) => checkRule(rule, `${field}.allow.${index}`)),
    ...(policy.deny ?? []).flatMap((rule, index) => checkRule(rule, `${field}.deny.${index}`)),
    ...checkSpend(policy.spend ?? [], `${field}.spend`),
    ...checkApprovalRules(policy.requireApproval ?? [], `${field}.requireApproval`),
    ...checkSessionConditions(policy.conditions ?? [], `${field}.conditions`),
  ].slice(0, DETAILS_MAX)
}

function compileRule({ actions, choices, where }: Rule, side: Side, index: number): CompiledRule {
  return {
    name: `${side}[${index}]`,
    side,
    // A rule with choices and no actions is for exercise only.
    create: actions?.includes('create') ?? choices === undefined,
    exercise: actions?.includes('exercise') ?? true,
    choices: choices === undefined ? null : new Set(choices),
    where: compileConditions(where ?? []),
  }
}

/** Compiles a spend entry. It has passed its schema and `checkPolicy`. */
export function compileSpend({ asset, amount, window, unlimited }: Spend): CompiledSpend {
  if (unlimited === true) return { ...asset, cap: null }
  const limit = parseAmount(amount ?? '')
  if (limit === null) throw new Error('a spend entry of a policy has neither an amount nor "unlimited"')
  return { ...asset, cap: { window: window ?? 'lifetime', limit } }
}

/** Compiles a policy. It has passed its schema and `checkPolicy`. */
export function compile(policy: Policy): CompiledPolicy {
  const rules = new Map<string, Record<Side, CompiledRule[]>>()
  const add = (side: Side) => (rule: Rule, index: number) => {
    const ofTemplate = rules.get(rule.templateId) ?? { allow: [], deny: [] }
    ofTemplate[side].push(compileRule(rule, side, index))
    rules.set(rule.templateId, ofTemplate)
  }
  policy.allow.forEach(add('allow'))
  policy.deny?.forEach(add('deny'))
  return {
    rules,
    spend: (policy.spend ?? []).map(compileSpend),
    approvals: (policy.requireApproval ?? []).map(compileApprovalRule),
    conditions: (policy.conditions ?? []).map(compileSessionCondition),
    queryTemplateIds: policy.query?.templateIds ?? [],
  }
}

type Miss = 'action' | 'choice' | CompiledCondition

/** The first reason why a rule does not match; null if it matches. */
function missOf(rule: CompiledRule, { action, choice, reading }: Case): Miss | null {
  if (!rule[action]) return 'action'
  if (action === 'exercise' && rule.choices?.has(choice ?? '') === false) return 'choice'
  return rule.where.find((condition) => !isMet(condition, reading, rule.side)) ?? null
}

/** The rule that decides: one that denies, or else one that allows, or else `allow`. */
function ruleFor(policy: CompiledPolicy, one: Case): RuleName {
  const rules = policy.rules.get(one.templateId)
  const matching = (rule: CompiledRule) => missOf(rule, one) === null
  return (rules?.deny.find(matching) ?? rules?.allow.find(matching))?.name ?? 'allow'
}

const allows = (rule: RuleName) => rule.startsWith('allow[')

const words = ({ action, templateId, choice }: Act) => [action, templateId, choice ?? []].flat().join(' ')

function reasonFor(rule: CompiledRule, miss: Miss | null, { action, choice, reading }: Case): string {
  if (miss === 'action') return `The rule is not for ${action}.`
  if (miss === 'choice') return `The rule is not for the choice ${choice}.`
  if (miss !== null) return `Not met: ${conditionWords(miss, reading)}.`
  const [first, ...more] = rule.where
  if (first === undefined) return 'The rule has no conditions.'
  const others = more.length === 0 ? '' : `, and ${more.length} more`
  return `Met: ${conditionWords(first, reading)}${others}.`
}

/** A result, once what it took was taken from what the policy's caller has left. */
function counted<T>({ work }: CompiledPolicy, budget: Budget, result: T): T {
  if (work !== undefined) work.comparisons -= COMPARISONS_MAX - budget.comparisons
  return result
}

/** Explains decisions. Rules for which too many values would have to be compared are left out. */
function traceOf(policy: CompiledPolicy, acts: readonly Act[], decided: readonly RuleName[]): CommandTrace[] {
  const budget = { comparisons: COMPARISONS_MAX }
  const toldMax = Math.min(RULES_TOLD_MAX, Math.floor(ALL_RULES_TOLD_MAX / acts.length))
  const traces = acts.map((act, command) => {
    const one: Case = { ...act, reading: read(act.arguments, budget) }
    const rule = decided[command] as RuleName
    const ofTemplate = policy.rules.get(act.templateId)
    const all = [...(ofTemplate?.deny ?? []), ...(ofTemplate?.allow ?? [])]
    // The rule that decided is always listed.
    const told = all.filter(({ name }, index) => index < toldMax || name === rule)
    const rules = told.flatMap((looked) => {
      const miss = missOf(looked, one)
      if (budget.comparisons < 0) return []
      return [{ rule: looked.name, matched: miss === null, reason: reasonFor(looked, miss, one) }]
    })
    return { command, allowed: allows(rule), rule, action: words(act), rules, rulesLeftOut: all.length - rules.length }
  })
  return counted(policy, budget, traces)
}

/** The index of the first act that a deny rule matches, or -1. What takes too many comparisons is denied. */
export function firstDenied(policy: CompiledPolicy, acts: readonly Act[]): number {
  const budget = { comparisons: COMPARISONS_MAX }
  const denied = acts.findIndex((act) => {
    const one: Case = { ...act, reading: read(act.arguments, budget) }
    return policy.rules.get(act.templateId)?.deny.some((rule) => missOf(rule, one) === null) ?? false
  })
  return counted(policy, budget, denied)
}

/** Decides on acts, one by one. All must be allowed by some rule and denied by none; no acts at all are denied. */
export function decideActs(
  policy: CompiledPolicy,
  acts: readonly Act[],
  options: { explain?: boolean } = {},
): Decision {
  const budget = { comparisons: COMPARISONS_MAX }
  const decided = acts.map((act) => ruleFor(policy, { ...act, reading: read(act.arguments, budget) }))
  const rules = counted(policy, budget, decided)
  const [first] = rules
  const none = (message: string): Decision => ({ allowed: false, rule: 'allow', command: null, message })
  if (first === undefined) return none('There are no commands.')
  if (budget.comparisons < 0)
    return none('There are too many values to compare with the policy. Send fewer commands or values in one call.')
  const trace = options.explain ? { trace: traceOf(policy, acts, rules) } : {}
  const denied = rules.findIndex((rule) => !allows(rule))
  if (denied === -1) return { allowed: true, rule: first, command: null, message: 'The policy allows this.', ...trace }
  const rule = rules[denied] as RuleName
  const act = words(acts[denied] as Act)
  const message =
    rule === 'allow'
      ? `No rule of the policy allows command ${denied}: ${act}.`
      : `The policy's rule ${rule} denies command ${denied}: ${act}.`
  return { allowed: false, rule, command: denied, message, ...trace }
}

function actOf(command: Command): Act {
  if ('create' in command) {
    const { templateId, arguments: given } = command.create
    return { action: 'create', templateId, choice: null, arguments: given }
  }
  const { templateId, choice, arguments: given } = command.exercise
  return { action: 'exercise', templateId, choice, arguments: given }
}

/** Decides on commands as requested: default deny, deny rules win. With `explain`, the decision explains each command. */
export function decideCommands(
  policy: CompiledPolicy,
  commands: readonly Command[],
  options: { explain?: boolean } = {},
): Decision {
  return decideActs(policy, commands.map(actOf), options)
}
