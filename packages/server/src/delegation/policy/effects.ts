import type { Arguments, Command, Effect, Prepared } from '../../platform/ports/ledger.ts'
import { sameText } from './conditions.ts'
import { type Act, type CompiledPolicy, type Decision, decideActs } from './policy.ts'

/** Templates of which a choice may create or archive contracts; null for an unknown choice. */
export type Declared = (templateId: string, choice: string) => readonly string[] | null

function refuse(command: number | null, message: string): Decision {
  return { allowed: false, rule: 'effects', command, message }
}

function sameValue(a: string | string[], b: string | string[]): boolean {
  if (typeof a === 'string' || typeof b === 'string')
    return typeof a === 'string' && typeof b === 'string' && sameText(a, b)
  return a.length === b.length && a.every((entry, index) => sameText(entry, b[index] as string))
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
function excessOf(root: Effect, consequence: Effect, declared: readonly string[]): string | null {
  if (root.type === 'created') return 'the command only creates a contract'
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
  let mayTouch: readonly string[] = []
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
  return Array.isArray(roots) ? decideActs(policy, roots.map(actOf), options) : roots
}
