import { type Arguments, type Command, type Effect, LedgerError } from '../../../platform/ports/ledger.ts'
import { stakeholdersOf } from './contract-id.ts'
import { readArguments } from './fields.ts'
import type { Choice, NewContract, Template } from './template.ts'

/** A contract that a transaction reads. */
export interface Input {
  contractId: string
  templateId: string
  arguments: Arguments
  signatories: string[]
  observers: string[]
  createdOffset: number
  archived: boolean
  /** What its id was derived from; null for ids of earlier versions. `seed`: hex. */
  seed: string | null
  index: number | null
}

/** The input of an interpretation. Pure: the same input gives the same result. */
export interface Scene {
  actor: string
  inputs: ReadonlyMap<string, Input>
  templates: ReadonlyMap<string, Template>
  /** The id of the n-th contract that the transaction creates. */
  contractId(n: number, template: Template, contract: Arguments): string
}

/** How many contracts one transaction can read, and how many effects it can have. */
const INPUTS_MAX = 500
const EFFECTS_MAX = 2_000
/** How many characters the effects of one transaction can have: a choice could write one long text many times. */
const EFFECT_CHARS_MAX = 2_000_000

/**
 * The ids of all contracts that commands read, each once, in order. @throws LedgerError arguments_invalid if there are
 * too many
 */
export function inputsOf(commands: readonly Command[]): string[] {
  const ids = new Set<string>()
  for (const command of commands) {
    if (!('exercise' in command)) continue
    ids.add(command.exercise.contractId)
    const { contractIds } = command.exercise.arguments
    // What is no id is refused with the other arguments.
    if (Array.isArray(contractIds)) for (const id of contractIds) if (typeof id === 'string') ids.add(id)
  }
  if (ids.size > INPUTS_MAX)
    throw new LedgerError('arguments_invalid', `One transaction can read at most ${INPUTS_MAX} contracts.`, {
      field: '',
    })
  return [...ids].sort()
}

/** A transaction as far as it has been interpreted. */
interface State {
  scene: Scene
  effects: Effect[]
  consumed: Set<string>
  created: number
  chars: number
}

function charsOf({ arguments: given, signatories, observers }: Effect): number {
  let chars = 0
  // By now every field holds a text or a list of texts.
  for (const value of [...(Object.values(given) as (string | string[])[]), signatories, observers])
    chars += typeof value === 'string' ? value.length : value.reduce((sum, each) => sum + each.length, 0)
  return chars
}

function add(state: State, effect: Effect): void {
  state.chars += charsOf(effect)
  if (state.effects.length === EFFECTS_MAX || state.chars > EFFECT_CHARS_MAX)
    throw new LedgerError(
      'arguments_invalid',
      `One transaction can have at most ${EFFECTS_MAX} effects, with ${EFFECT_CHARS_MAX} characters together.`,
      { field: '' },
    )
  state.effects.push(effect)
}

function templateOf(state: State, templateId: string, path: string): Template {
  const template = state.scene.templates.get(templateId)
  if (template === undefined)
    throw new LedgerError('template_unknown', `This ledger has no template "${templateId}".`, {
      field: `${path}.templateId`,
    })
  return template
}

function choiceOf(template: Template, name: string, path: string): Choice {
  const choice = template.choices.get(name)
  if (choice === undefined)
    throw new LedgerError('choice_unknown', `${template.templateId} has no choice "${name}".`, {
      field: `${path}.choice`,
    })
  return choice
}

/** An active contract that the actor sees. */
function find({ scene, consumed }: State, id: string, templateId: string, field: string): Input {
  const input = scene.inputs.get(id)
  const visible = input?.signatories.includes(scene.actor) || input?.observers.includes(scene.actor)
  if (input === undefined || !visible || input.templateId !== templateId)
    throw new LedgerError('contract_not_found', `No contract of ${templateId} with this id is visible to the wallet.`, {
      field,
    })
  if (input.archived || consumed.has(id))
    throw new LedgerError('contract_archived', 'This contract was already used up. Query the contracts again.', {
      field,
    })
  return input
}

/**
 * Every signatory of a created contract must agree: by acting, or by being a signatory of the contract that is consumed
 * for it.
 */
function create(state: State, command: number, made: NewContract, agreed: ReadonlySet<string>, path: string): void {
  const { templateId } = made
  const template = templateOf(state, templateId, path)
  const contract = readArguments(template.fields, made.arguments, `${path}.arguments`)
  const { signatories, observers } = stakeholdersOf(template, contract)
  const missing = signatories.filter((party) => !agreed.has(party))
  if (missing.length > 0)
    throw new LedgerError('authorization_missing', `${templateId} needs the signature of ${missing.join(', ')}.`, {
      field: path,
    })
  const contractId = state.scene.contractId(state.created, template, contract)
  state.created += 1
  add(state, {
    type: 'created',
    command,
    contractId,
    templateId,
    choice: null,
    arguments: contract,
    signatories,
    observers,
  })
}

function archive(state: State, command: number, input: Input): void {
  state.consumed.add(input.contractId)
  const { contractId, templateId, arguments: contract, signatories, observers } = input
  add(state, {
    type: 'archived',
    command,
    contractId,
    templateId,
    choice: null,
    arguments: contract,
    signatories,
    observers,
  })
}

type Asked = Extract<Command, { exercise: object }>['exercise']

/** The further contracts that a choice consumes, each once. */
function othersOf(state: State, choice: Choice, asked: Asked, given: Arguments, path: string): Input[] {
  const taken = new Set<string>([asked.contractId])
  return (choice.consumes?.(given) ?? []).map((id, index) => {
    const field = `${path}.arguments.contractIds.${index}`
    if (taken.has(id))
      throw new LedgerError('contract_archived', 'This contract is used twice in the transaction.', { field })
    taken.add(id)
    return find(state, id, asked.templateId, field)
  })
}

function exercise(state: State, command: number, asked: Asked): void {
  const path = `${command}.exercise`
  const { actor } = state.scene
  const template = templateOf(state, asked.templateId, path)
  const choice = choiceOf(template, asked.choice, path)
  const given = readArguments(choice.fields, asked.arguments, `${path}.arguments`)
  const input = find(state, asked.contractId, asked.templateId, `${path}.contractId`)
  if (!choice.controllers(input.arguments).every((party) => party === actor))
    throw new LedgerError('authorization_missing', `This wallet does not control the choice ${asked.choice}.`, {
      field: `${path}.choice`,
    })
  const others = othersOf(state, choice, asked, given, path)
  const run = choice.run({
    contract: input.arguments,
    arguments: given,
    others: others.map((other) => other.arguments),
    path: `${path}.arguments`,
  })
  const { contractId, templateId, signatories, observers } = input
  const about = { command, contractId, templateId, signatories, observers }
  add(state, { type: 'exercised', ...about, choice: asked.choice, arguments: run.arguments })
  if (choice.consuming) archive(state, command, input)
  for (const other of others) archive(state, command, other)
  const agreed = new Set([actor, ...signatories, ...others.flatMap((other) => other.signatories)])
  for (const made of run.creates) create(state, command, made, agreed, path)
}

/** The effects of commands, in order. @throws LedgerError whose field begins with the command's number */
export function interpret(commands: readonly Command[], scene: Scene): Effect[] {
  const state: State = { scene, effects: [], consumed: new Set(), created: 0, chars: 0 }
  const alone = new Set([scene.actor])
  for (const [index, command] of commands.entries()) {
    if ('create' in command) create(state, index, command.create, alone, `${index}.create`)
    else exercise(state, index, command.exercise)
  }
  return state.effects
}
