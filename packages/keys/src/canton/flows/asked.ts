import { CantonError } from '../errors.ts'
import type { HashingScheme } from '../hash.ts'
import type { Json } from '../json.ts'
import { type CreateView, type ExerciseView, type NodeView, nodesOf } from '../view.ts'
import type { CantonTransaction } from './transaction.ts'

/** A command, as the API takes it. */
type CantonCommand =
  | { create: { templateId: string; arguments?: object } }
  | { exercise: { templateId: string; contractId: string; choice: string; arguments?: object } }

/** Whether this is one command. Everything but its form is compared with what was prepared. */
function isCommand(given: unknown): given is CantonCommand {
  const [[kind, of] = [], ...others] = Object.entries(given ?? {})
  return (kind === 'create' || kind === 'exercise') && typeof of === 'object' && of !== null && others.length === 0
}

/** What else a transaction may do than its command says. Nobody but its author can know what a choice of Daml does. */
export interface AlsoAllowed {
  /** Templates, by their ids, that its consequences may create contracts of. That of the command always is one. */
  templates?: readonly string[]
  /** Choices that it may exercise besides the command's; of an interface, by the interface's id. */
  choices?: readonly { templateId: string; choice: string }[]
  /** Arguments of the command that the service may fill in, such as `extraArgs` of the token standard's choices. */
  filled?: readonly string[]
  /** Parties that new contracts may be for, and that may see choices, besides the wallet's, those that the command names, and those of the contracts it uses. */
  parties?: readonly string[]
}

/** What was asked for. */
export interface Asked {
  /** Session id, slash, command id. */
  commandId: string
  commands: readonly unknown[]
  /** Fingerprint of the wallet's key: the namespace of the party. */
  namespace: string
  /** Id of the synchronizer that it must be for, where it is known. */
  synchronizer?: string | undefined
  /** How it must be hashed, where that is known. */
  hashVersion?: HashingScheme | undefined
  also?: AlsoAllowed | undefined
  now: number
}

/** How long after now it may still happen. The service allows two minutes; the rest is for wrong clocks. */
const EXPIRY_MAX_MS = 10 * 60_000

function refuse(what: string): never {
  throw new CantonError('not_asked', what)
}

/** Numerics come with all decimals of their type: a given `3` comes back as `3.0000000000`. */
const shortest = (text: string) => (/^-?\d+\.\d*$/.test(text) ? text.replace(/\.?0*$/, '') : text)

/**
 * Whether a value of a prepared transaction is the given one, written by the participant in its way: numerics have all their decimals. What
 * was not given must be absent.
 */
export function isGiven(given: unknown, found: Json | undefined): boolean {
  if (given === undefined || given === null) return found === null || found === undefined
  if (typeof given === 'string')
    return (
      typeof found === 'string' && (given === found || (found.includes('.') && shortest(given) === shortest(found)))
    )
  if (typeof given !== 'object' || typeof found !== 'object' || found === null) return given === found
  if (Array.isArray(given) || Array.isArray(found))
    return (
      Array.isArray(given) &&
      Array.isArray(found) &&
      given.length === found.length &&
      given.every((each, at) => isGiven(each, found[at]))
    )
  const [wanted, had] = [new Map(Object.entries(given)), new Map<string, Json>(Object.entries(found))]
  return [...new Set([...wanted.keys(), ...had.keys()])].every((name) => isGiven(wanted.get(name), had.get(name)))
}

/** An interface's choice is another one than the template's of the same name. */
const exercisedId = ({ interfaceId, templateId }: ExerciseView) => interfaceId ?? templateId

function isRoot(node: NodeView, command: CantonCommand, filled: readonly string[]): boolean {
  if ('create' in command)
    return (
      node.kind === 'create' &&
      node.templateId === command.create.templateId &&
      isGiven(command.create.arguments ?? {}, node.arguments)
    )
  const { templateId, contractId, choice, arguments: given } = command.exercise
  return (
    node.kind === 'exercise' &&
    exercisedId(node) === templateId &&
    node.contractId === contractId &&
    node.choice === choice &&
    isGiven(given ?? {}, withoutFilled(node.arguments, given, filled))
  )
}

/** A choice's arguments without those that were left to the service. */
const withoutFilled = (made: Json, given: object | undefined, filled: readonly string[]): Json =>
  typeof made !== 'object' || made === null || Array.isArray(made)
    ? made
    : Object.fromEntries(
        Object.entries(made).filter(([name]) => !filled.includes(name) || Object.hasOwn(given ?? {}, name)),
      )

