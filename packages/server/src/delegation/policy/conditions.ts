import type { ErrorDetail } from '../../platform/http/errors.ts'
import { parseAmount } from '../../platform/ports/amount.ts'
import type { Arguments } from '../../platform/ports/ledger.ts'
import type { Condition } from './policy-schema.ts'

/** The side of a policy that a condition is on. A condition that cannot be evaluated never allows, and always denies. */
export type Side = 'allow' | 'deny'

/** A text by its value. */
interface Scalar {
  kind: 'amount' | 'time' | 'text'
  /** Base units of an amount, microseconds of a time. */
  units: bigint
  /** Equal for texts with the same value. */
  key: string
  text: string
}

/** A compiled condition. */
export interface CompiledCondition {
  path: readonly string[]
  source: Condition
  /** Whether one value matches; null if the two cannot be compared. */
  fits: (value: Scalar) => boolean | null
}

/** How many comparisons are left, for all that share this budget. */
export interface Budget {
  comparisons: number
}

/** Arguments for conditions. Each value is parsed once, however many conditions read it. */
export interface Reading {
  given: Arguments
  /** By path; null if there is nothing to compare. */
  values: Map<string, readonly Scalar[] | null>
  budget: Budget
}

const TIME = /^(\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2})(?:\.(\d{1,6}))?(Z|[+-]\d{2}:\d{2})$/
const SHOWN_CHARS_MAX = 80

/** An ISO 8601 time in microseconds; null for other texts. */
function parseTime(text: string): bigint | null {
  const match = TIME.exec(text)
  if (match === null) return null
  const [, base = '', fraction = '', zone = ''] = match
  const local = Date.parse(`${base}Z`)
  const time = Date.parse(base + zone)
  // `Date.parse` accepts hour 24, and may accept February 30 as a day in March.
  if (Number.isNaN(local) || Number.isNaN(time) || !new Date(local).toISOString().startsWith(base)) return null
  return BigInt(time) * 1_000n + BigInt(fraction.padEnd(6, '0'))
}

function scalarOf(text: string): Scalar {
  const first = text.charCodeAt(0)
  // Only texts that begin with a digit can be an amount or a time. Most texts are parties.
  if (first >= 0x30 && first <= 0x39) {
    const units = parseAmount(text)
    if (units !== null) return { kind: 'amount', units, key: `amount ${units}`, text }
    const micros = parseTime(text)
    if (micros !== null) return { kind: 'time', units: micros, key: `time ${micros}`, text }
  }
  return { kind: 'text', units: 0n, key: `text ${text}`, text }
}

/** Whether two texts are equal: amounts and times by value ('5.0' equals '5'), other texts exactly. */
export function sameText(a: string, b: string): boolean {
  return a === b || scalarOf(a).key === scalarOf(b).key
}

function fitting({ op, value }: Condition): CompiledCondition['fits'] {
  if (op === 'in' || op === 'not_in') {
    const keys = new Set([value].flat().map((entry) => scalarOf(entry).key))
    return ({ key }) => keys.has(key) === (op === 'in')
  }
  const bound = scalarOf(String(value))
  if (op === 'eq' || op === 'ne') return ({ key }) => (key === bound.key) === (op === 'eq')
  const compare = {
    lt: (units: bigint) => units < bound.units,
    lte: (units: bigint) => units <= bound.units,
    gt: (units: bigint) => units > bound.units,
    gte: (units: bigint) => units >= bound.units,
  }[op]
  return ({ kind, units }) => (kind === 'text' || kind !== bound.kind ? null : compare(units))
}

/** Compiles conditions, so that evaluating them is cheap. They have passed `checkConditions`. */
export function compileConditions(conditions: readonly Condition[]): CompiledCondition[] {
  return conditions.map((source) => ({ path: source.path.split('.'), source, fits: fitting(source) }))
}

