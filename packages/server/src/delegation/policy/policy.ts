import type { ErrorDetail } from '../../platform/http/errors.ts'
import { parseAmount } from '../../platform/ports/amount.ts'
import type { Arguments, Command } from '../../platform/ports/ledger.ts'
import {
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

const POLICY_BYTES_MAX = 64 * 1024
const DETAILS_MAX = 50
/** Rules that an explanation tells of: of one command, and of all. */
const RULES_TOLD_MAX = 20
const ALL_RULES_TOLD_MAX = 1_000
/** What one decision may take, some tens of milliseconds: many long lists against many conditions are denied. */
const COMPARISONS_MAX = 1_000_000

/**
 * What decided: `allow[2]` allowed, `deny[0]` denied, `allow` means that no rule allowed, `effects` that the prepared
 * transaction is not what was asked for, `spend` that an asset moves which is not named, `spend[0]` that cap.
 */
export type RuleName = 'allow' | 'effects' | 'spend' | `${'allow' | 'deny' | 'spend'}[${number}]`

/** How a policy takes something. */
export interface Decision {
  allowed: boolean
  /** Of several commands that are allowed, what allowed the first. */
  rule: RuleName
  /** The command at fault, counted from 0; null where all are allowed, or none in particular is at fault. */
  command: number | null
  /** For people. */
  message: string
  /** Where it was asked for. */
  trace?: CommandTrace[]
}

/** Why a command is allowed or denied. */
interface CommandTrace {
  command: number
  allowed: boolean
  rule: RuleName
  /** `exercise Token:Holding Transfer`. */
  action: string
  /** The rules for its template, deny rules first: others were not looked at. */
  rules: { rule: RuleName; matched: boolean; reason: string }[]
  /** Further ones that are not told of. */
  rulesLeftOut: number
}

/** What rules are held against: a command, or the root of what a prepared transaction does. */
export interface Act {
  action: 'create' | 'exercise'
  templateId: string
  /** Of an exercise. */
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

/** A spend entry, ready to be charged. */
export interface CompiledSpend {
  issuer: string
  symbol: string
  /** Null where there is no limit. */
  cap: { window: NonNullable<Spend['window']>; limit: bigint } | null
}

/** A policy, ready to decide: read once, kept by whoever needs it again. */
export interface CompiledPolicy {
  /** By template: its rules in the policy's order. */
  rules: ReadonlyMap<string, { allow: readonly CompiledRule[]; deny: readonly CompiledRule[] }>
  /** By the index of the policy's entry. */
  spend: readonly CompiledSpend[]
  /** Which templates may be queried. */
  queryTemplateIds: readonly string[]
}

const assetKey = ({ asset }: Spend) => JSON.stringify([asset.issuer, asset.symbol])

function checkRule(rule: Rule, field: string): ErrorDetail[] {
  const found = checkConditions(rule.where ?? [], `${field}.where`)
  if (rule.choices === undefined || rule.actions === undefined || rule.actions.includes('exercise')) return found
  const message = 'Must be left out where the only action is create: only exercises have a choice.'
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
        found.push({ field: `${at}.${name}`, code: 'invalid', message: 'Must be left out beside "unlimited".' })
      }
    else if (spend.amount === undefined)
      found.push({ field: `${at}.amount`, code: 'required', message: '"amount" is required, or "unlimited": true.' })
    if (seen.has(slot))
      found.push({ field: at, code: 'repeated', message: 'Another entry is for the same asset and window.' })
    else if (spend.unlimited !== true && unlimited.has(key))
      found.push({ field: at, code: 'invalid', message: 'Another entry makes this asset unlimited.' })
    seen.add(slot)
    return found
  })
}

