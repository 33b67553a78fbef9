import { randomBytes } from 'node:crypto'
import type { Id, LfCreate, LfNode, LfValue, Model } from '../../../keys/test/canton/model.ts'

/*
 * Templates as a participant would interpret them: values are typed, controllers must act, signatories must agree, and each
 * command becomes a tree of nodes.
 */

/** The hash of the code, as it stands before each template's name. */
const PACKAGE = 'c0'.repeat(32)
export const COIN = `${PACKAGE}:Test.Coin:Coin`
export const RELAY = `${PACKAGE}:Test.Coin:Relay`
/** Holds a part of a coin, and no setting says so. */
export const ESCROW = `${PACKAGE}:Test.Coin:Escrow`
/** Tells somebody of a coin that is divided. */
export const RECEIPT = `${PACKAGE}:Test.Coin:Receipt`
export const MEMO = `${PACKAGE}:Test.Memo:Memo`

type Type =
  | 'party'
  | 'text'
  | 'numeric'
  | 'int64'
  | 'bool'
  | 'contract_id'
  | 'time'
  | 'any'
  | { text_map: Type }
  | { list: Type }
  | { optional: Type }
  | { record: string; fields: Fields }
export type Fields = Readonly<Record<string, Type>>
export type Given = Readonly<Record<string, unknown>>

export interface Choice {
  consuming: boolean
  fields: Fields
  controllers(contract: Given, given: Given): string[]
  /** What it returns, as the participant tells it. */
  result?: unknown
  run(builder: Builder, contract: Given, given: Given, contractId: string): void
}

export interface Template {
  fields: Fields
  signatories(contract: Given): string[]
  observers(contract: Given): string[]
  choices: Readonly<Record<string, Choice>>
  /** Choices of interfaces that the template implements, by the interface's id. */
  interfaces?: Readonly<Record<string, Readonly<Record<string, Choice>>>>
  /** What interfaces show of a contract, by the interface's id. */
  views?: Readonly<Record<string, (contract: Given) => unknown>>
}

/** A refusal with Canton's error code id and category. */
export class Refused extends Error {
  readonly code: string
  readonly category: number
  constructor(code: string, category: number, cause: string) {
    super(cause)
    this.code = code
    this.category = category
  }
}

const DECIMALS = 10
export const units = (text: unknown): bigint => {
  const [whole = '', fraction = ''] = String(text).split('.')
  return BigInt(whole + fraction.padEnd(DECIMALS, '0'))
}
export const numeric = (value: bigint): string => {
  const digits = value.toString().padStart(DECIMALS + 1, '0')
  return `${digits.slice(0, -DECIMALS)}.${digits.slice(-DECIMALS)}`
}

export const archive = (controllers: Choice['controllers']): Choice => ({
  consuming: true,
  fields: {},
  controllers,
  run: () => undefined,
})

