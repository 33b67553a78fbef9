import { parseAmount } from '../../../platform/ports/amount.ts'
import { type Arguments, type Command, type Effect, type Flow, LedgerError } from '../../../platform/ports/ledger.ts'
import { recipientsOfAll } from '../../../platform/ports/recipients.ts'
import {
  type CreateView,
  type ExerciseView,
  type InputView,
  type Json,
  type NodeView,
  nodesOf,
  type PreparedView,
} from './bytes.ts'
import type { CantonAsset } from './settings.ts'

const EFFECTS_MAX = 1_000

/** @throws LedgerError prepared_invalid */
export function refuse(what: string): never {
  throw new LedgerError('prepared_invalid', `The prepared transaction ${what}.`)
}

function argumentsOf(given: Json): Arguments {
  if (typeof given !== 'object' || given === null || Array.isArray(given))
    return refuse('has arguments that are not a record')
  return given as Arguments
}

/** An interface's choice is another one than the template's of the same name. */
const exercisedId = ({ interfaceId, templateId }: ExerciseView) => interfaceId ?? templateId

const created = (node: CreateView, command: number): Effect => ({
  type: 'created',
  command,
  contractId: node.contractId,
  templateId: node.templateId,
  choice: null,
  arguments: argumentsOf(node.arguments),
  signatories: [...node.signatories],
  observers: [...node.observers],
})

function exercised(node: ExerciseView, command: number): Effect[] {
  const { contractId, templateId } = node
  const parties = { signatories: [...node.signatories], observers: [...node.observers] }
  const root: Effect = {
    type: 'exercised',
    command,
    contractId,
    templateId: exercisedId(node),
    choice: node.choice,
    arguments: argumentsOf(node.arguments),
    ...parties,
  }
  if (!node.consuming) return [root]
  return [root, { ...root, type: 'archived', templateId, choice: null, arguments: {} }]
}

/** Reads change nothing. What is undone, and what is looked up by a key, no policy can judge. */
function effectsOfNode(node: NodeView, command: number): Effect[] {
  switch (node.kind) {
    case 'create':
      return [created(node, command)]
    case 'exercise':
      return exercised(node, command)
    case 'fetch':
      return []
    case 'rollback':
      return refuse('undoes a part of itself, which is not supported')
    case 'query':
      return refuse('looks contracts up by a key, which is not supported')
  }
}

/** All that a transaction does, each root followed by its consequences. @throws LedgerError prepared_invalid */
export function effectsOf({ roots }: PreparedView): Effect[] {
  const effects = roots.flatMap((root, command) => [...nodesOf([root])].flatMap((node) => effectsOfNode(node, command)))
  return effects.length > EFFECTS_MAX ? refuse(`has more than ${EFFECTS_MAX} effects`) : effects
}

/** The commands that have these roots. @throws LedgerError prepared_invalid for a root that no command has, or another's */
export function commandsOf({ roots, actAs }: PreparedView): Command[] {
  return roots.map((root): Command => {
    if (root.kind === 'create')
      return { create: { templateId: root.templateId, arguments: argumentsOf(root.arguments) } }
    if (root.kind !== 'exercise') return refuse('does what no command requests')
    if (root.actingParties.length !== 1 || root.actingParties[0] !== actAs[0]) refuse('is exercised by another party')
    return {
      exercise: {
        templateId: exercisedId(root),
        contractId: root.contractId,
        choice: root.choice,
        arguments: argumentsOf(root.arguments),
      },
    }
  })
}

/** A field of a contract that holds an asset. */
function textAt(contract: Json, field: string): string {
  let value = contract
  for (const name of field.split('.')) {
    const given = argumentsOf(value)
    value = (Object.hasOwn(given, name) ? given[name] : undefined) ?? refuse(`has a holding without "${field}"`)
  }
  return typeof value === 'string' ? value : refuse(`has a holding without the text "${field}"`)
}

/** Some templates are of one asset, and have no field that says which. */
const symbolOf = ({ symbol }: CantonAsset, contract: Json) =>
  typeof symbol === 'string' ? textAt(contract, symbol) : symbol.is

/** Numerics come with all decimals of their type, which may be more than amounts have, or a point at the end. */
export const shortestNumeric = (text: string): string => (text.includes('.') ? text.replace(/\.?0*$/, '') : text)

function unitsOf(text: string): bigint {
  return (
    parseAmount(shortestNumeric(text)) ??
    refuse('has a holding whose amount is not a positive number of at most ten decimals')
  )
}

