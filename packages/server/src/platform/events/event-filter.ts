import { invalid } from '../http/errors.ts'
import { compareOrdered, DECIMAL_CHARS_MAX, type Ordered, orderedOf } from './ordered-values.ts'

const BYTES_MAX = 16 * 1024
const CONDITIONS_MAX = 64
const DEPTH_MAX = 8
const PATH_NAMES_MAX = 16
const VALUE_BYTES_MAX = 1024
const IN_VALUES_MAX = 100
const SHOWN_CHARS_MAX = 100
/** The members of an event as it is sent. */
const EVENT_MEMBERS = ['id', 'type', 'created_at', 'api_version', 'data']
const INDEX = /^(?:0|[1-9]\d{0,8})$/
const DIGITS = /^-?[\d.]+$/

/** A filter that was checked and can be applied. */
export interface EventFilter {
  matches(event: unknown): boolean
  /** What the first condition that decides against the event found; null if the event matches. */
  whyNot(event: unknown): string | null
}

/** A value of the event; undefined where there is none. */
type Test = (found: unknown) => boolean

interface Condition {
  kind: 'condition'
  at: string
  path: readonly string[]
  test: Test
  /** The comparison as JSON. */
  shown: string
}

type Node =
  | Condition
  | { kind: 'and' | 'or'; at: string; nodes: readonly Node[] }
  | { kind: 'not'; at: string; node: Node }

type Members = Record<string, unknown>

const isObject = (value: unknown): value is Members =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** JSON, short enough to show. */
function shortened(value: unknown): string {
  const text = JSON.stringify(value)
  return text.length > SHOWN_CHARS_MAX ? `${text.slice(0, SHOWN_CHARS_MAX).toWellFormed()}…` : text
}

function checkedPath(at: string, path: unknown): string[] {
  const names: unknown = typeof path === 'string' ? path.split('.') : path
  if (!Array.isArray(names) || !names.every((name): name is string => typeof name === 'string'))
    throw invalid(at, 'Must be names with dots between them, for example "data.total", or an array of names.')
  if (typeof path === 'string' && names.includes(''))
    throw invalid(at, 'A name between dots is empty. Write names that are empty or have a dot as an array of names.')
  if (names.length === 0 || names.length > PATH_NAMES_MAX)
    throw invalid(at, `Must have 1 to ${PATH_NAMES_MAX} names.`, 'too_many')
  if (Buffer.byteLength(names.join('.')) > VALUE_BYTES_MAX)
    throw invalid(at, `Must be at most ${VALUE_BYTES_MAX} bytes.`, 'too_large')
  if (!EVENT_MEMBERS.includes(names[0] as string))
    throw invalid(at, `Must begin with ${EVENT_MEMBERS.join(', ')}: an event has no other members.`, 'not_allowed')
  return names
}

function checkSize(at: string, text: string): void {
  if (Buffer.byteLength(text) > VALUE_BYTES_MAX)
    throw invalid(at, `Must be at most ${VALUE_BYTES_MAX} bytes.`, 'too_large')
}

function scalar(at: string, value: unknown): unknown {
  if (typeof value === 'string') checkSize(at, value)
  else if (typeof value !== 'boolean' && value !== null && !Number.isFinite(value))
    throw invalid(at, 'Must be a string, a number, true, false or null.', 'wrong_type')
  return value
}

function text(at: string, value: unknown): string {
  if (typeof value !== 'string') throw invalid(at, 'Must be a string.', 'wrong_type')
  checkSize(at, value)
  return value
}

function isIn(at: string, value: unknown): Test {
  if (!Array.isArray(value) || value.length === 0 || value.length > IN_VALUES_MAX)
    throw invalid(at, `Must be an array of 1 to ${IN_VALUES_MAX} values.`)
  const values = new Set(value.map((each, index) => scalar(`${at}.${index}`, each)))
  return (found) => values.has(found)
}

function exists(at: string, value: unknown): Test {
  if (typeof value !== 'boolean') throw invalid(at, 'Must be true or false.', 'wrong_type')
  return (found) => (found !== undefined) === value
}

function ordered(holds: (comparison: number) => boolean): (at: string, value: unknown) => Test {
  return (at, value) => {
    if (typeof value === 'string') checkSize(at, value)
    const limit = Number.isFinite(value) || typeof value === 'string' ? orderedOf(value) : null
    if (limit === null) throw invalid(at, 'Must be a number or a string.', 'wrong_type')
    if (limit.kind === 'text' && limit.value.length > DECIMAL_CHARS_MAX && DIGITS.test(limit.value))
      throw invalid(at, `A decimal must have at most ${DECIMAL_CHARS_MAX} characters.`, 'too_large')
    return (found) => isOrdered(limit, found, holds)
  }
}

function isOrdered(limit: Ordered, found: unknown, holds: (comparison: number) => boolean): boolean {
  const value = orderedOf(found)
  const comparison = value === null ? null : compareOrdered(value, limit)
  return comparison !== null && holds(comparison)
}