const TEMPLATES: Record<string, Template> = {
  [COIN]: {
    fields: { issuer: 'party', owner: 'party', symbol: 'text', amount: 'numeric' },
    signatories: ({ issuer }) => [issuer as string],
    observers: ({ owner }) => [owner as string],
    choices: {
      Transfer: {
        consuming: true,
        fields: { receiver: 'party', amount: 'numeric' },
        controllers: ({ owner }) => [owner as string],
        run(builder, coin, { receiver, amount }) {
          const rest = units(coin.amount) - units(amount)
          if (units(amount) <= 0n || rest < 0n)
            throw new Refused('DAML_FAILURE', 9, 'the amount is not one that the coin has')
          builder.create(COIN, { ...coin, owner: receiver, amount })
          if (rest > 0n) builder.create(COIN, { ...coin, amount: numeric(rest) })
        },
      },
      /** Pays one part, gives one to each keeper, burns one as a fee, keeps the rest, and tells readers. Parts of nothing are not made. */
      Divide: {
        consuming: true,
        fields: {
          receiver: 'party',
          amount: 'numeric',
          keepers: { list: 'party' },
          kept: 'numeric',
          fee: 'numeric',
          readers: { list: 'party' },
        },
        controllers: ({ owner }) => [owner as string],
        run(builder, coin, { receiver, amount, keepers, kept, fee, readers }) {
          const { issuer, owner } = coin
          const all = keepers as string[]
          const rest = units(coin.amount) - units(amount) - units(kept) * BigInt(all.length) - units(fee)
          if (units(amount) > 0n) builder.create(COIN, { ...coin, owner: receiver, amount })
          if (units(kept) > 0n)
            for (const keeper of all) builder.create(ESCROW, { issuer, owner, keeper, amount: kept })
          for (const reader of readers as string[]) builder.create(RECEIPT, { issuer, owner, reader })
          if (rest > 0n) builder.create(COIN, { ...coin, amount: numeric(rest) })
        },
      },
    },
  },
  [ESCROW]: {
    fields: { issuer: 'party', owner: 'party', keeper: 'party', amount: 'numeric' },
    signatories: ({ issuer, owner }) => [issuer as string, owner as string],
    observers: ({ keeper }) => [keeper as string],
    choices: {},
  },
  [RECEIPT]: {
    fields: { issuer: 'party', owner: 'party', reader: 'party' },
    signatories: ({ issuer, owner }) => [issuer as string, owner as string],
    observers: ({ reader }) => [reader as string],
    choices: {},
  },
  [RELAY]: {
    fields: { owner: 'party' },
    signatories: ({ owner }) => [owner as string],
    observers: () => [],
    choices: {
      Run: {
        consuming: false,
        fields: { coin: 'contract_id', receiver: 'party', amount: 'numeric' },
        controllers: ({ owner }) => [owner as string],
        run(builder, { owner }, { coin, receiver, amount }) {
          builder.exercise(COIN, coin as string, 'Transfer', { receiver, amount }, [owner as string])
        },
      },
    },
  },
  [MEMO]: {
    fields: {
      author: 'party',
      text: 'text',
      tags: { list: 'text' },
      detail: { optional: { record: 'Detail', fields: { count: 'int64', done: 'bool', next: { optional: 'text' } } } },
    },
    signatories: ({ author }) => [author as string],
    observers: () => [],
    choices: { Archive: archive(({ author }) => [author as string]) },
  },
}

/** Installs further templates. */
export const install = (templates: Readonly<Record<string, Template>>) => Object.assign(TEMPLATES, templates)

const idOf = (templateId: string): Id => {
  const [package_id = '', module_name = '', entity_name = ''] = templateId.split(':')
  return { package_id, module_name, entity_name }
}

const wrong = (field: string): never => {
  throw new Refused('COMMAND_PREPROCESSING_FAILED', 8, `the value of ${field} has another type`)
}

function text(value: unknown, field: string): string {
  return typeof value === 'string' ? value : wrong(field)
}

function lfValue(type: Type, value: unknown, field: string, of: Id): LfValue {
  if (type === 'party') return { party: text(value, field) }
  if (type === 'text') return { text: text(value, field) }
  if (type === 'contract_id') return { contract_id: text(value, field) }
  if (type === 'bool') return typeof value === 'boolean' ? { bool: value } : wrong(field)
  if (type === 'int64')
    return /^-?\d+$/.test(text(value, field)) ? { int64: String(BigInt(value as string)) } : wrong(field)
  if (type === 'numeric')
    return /^\d+(\.\d{1,10})?$/.test(text(value, field)) ? { numeric: numeric(units(value)) } : wrong(field)
  if (type === 'time') {
    const millis = Date.parse(text(value, field))
    return Number.isNaN(millis) ? wrong(field) : { timestamp: String(BigInt(millis) * 1000n) }
  }
  if (type === 'any') {
    const { tag, value: held } = value as { tag: string; value: unknown }
    if (tag === 'AV_ContractId') return { variant: { constructor: tag, value: { contract_id: text(held, field) } } }
    if (tag === 'AV_Text') return { variant: { constructor: tag, value: { text: text(held, field) } } }
    return wrong(field)
  }
  if ('text_map' in type) {
    if (typeof value !== 'object' || value === null) return wrong(field)
    const entries = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1))
    return {
      text_map: {
        entries: entries.map(([key, each]) => ({ key, value: lfValue(type.text_map, each, `${field}.${key}`, of) })),
      },
    }
  }
  if ('list' in type) {
    if (!Array.isArray(value)) return wrong(field)
    return { list: { elements: value.map((each, at) => lfValue(type.list, each, `${field}.${at}`, of)) } }
  }
  if ('optional' in type)
    return {
      optional: value === null || value === undefined ? {} : { value: lfValue(type.optional, value, field, of) },
    }
  if (typeof value !== 'object' || value === null) return wrong(field)
  return recordOf({ ...of, entity_name: type.record }, type.fields, value as Given, field)
}

