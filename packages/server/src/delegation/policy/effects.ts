import type { Arguments, Command, Effect, Prepared, Value } from '../../platform/ports/ledger.ts'
import { sameText } from './conditions.ts'
import { type Act, type CompiledPolicy, type Decision, decideActs, firstDenied } from './policy.ts'

/** See `Ledger.declaredConsequences`. */
export type Declared = (templateId: string, choice: string) => readonly string[] | 'judged' | null

function refuse(command: number | null, message: string): Decision {
  return { allowed: false, rule: 'effects', command, message }
}

/** Whether a ledger that was given `a` may have made `b` of it: the same, with absent optionals filled in. */
function sameValue(a: Value, b: Value): boolean {
  if (typeof a === 'string') return typeof b === 'string' && sameText(a, b)
  if (a === null || typeof a === 'boolean') return a === b
  if (b === null || typeof b !== 'object' || Array.isArray(a) !== Array.isArray(b)) return false
  if (Array.isArray(a))
    return (
      a.length === (b as Value[]).length && a.every((entry, index) => sameValue(entry, (b as Value[])[index] as Value))
    )
  const made = b as Arguments
  return (
    Object.entries(a).every(([name, value]) => Object.hasOwn(made, name) && sameValue(value, made[name] as Value)) &&
    Object.entries(made).every(([name, value]) => value === null || Object.hasOwn(a, name))
  )
}

/** The first requested argument that differs. Further arguments that the ledger filled in are ignored. */
function changedArgument(asked: Arguments, got: Arguments): string | undefined {
  const changed = Object.entries(asked).find(([name, value]) => {
    const decoded = Object.hasOwn(got, name) ? got[name] : undefined
    return decoded === undefined || !sameValue(value, decoded)
  })
  return changed?.[0]
}

/** How a command's root effect differs from the request; null if it does not. */
function differenceOf(command: Command, root: Effect): string | null {
  const isCreate = 'create' in command
  const asked = isCreate ? command.create : command.exercise
  if (root.type !== (isCreate ? 'created' : 'exercised')) return `the command is to ${isCreate ? 'create' : 'exercise'}`
  if (root.templateId !== asked.templateId) return `the command is for ${asked.templateId}`
  if (root.choice !== (isCreate ? null : command.exercise.choice)) return 'the choice is different'
  if (!isCreate && root.contractId !== command.exercise.contractId) return 'the contract is different'
  const changed = changedArgument(asked.arguments, root.arguments)
  return changed === undefined ? null : `the argument ${changed} is different`
}

/** What is wrong with a consequence of a root effect; null if nothing is. */
function excessOf(root: Effect, consequence: Effect, declared: readonly string[] | 'judged'): string | null {
  if (root.type === 'created') return 'the command only creates a contract'
  if (declared === 'judged') return null
  if (consequence.type === 'exercised') return 'it exercises another choice'
  if (consequence.type === 'archived' && consequence.contractId === root.contractId)
    return consequence.templateId === root.templateId ? null : 'the archived contract has a different template'
  return declared.includes(consequence.templateId)
    ? null
    : `the choice is not declared to touch ${consequence.templateId}`
}

/** The root effects, one for each command; a refusal if effects and commands differ. */
function rootsOf(commands: readonly Command[], effects: readonly Effect[], declared: Declared): Effect[] | Decision {
  const roots: Effect[] = []
  let mayTouch: readonly string[] | 'judged' = []
  for (const effect of effects) {
    const index = effect.command
    const root = roots[index]
    const wrong = (what: string) => refuse(index, `The prepared transaction differs from command ${index}: ${what}.`)
    if (root !== undefined && index === roots.length - 1) {
      const excess = excessOf(root, effect, mayTouch)
      if (excess !== null) return wrong(excess)
      continue
    }
    const command = commands[index]
    if (index !== roots.length || command === undefined)
      return refuse(null, 'The prepared transaction has an effect that no command requested at this position.')
    const difference = differenceOf(command, effect)
    if (difference !== null) return wrong(difference)
    const touched = effect.choice === null ? [] : declared(effect.templateId, effect.choice)
    if (touched === null) return wrong(`the choice ${effect.choice} is not known`)
    mayTouch = touched
    roots.push(effect)
  }
  if (roots.length === commands.length) return roots
  return refuse(roots.length, `The prepared transaction does nothing for command ${roots.length}.`)
}

function actOf({ type, templateId, choice, arguments: decoded }: Effect): Act {
  return { action: type === 'created' ? 'create' : 'exercise', templateId, choice, arguments: decoded }
}

/**
 * Decides on the effects of a prepared transaction, decoded from its bytes. Only the party acts, the root effects match the
 * commands one to one, their consequences are declared, and the policy allows the decoded root effects.
 */
export function decideEffects(
  policy: CompiledPolicy,
  asked: { actAs: string; commands: readonly Command[] },
  prepared: Pick<Prepared, 'actAs' | 'effects'>,
  declared: Declared,
  options: { explain?: boolean } = {},
): Decision {
  if (prepared.actAs !== asked.actAs) return refuse(null, 'The prepared transaction is for another party.')
  const roots = rootsOf(asked.commands, prepared.effects, declared)
  if (!Array.isArray(roots)) return roots
  const isJudged = roots.some(({ templateId, choice }) => choice !== null && declared(templateId, choice) === 'judged')
  const excess = isJudged ? uncovered(policy, roots, prepared.effects) : null
  return excess ?? decideActs(policy, roots.map(actOf), options)
}

/**
 * The first consequence that the policy does not cover, where no template declares any: a choice that is exercised must be
 * allowed as if it were requested; a contract that is created or archived must be of a template that an allow rule names,
 * and no deny rule may match what is created.
 */
function uncovered(policy: CompiledPolicy, roots: readonly Effect[], effects: readonly Effect[]): Decision | null {
  const consequences = effects.filter((effect) => !roots.includes(effect))
  const wrong = ({ command, type, templateId, choice }: Effect, why: string) =>
    refuse(
      command,
      `Command ${command} would also do what ${why}: ${[type, templateId, choice ?? []].flat().join(' ')}.`,
    )
  const exercised = consequences.filter(({ type }) => type === 'exercised')
  const decision = exercised.length === 0 ? null : decideActs(policy, exercised.map(actOf))
  if (decision !== null && !decision.allowed)
    return wrong(exercised[decision.command ?? 0] as Effect, 'the policy does not allow')
  const isNamed = ({ templateId }: Effect) => (policy.rules.get(templateId)?.allow.length ?? 0) > 0
  const unnamed = consequences.find((effect) => effect.type !== 'exercised' && !isNamed(effect))
  if (unnamed !== undefined) return wrong(unnamed, 'no rule of the policy allows')
  const created = consequences.filter(({ type }) => type === 'created')
  const denied = firstDenied(policy, created.map(actOf))
  return denied === -1 ? null : wrong(created[denied] as Effect, 'a rule of the policy denies')
}
