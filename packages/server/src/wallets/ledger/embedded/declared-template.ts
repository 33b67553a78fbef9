import { createHash } from 'node:crypto'
import type { Arguments, Value } from '../../../platform/ports/ledger.ts'
import { canonicalJson } from '../../../platform/security/canonical-json.ts'
import type { Field, Fields, FieldType } from './fields.ts'
import { type Choice, listOf, type NewContract, type Template } from './template.ts'

/** Where the value of a created contract's field comes from: the contract, the choice's arguments, or the template. */
type Source = { field: string } | { argument: string } | { value: string }

/** A template as data: what a tenant declares. Never code. */
export interface Definition {
  templateId: string
  description?: string
  fields: Record<string, Field>
  /** Fields that hold a party, or parties, who sign. */
  signatories: string[]
  observers?: string[]
  choices?: Record<string, ChoiceDefinition>
}

interface ChoiceDefinition {
  /** Fields that hold the parties who must act. */
  controllers: string[]
  arguments?: Record<string, Field>
  /** Whether the choice archives the contract. Default: true. */
  consuming?: boolean
  creates?: { templateId: string; arguments: Record<string, Source> }[]
}

/** An error in a definition: the field and the message. */
export interface Flaw {
  field: string
  message: string
}

function partiesIn(contract: Arguments, names: readonly string[]): string[] {
  return names.flatMap((name) => {
    const value = Object.hasOwn(contract, name) ? contract[name] : []
    return typeof value === 'string' ? [value] : listOf(contract, name)
  })
}

function sourced(source: Source, contract: Arguments, given: Arguments): Value | undefined {
  if ('value' in source) return source.value
  const [from, name] = 'field' in source ? [contract, source.field] : [given, source.argument]
  return Object.hasOwn(from, name) ? from[name] : undefined
}

function choiceOf(definition: ChoiceDefinition): Choice {
  const creates = definition.creates ?? []
  return {
    fields: definition.arguments ?? {},
    consuming: definition.consuming ?? true,
    controllers: (contract) => partiesIn(contract, definition.controllers),
    consequences: [...new Set(creates.map((each) => each.templateId))],
    run: ({ contract, arguments: given }) => ({
      arguments: given,
      creates: creates.map(({ templateId, arguments: sources }): NewContract => {
        const values = Object.entries(sources).map(
          ([name, source]) => [name, sourced(source, contract, given)] as const,
        )
        return {
          templateId,
          arguments: Object.fromEntries(
            values.filter((entry): entry is [string, string | string[]] => entry[1] !== undefined),
          ),
        }
      }),
    }),
  }
}

/** Builds the template of a valid definition. */
export function declaredTemplate(definition: Definition): Template {
  return {
    templateId: definition.templateId,
    definition: createHash('sha256').update(canonicalJson(definition)).digest('hex'),
    fields: definition.fields,
    signatories: (contract) => partiesIn(contract, definition.signatories),
    observers: (contract) => partiesIn(contract, definition.observers ?? []),
    choices: new Map(Object.entries(definition.choices ?? {}).map(([name, choice]) => [name, choiceOf(choice)])),
  }
}

const isParty = (type: FieldType) => type === 'party' || type === 'parties'
const own = (fields: Fields, name: string): Field | undefined =>
  Object.hasOwn(fields, name) ? fields[name] : undefined

/** Fields of signatories and controllers must hold parties and be required: an empty list would require nobody. */
function partyFlaws(fields: Fields, names: readonly string[], at: string, needed: boolean): Flaw[] {
  return names.flatMap((name, index) => {
    const field = own(fields, name)
    const message =
      field === undefined || !isParty(field.type)
        ? `"${name}" must be a field of this template of type party or parties.`
        : needed && (field.optional === true || field.type === 'parties')
          ? `"${name}" can be empty. Use a field of type party that is not optional.`
          : null
    return message === null ? [] : [{ field: `${at}.${index}`, message }]
  })
}

function sourceFlaw(source: Source, target: Field, fields: Fields, given: Fields): string | null {
  if ('value' in source) return target.type === 'text' ? null : 'Only a field of type text can have a fixed value.'
  const from = 'field' in source ? own(fields, source.field) : own(given, source.argument)
  if (from === undefined) return 'Must name a field or an argument of this template.'
  if (from.type !== target.type) return `Has type ${from.type}, but the field has type ${target.type}.`
  return from.optional === true && target.optional !== true ? 'Is optional, but the field is required.' : null
}

function createFlaws(
  fields: Fields,
  given: Fields,
  { templateId, arguments: sources }: { templateId: string; arguments: Record<string, Source> },
  known: (templateId: string) => Fields | undefined,
  at: string,
): Flaw[] {
  const targets = known(templateId)
  if (targets === undefined)
    return [{ field: `${at}.templateId`, message: `This ledger has no template "${templateId}".` }]
  const flaws: Flaw[] = []
  for (const [name, source] of Object.entries(sources)) {
    const target = own(targets, name)
    const message =
      target === undefined ? `${templateId} has no field with this name.` : sourceFlaw(source, target, fields, given)
    if (message !== null) flaws.push({ field: `${at}.arguments.${name}`, message })
  }
  for (const [name, target] of Object.entries(targets)) {
    if (target.optional !== true && !Object.hasOwn(sources, name))
      flaws.push({ field: `${at}.arguments.${name}`, message: `${templateId} requires this field.` })
  }
  return flaws
}

/** Checks rules that a definition's schema cannot express. `known` returns the fields of the ledger's other templates. */
export function flawsOf(definition: Definition, known: (templateId: string) => Fields | undefined): Flaw[] {
  const { fields } = definition
  const withItself = (id: string) => (id === definition.templateId ? fields : known(id))
  const flaws = [
    ...partyFlaws(fields, definition.signatories, 'signatories', true),
    ...partyFlaws(fields, definition.observers ?? [], 'observers', false),
  ]
  for (const [name, choice] of Object.entries(definition.choices ?? {})) {
    const at = `choices.${name}`
    flaws.push(...partyFlaws(fields, choice.controllers, `${at}.controllers`, true))
    for (const [index, created] of (choice.creates ?? []).entries())
      flaws.push(...createFlaws(fields, choice.arguments ?? {}, created, withItself, `${at}.creates.${index}`))
  }
  return flaws
}

/** The other templates that a definition creates contracts of. */
export function createdBy(definition: Definition): string[] {
  return Object.values(definition.choices ?? {}).flatMap((choice) =>
    (choice.creates ?? []).map((each) => each.templateId),
  )
}