function recordOf(of: Id, fields: Fields, given: Given, field: string): LfValue {
  for (const name of Object.keys(given)) if (!(name in fields)) wrong(`${field}.${name}`)
  return {
    record: {
      record_id: of,
      fields: Object.entries(fields).map(([label, type]) => ({
        label,
        value: lfValue(type, given[label], `${field}.${label}`, of),
      })),
    },
  }
}

/** A contract on the ledger. */
export interface Contract {
  contractId: string
  templateId: string
  fields: Given
  create: LfCreate
  /** Microseconds. */
  createdAt: string
  offset: number
}

export type JsonCommand =
  | { CreateCommand: { templateId: string; createArguments: Given } }
  | { ExerciseCommand: { templateId: string; contractId: string; choice: string; choiceArgument: Given } }

/** A choice that was exercised, as the participant tells it. */
export interface Exercised {
  contractId: string
  interfaceId?: string | null
  choice: string
  result: unknown
}

/** Interprets one transaction. */
class Builder {
  readonly nodes: Model['transaction']['nodes'] = []
  readonly seeds: Model['transaction']['node_seeds'] = []
  readonly made = new Map<string, Omit<Contract, 'offset' | 'createdAt'>>()
  readonly consumed: string[] = []
  readonly exercised: Exercised[] = []
  readonly inputs = new Map<string, Contract>()
  /** The children of the node that is being made. */
  #siblings: string[] = []
  readonly #find: (contractId: string) => Contract | undefined

  constructor(find: (contractId: string) => Contract | undefined) {
    this.#find = find
  }