/** What the schema cannot say of a policy that it accepts. Fields are named below `field`. */
export function checkPolicy(policy: Policy, field = 'policy'): ErrorDetail[] {
  const bytes = Buffer.byteLength(JSON.stringify(policy))
  if (bytes > POLICY_BYTES_MAX)
    return [{ field, code: 'too_large', message: `Must be at most ${POLICY_BYTES_MAX} bytes as JSON.` }]
  return [
    ...policy.allow.flatMap((rule, index) => checkRule(rule, `${field}.allow.${index}`)),
    ...(policy.deny ?? []).flatMap((rule, index) => checkRule(rule, `${field}.deny.${index}`)),
    ...checkSpend(policy.spend ?? [], `${field}.spend`),
  ].slice(0, DETAILS_MAX)
}

function compileRule({ actions, choices, where }: Rule, side: Side, index: number): CompiledRule {
  return {
    name: `${side}[${index}]`,
    side,
    // Who names choices and no action speaks of exercises.
    create: actions?.includes('create') ?? choices === undefined,
    exercise: actions?.includes('exercise') ?? true,
    choices: choices === undefined ? null : new Set(choices),
    where: compileConditions(where ?? []),
  }
}

/** Reads a spend entry. It has passed its schema and `checkPolicy`. */
export function compileSpend({ asset, amount, window, unlimited }: Spend): CompiledSpend {
  if (unlimited === true) return { ...asset, cap: null }
  const limit = parseAmount(amount ?? '')
  if (limit === null) throw new Error('a spend entry of a policy has neither an amount nor no limit')
  return { ...asset, cap: { window: window ?? 'lifetime', limit } }
}

/** Reads a policy once. It has passed its schema and `checkPolicy`. */
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
    queryTemplateIds: policy.query?.templateIds ?? [],
  }
}

type Miss = 'action' | 'choice' | CompiledCondition

/** What keeps a rule from matching, first things first; null where it matches. */
function missOf(rule: CompiledRule, { action, choice, reading }: Case): Miss | null {
  if (!rule[action]) return 'action'
  if (action === 'exercise' && rule.choices?.has(choice ?? '') === false) return 'choice'
  return rule.where.find((condition) => !isMet(condition, reading, rule.side)) ?? null
}

/** The rule that decides: one that denies, else one that allows, else `allow`. */
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

function traceOf(policy: CompiledPolicy, acts: readonly Act[], decided: readonly RuleName[]): CommandTrace[] {
  const toldMax = Math.min(RULES_TOLD_MAX, Math.floor(ALL_RULES_TOLD_MAX / acts.length))
  return acts.map((act, command) => {
    const one: Case = { ...act, reading: read(act.arguments) }
    const rule = decided[command] as RuleName
    const ofTemplate = policy.rules.get(act.templateId)
    const all = [...(ofTemplate?.deny ?? []), ...(ofTemplate?.allow ?? [])]
    // The one that decided is told of in any case.
    const told = all.filter(({ name }, index) => index < toldMax || name === rule)
    const rules = told.map((looked) => {
      const miss = missOf(looked, one)
      return { rule: looked.name, matched: miss === null, reason: reasonFor(looked, miss, one) }
    })
    return { command, allowed: allows(rule), rule, action: words(act), rules, rulesLeftOut: all.length - told.length }
  })
}

/** Decides on acts, one by one. All must be allowed by some rule and denied by none; no acts at all are denied. */
export function decideActs(
  policy: CompiledPolicy,
  acts: readonly Act[],
  options: { explain?: boolean } = {},
): Decision {
  const budget = { comparisons: COMPARISONS_MAX }
  const rules = acts.map((act) => ruleFor(policy, { ...act, reading: read(act.arguments, budget) }))
  const [first] = rules
  const none = (message: string): Decision => ({ allowed: false, rule: 'allow', command: null, message })
  if (first === undefined) return none('There is no command.')
  if (budget.comparisons < 0) return none('These are too many values to compare with the policy: send less at once.')
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

/** Decides on commands as they were asked for: default deny, deny wins. With `explain` it says of each command why. */
export function decideCommands(
  policy: CompiledPolicy,
  commands: readonly Command[],
  options: { explain?: boolean } = {},
): Decision {
  return decideActs(policy, commands.map(actOf), options)
}