/** What a condition may compare with. Each checks its value and returns the test. */
const COMPARISONS = new Map<string, (at: string, value: unknown) => Test>([
  [
    'eq',
    (at, value) => {
      const wanted = scalar(at, value)
      return (found) => found === wanted
    },
  ],
  ['in', isIn],
  [
    'prefix',
    (at, value) => {
      const start = text(at, value)
      // Several times as fast as `startsWith`, which compares one character at a time.
      return (found) => typeof found === 'string' && found.slice(0, start.length) === start
    },
  ],
  ['exists', exists],
  ['gt', ordered((comparison) => comparison > 0)],
  ['gte', ordered((comparison) => comparison >= 0)],
  ['lt', ordered((comparison) => comparison < 0)],
  ['lte', ordered((comparison) => comparison <= 0)],
])

const FORMS = `a \`path\` with one of ${[...COMPARISONS.keys()].join(', ')}; or one of and, or, not`

/** Reads the conditions of one filter, and counts them. */
class Reader {
  #conditions = 0

  node(at: string, value: unknown, depth: number): Node {
    if (!isObject(value)) throw invalid(at, `Must be an object with ${FORMS}.`, 'wrong_type')
    if (depth > DEPTH_MAX) throw invalid(at, `Conditions may be nested ${DEPTH_MAX} levels deep.`, 'too_deep')
    const [name, other] = Object.keys(value)
    if (name === undefined) throw invalid(at, `Must have ${FORMS}.`, 'required')
    if (name !== 'and' && name !== 'or' && name !== 'not') return this.#condition(at, value)
    if (other !== undefined) throw invalid(`${at}.${other}`, `Must not stand beside \`${name}\`.`, 'unknown_field')
    const inner = value[name]
    if (name === 'not') return { kind: name, at, node: this.node(`${at}.not`, inner, depth + 1) }
    if (!Array.isArray(inner) || inner.length === 0)
      throw invalid(`${at}.${name}`, 'Must be an array of at least one condition.')
    return { kind: name, at, nodes: inner.map((one, index) => this.node(`${at}.${name}.${index}`, one, depth + 1)) }
  }

  #condition(at: string, value: Members): Condition {
    this.#conditions += 1
    if (this.#conditions > CONDITIONS_MAX)
      throw invalid(at, `A filter may have at most ${CONDITIONS_MAX} conditions.`, 'too_many')
    const names = Object.keys(value).filter((name) => name !== 'path')
    const unknown = names.find((name) => !COMPARISONS.has(name))
    if (unknown !== undefined)
      throw invalid(`${at}.${unknown}`, `Unknown field "${unknown}". A condition has ${FORMS}.`, 'unknown_field')
    if (!Object.hasOwn(value, 'path')) throw invalid(`${at}.path`, '"path" is required.', 'required')
    const path = checkedPath(`${at}.path`, value.path)
    const [name, other] = names
    if (name === undefined) throw invalid(at, `Must have ${FORMS}.`, 'required')
    if (other !== undefined)
      throw invalid(`${at}.${other}`, `Must not stand beside \`${name}\`. Write two conditions with \`and\`.`)
    const comparison = COMPARISONS.get(name) as (at: string, value: unknown) => Test
    const test = comparison(`${at}.${name}`, value[name])
    return { kind: 'condition', at, path, test, shown: shortened({ [name]: value[name] }) }
  }
}

/** The value at a path: own members of objects, entries of arrays by their index; undefined where there is none. */
function valueAt(event: unknown, path: readonly string[]): unknown {
  let value = event
  for (const name of path) {
    if (Array.isArray(value)) value = INDEX.test(name) ? value[Number(name)] : undefined
    else if (isObject(value) && Object.hasOwn(value, name)) value = value[name]
    else return undefined
  }
  return value
}

function holds(node: Node, event: unknown): boolean {
  switch (node.kind) {
    case 'condition':
      return node.test(valueAt(event, node.path))
    case 'and':
      return node.nodes.every((one) => holds(one, event))
    case 'or':
      return node.nodes.some((one) => holds(one, event))
    case 'not':
      return !holds(node.node, event)
  }
}

/** Why a node does not hold: the first part of an `and` that does not, and what was found there. */
function reasonOf(node: Node, event: unknown): string {
  switch (node.kind) {
    case 'condition': {
      const found = valueAt(event, node.path)
      const told = found === undefined ? 'is not there' : `is ${shortened(found)}`
      return `\`${node.at}\`: ${node.path.join('.')} ${told}, which does not match ${node.shown}.`
    }
    case 'and':
      return reasonOf(node.nodes.find((one) => !holds(one, event)) as Node, event)
    case 'or':
      return `No condition of \`${node.at}.or\` matches.`
    case 'not':
      return `\`${node.at}.not\` matches.`
  }
}

/**
 * Checks and compiles a filter as callers write it. To apply it costs at most 64 comparisons, each of a path of at most 16
 * names and a value of at most 1 KiB. @throws validation_failed, with the first wrong field
 */
export function compileFilter(input: unknown, field = 'filter'): EventFilter {
  const root = new Reader().node(field, input, 1)
  if (Buffer.byteLength(JSON.stringify(input)) > BYTES_MAX)
    throw invalid(field, `Must be at most ${BYTES_MAX} bytes as JSON.`, 'too_large')
  return {
    matches: (event) => holds(root, event),
    whyNot: (event) => (holds(root, event) ? null : reasonOf(root, event)),
  }
}