/** Starts to read arguments. When the budget is used up, conditions can no longer be evaluated. */
export function read(given: Arguments, budget: Budget = { comparisons: Number.POSITIVE_INFINITY }): Reading {
  return { given, values: new Map(), budget }
}

/** The value at a path; null if there is none, or if it is neither a text nor a list of texts. */
function find(given: Arguments, path: readonly string[]): readonly Scalar[] | null {
  let value: unknown = given
  for (const name of path) {
    // Inherited properties are not arguments.
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, name)) return null
    value = (value as { [field: string]: unknown })[name]
  }
  const texts: unknown[] = Array.isArray(value) ? value : [value]
  return texts.every((text) => typeof text === 'string') ? texts.map(scalarOf) : null
}

function valuesOf({ path, source }: CompiledCondition, reading: Reading): readonly Scalar[] | null {
  const known = reading.values.get(source.path)
  if (known !== undefined) return known
  const values = find(reading.given, path)
  reading.values.set(source.path, values)
  return values
}

/**
 * Whether a condition is met. Every element of a list must match to allow, and one is enough to deny. An empty list is
 * treated like an absent value: it never allows and always denies.
 */
export function isMet(condition: CompiledCondition, reading: Reading, side: Side): boolean {
  const values = valuesOf(condition, reading)
  reading.budget.comparisons -= Math.max(1, values?.length ?? 0)
  if (values === null || values.length === 0) return side === 'deny'
  if (reading.budget.comparisons < 0) return side === 'deny'
  const { fits } = condition
  return side === 'allow'
    ? values.every((value) => fits(value) === true)
    : values.some((value) => fits(value) !== false)
}

/** Whether arguments, or a contract's fields, match all conditions, by the rules of the allow side. */
export function matches(conditions: readonly CompiledCondition[], given: Arguments): boolean {
  const reading = read(given)
  return conditions.every((condition) => isMet(condition, reading, 'allow'))
}

const shown = (text: string) =>
  JSON.stringify(text.length > SHOWN_CHARS_MAX ? `${text.slice(0, SHOWN_CHARS_MAX)}…` : text)

const WANTED: Record<Condition['op'], string> = {
  eq: '',
  ne: 'anything but ',
  in: 'one of ',
  not_in: 'none of ',
  lt: 'less than ',
  lte: 'at most ',
  gt: 'more than ',
  gte: 'at least ',
}

/** Describes the value of an argument, and what a condition requires. */
export function conditionWords(condition: CompiledCondition, reading: Reading): string {
  const { path, source, fits } = condition
  const values = valuesOf(condition, reading)
  const [first] = values ?? []
  const is =
    values === null
      ? 'absent, or not a text'
      : first === undefined
        ? 'an empty list'
        : values.length === 1
          ? shown(first.text)
          : `a list of ${values.length} (${shown(first.text)}, …)`
  const wanted = Array.isArray(source.value)
    ? `${WANTED[source.op]}${source.value.length} listed values`
    : WANTED[source.op] + shown(source.value)
  const compared = values?.some((value) => fits(value) === null) ? ', and the two cannot be compared' : ''
  return `${path.join('.')} is ${is}; required: ${wanted}${compared}`
}

/** Checks rules for conditions that a schema cannot express. `field` is the list's own name, `policy.allow.0.where`. */
export function checkConditions(conditions: readonly Condition[], field: string): ErrorDetail[] {
  return conditions.flatMap(({ op, value }, index) => {
    const wrong = (message: string): ErrorDetail[] => [{ field: `${field}.${index}.value`, code: 'invalid', message }]
    if (op === 'in' || op === 'not_in') return Array.isArray(value) ? [] : wrong(`Must be a list of texts for ${op}.`)
    if (Array.isArray(value)) return wrong(`Must be one text for ${op}.`)
    if (op === 'eq' || op === 'ne' || scalarOf(value).kind !== 'text') return []
    return wrong(`Must be an amount such as "100.00", or a time such as 2026-11-21T08:30:00.000Z, for ${op}.`)
  })
}