/** All texts in a value: the parties and contracts that a command names are among them. */
function textsIn(value: unknown): string[] {
  if (typeof value === 'string') return [value]
  return typeof value === 'object' && value !== null ? Object.values(value).flatMap(textsIn) : []
}

/** What a transaction's consequences may touch. */
interface Bounds {
  templates: ReadonlySet<string>
  choices: readonly { templateId: string; choice: string }[]
  parties: ReadonlySet<string>
  /** Contracts that may be used up; those that the transaction makes come to it. */
  contracts: Set<string>
}

function boundsOf({ view }: CantonTransaction, command: CantonCommand, party: string, also: AlsoAllowed): Bounds {
  const { templateId, arguments: given } = 'create' in command ? command.create : command.exercise
  const named = textsIn(given)
  const contracts = new Set(named)
  if ('exercise' in command) contracts.add(command.exercise.contractId)
  const used = view.inputs.filter(({ contractId }) => contracts.has(contractId))
  return {
    templates: new Set([templateId, ...used.map((contract) => contract.templateId), ...(also.templates ?? [])]),
    choices: also.choices ?? [],
    parties: new Set([
      party,
      ...named,
      ...used.flatMap(({ signatories, observers }) => [...signatories, ...observers]),
      ...(also.parties ?? []),
    ]),
    contracts,
  }
}

function checkCreated({ templateId, contractId, signatories, observers }: CreateView, bounds: Bounds): void {
  if (!bounds.templates.has(templateId)) refuse(`it also creates a contract of ${templateId}`)
  const stranger = [...signatories, ...observers].find((party) => !bounds.parties.has(party))
  if (stranger !== undefined) refuse(`it creates a contract for ${stranger}, who was not named`)
  bounds.contracts.add(contractId)
}

function checkExercised(node: ExerciseView, bounds: Bounds, isAsked: boolean): void {
  const isAllowed = bounds.choices.some(
    ({ templateId, choice }) => templateId === exercisedId(node) && choice === node.choice,
  )
  if (!isAsked && !isAllowed) refuse(`it also exercises ${node.choice} on ${exercisedId(node)}`)
  const stranger = node.choiceObservers.find((party) => !bounds.parties.has(party))
  if (stranger !== undefined) refuse(`it shows what happens to ${stranger}, who was not named`)
  if (node.consuming && !bounds.contracts.has(node.contractId))
    refuse(`it uses up the contract ${node.contractId}, which was not named`)
}

/**
 * Checks that a transaction is the requested one: exactly this command, by the wallet's party alone, soon over, and with no
 * consequences but contracts of its template and of those it uses, for parties that the command or these name. Whatever
 * cannot be judged is refused. @throws CantonError `not_asked`
 */
export function requireAsked(transaction: CantonTransaction, asked: Asked): void {
  const { view, commandId } = transaction
  const [command, ...moreCommands] = asked.commands
  if (!isCommand(command) || moreCommands.length > 0) refuse('a transaction on Canton has exactly one command')
  if (commandId !== asked.commandId) refuse('it has another command id')
  const [party, ...others] = view.actAs
  if (party === undefined || others.length > 0 || party.split('::')[1] !== asked.namespace)
    refuse('another party than the wallet’s would act')
  if (asked.synchronizer !== undefined && view.synchronizerId !== asked.synchronizer)
    refuse(`it is for another synchronizer, ${view.synchronizerId}`)
  if (asked.hashVersion !== undefined && view.scheme !== asked.hashVersion) refuse(`it is hashed by ${view.scheme}`)
  if (view.maxRecordTime === undefined || !(Date.parse(view.maxRecordTime) <= asked.now + EXPIRY_MAX_MS))
    refuse('it could still happen long after now')
  const [root, ...moreRoots] = view.roots
  if (root === undefined || !isRoot(root, command, asked.also?.filled ?? []))
    refuse('it does not do what was asked for')
  if (moreRoots.length > 0) refuse('it does more than was asked for')
  if (root.kind === 'exercise' && (root.actingParties.length !== 1 || root.actingParties[0] !== party))
    refuse('another party than the wallet’s would act')
  const bounds = boundsOf(transaction, command, party, asked.also ?? {})
  for (const node of nodesOf(view.roots))
    if (node.kind === 'create') checkCreated(node, bounds)
    else if (node.kind === 'exercise') checkExercised(node, bounds, node === root)
    else if (node.kind !== 'fetch') refuse('a part of it cannot be judged: it is undone, or looked up by a key')
}