  #add(node: LfNode): string {
    const id = String(this.nodes.length)
    this.nodes.push({ node_id: id, v1: node })
    this.seeds.push({ node_id: Number(id), seed: randomBytes(32).toString('hex') })
    this.#siblings.push(id)
    return id
  }

  /** The contents of a contract that the transaction may use. @throws Refused */
  read(contractId: string): Given {
    const contract = this.#find(contractId)
    if (contract === undefined)
      throw new Refused('CONTRACT_NOT_FOUND', 11, `Contract could not be found with id ${contractId}`)
    this.inputs.set(contractId, contract)
    return contract.fields
  }

  create(templateId: string, fields: Given): string {
    const template = templateOf(templateId)
    const contractId = `00${randomBytes(32).toString('hex')}ca12`
    const signatories = template.signatories(fields)
    const create: LfCreate = {
      lf_version: '2.1',
      contract_id: contractId,
      package_name: 'halfkey-test',
      template_id: idOf(templateId),
      argument: recordOf(idOf(templateId), template.fields, fields, 'createArguments'),
      signatories,
      stakeholders: [...new Set([...signatories, ...template.observers(fields)])],
    }
    this.made.set(contractId, { contractId, templateId, fields, create })
    return this.#add({ create })
  }

  exercise(templateId: string, contractId: string, choiceName: string, given: Given, acting: string[]): void {
    const contract = this.#find(contractId)
    const isInterface = Object.values(TEMPLATES).some(({ interfaces }) => interfaces?.[templateId] !== undefined)
    if (isInterface && contract === undefined)
      throw new Refused('CONTRACT_NOT_FOUND', 11, `Contract could not be found with id ${contractId}`)
    const template = templateOf(isInterface ? (contract as Contract).templateId : templateId)
    const choice = (isInterface ? template.interfaces?.[templateId] : template.choices)?.[choiceName]
    if (choice === undefined) throw new Refused('COMMAND_PREPROCESSING_FAILED', 8, `there is no choice ${choiceName}`)
    if (contract === undefined || (!isInterface && contract.templateId !== templateId))
      throw new Refused('CONTRACT_NOT_FOUND', 11, `Contract could not be found with id ${contractId}`)
    const controllers = choice.controllers(contract.fields, given)
    if (controllers.some((party) => !acting.includes(party)))
      throw new Refused('DAML_AUTHORIZATION_ERROR', 8, 'a controller does not act')
    this.inputs.set(contractId, contract)
    if (choice.consuming) this.consumed.push(contractId)
    const interfaceId = isInterface ? templateId : null
    this.exercised.push({ contractId, interfaceId, choice: choiceName, result: choice.result ?? {} })
    const { lf_version, package_name, template_id, signatories, stakeholders } = contract.create
    const children: string[] = []
    const argument = recordOf({ ...template_id, entity_name: choiceName }, choice.fields, given, 'choiceArgument')
    this.#add({
      exercise: {
        lf_version,
        contract_id: contractId,
        package_name,
        template_id,
        ...(isInterface && { interface_id: idOf(templateId) }),
        signatories,
        stakeholders,
        acting_parties: controllers,
        choice_id: choiceName,
        chosen_value: argument,
        consuming: choice.consuming,
        children,
        exercise_result: { unit: {} },
        choice_observers: [],
      },
    })
    const outer = this.#siblings
    this.#siblings = children
    choice.run(this, contract.fields, given, contractId)
    this.#siblings = outer
  }
}

function templateOf(templateId: string): Template {
  const template = TEMPLATES[templateId]
  if (template === undefined)
    throw new Refused('TEMPLATES_OR_INTERFACES_NOT_FOUND', 11, `there is no template ${templateId}`)
  return template
}

/** What an interface shows of a contract; undefined if its template does not implement it. */
export const viewOf = (templateId: string, interfaceId: string, fields: Given): unknown =>
  TEMPLATES[templateId]?.views?.[interfaceId]?.(fields)

/** What a command does, not yet done. */
export interface Interpreted {
  transaction: Model['transaction']
  inputs: Contract[]
  consumed: string[]
  exercised: Exercised[]
  made: Omit<Contract, 'offset' | 'createdAt'>[]
}

/** Interprets a command of a party. @throws Refused */
export function interpret(
  command: JsonCommand,
  actAs: string,
  find: (contractId: string) => Contract | undefined,
): Interpreted {
  const builder = new Builder(find)
  if ('CreateCommand' in command) {
    const { templateId, createArguments } = command.CreateCommand
    const { signatories } = templateOf(templateId)
    if (signatories(createArguments).some((party) => party !== actAs))
      throw new Refused('DAML_AUTHORIZATION_ERROR', 8, 'a signatory does not act')
    builder.create(templateId, createArguments)
  } else {
    const { templateId, contractId, choice, choiceArgument } = command.ExerciseCommand
    builder.exercise(templateId, contractId, choice, choiceArgument, [actAs])
  }
  return {
    transaction: { version: '2.1', roots: ['0'], nodes: builder.nodes, node_seeds: builder.seeds },
    inputs: [...builder.inputs.values()],
    consumed: builder.consumed,
    exercised: builder.exercised,
    made: [...builder.made.values()],
  }
}

/** A contract that an operator puts on the ledger, for tests. */
export function mint(templateId: string, fields: Given): Omit<Contract, 'offset' | 'createdAt'> {
  const builder = new Builder(() => undefined)
  builder.create(templateId, fields)
  return [...builder.made.values()][0] as Omit<Contract, 'offset' | 'createdAt'>
}