/** What a command creates without an owner. */
interface Open {
  /** Contracts of templates that the settings name without `owner`, or do not name. */
  contracts: readonly CreateView[]
  /** Whether the settings do not name one of these templates. */
  hasUnlisted: boolean
}

/**
 * Who may be paid by what a command creates without an owner. Who may take an offer can be said in a contract beside it, so everybody
 * counts who sees one of these contracts.
 */
function payees(open: readonly Open[], payer: string): (command: number, issuer: string) => readonly string[] {
  const known = new Map<string, readonly string[]>()
  return (command, issuer) => {
    const key = JSON.stringify([command, issuer])
    const found = known.get(key) ?? recipientsOfAll(open[command]?.contracts ?? [], payer, issuer)
    known.set(key, found)
    return found
  }
}

/**
 * What commands take out of the holdings that the settings name, where they create contracts that the settings do not name. Other
 * commands burn what is missing, such as a fee: nobody gets that.
 */
function leaving(flows: readonly Flow[], open: readonly Open[], seenBy: ReturnType<typeof payees>): Flow[] {
  const left = new Map<string, Flow>()
  for (const { command, asset, consumed, created } of flows) {
    if (open[command]?.hasUnlisted !== true) continue
    const key = JSON.stringify([command, asset.issuer, asset.symbol])
    const before = left.get(key)?.created ?? 0n
    left.set(key, {
      command,
      asset,
      owner: null,
      seenBy: seenBy(command, asset.issuer),
      consumed: 0n,
      created: before + consumed - created,
    })
  }
  return [...left.values()].filter(({ created }) => created > 0n)
}

/** What a transaction moves of the assets that the settings name. @throws LedgerError prepared_invalid */
export function flowsOf(view: PreparedView, assets: readonly CantonAsset[]): Flow[] {
  const byTemplate = new Map(assets.map((asset) => [asset.templateId, asset]))
  const contents = new Map<string, Pick<InputView | CreateView, 'templateId' | 'arguments'>>()
  // With two contents of one contract, the cheaper one would count.
  const know = (contract: InputView | CreateView) =>
    contents.has(contract.contractId) ? refuse('has a contract twice') : contents.set(contract.contractId, contract)
  for (const input of view.inputs) know(input)
  const flowOf = (templateId: string, contract: Json, command: number): Flow | null => {
    const asset = byTemplate.get(templateId)
    if (asset === undefined) return null
    const units = unitsOf(textAt(contract, asset.amount))
    const owner = asset.owner === undefined ? null : textAt(contract, asset.owner)
    const of = { issuer: textAt(contract, asset.issuer), symbol: symbolOf(asset, contract) }
    return { command, asset: of, owner, consumed: 0n, created: units }
  }
  const consumedBy = ({ contractId, templateId }: ExerciseView, command: number): Flow | null => {
    const contract = contents.get(contractId)
    if (contract === undefined)
      return byTemplate.has(templateId) ? refuse('uses up a holding of unknown contents') : null
    // After an upgrade of its package a contract can be used by another template than the one that made it.
    const isAsset = byTemplate.has(templateId) || byTemplate.has(contract.templateId)
    if (isAsset && templateId !== contract.templateId) refuse('uses up a holding by another template')
    const flow = flowOf(templateId, contract.arguments, command)
    return flow && { ...flow, consumed: flow.created, created: 0n }
  }
  const flows: Flow[] = []
  for (const [command, root] of view.roots.entries())
    for (const node of nodesOf([root])) {
      if (node.kind === 'create') know(node)
      const flow =
        node.kind === 'create'
          ? flowOf(node.templateId, node.arguments, command)
          : node.kind === 'exercise' && node.consuming
            ? consumedBy(node, command)
            : null
      if (flow !== null) flows.push(flow)
    }
  const payer = view.actAs[0] ?? refuse('has nobody who acts')
  const open = view.roots.map((root): Open => {
    const made = [...nodesOf([root])].filter((node): node is CreateView => node.kind === 'create')
    return {
      contracts: made.filter(({ templateId }) => byTemplate.get(templateId)?.owner === undefined),
      hasUnlisted: made.some(({ templateId }) => !byTemplate.has(templateId)),
    }
  })
  const seenBy = payees(open, payer)
  const shown = flows.map((flow) =>
    flow.owner === null && flow.created > 0n ? { ...flow, seenBy: seenBy(flow.command, flow.asset.issuer) } : flow,
  )
  return [...shown, ...leaving(flows, open, seenBy)]
}
