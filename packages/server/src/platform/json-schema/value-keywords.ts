import { canonicalJson } from '../security/canonical-json.ts'
import { type Compiler, isObject, type Keyword, type Members, type Rule } from './node.ts'
import type { Run } from './run.ts'

const TYPES: Record<string, (value: unknown) => boolean> = {
  null: (value) => value === null,
  boolean: (value) => typeof value === 'boolean',
  number: (value) => typeof value === 'number',
  integer: (value) => Number.isInteger(value),
  string: (value) => typeof value === 'string',
  array: Array.isArray,
  object: isObject,
}

/** A keyword with a number, 0 or more, that limits a measure of values of one type. */
export function limit<T>(
  is: (value: unknown) => value is T,
  measure: (run: Run, value: T) => number,
  isWithin: (size: number, limit: number) => boolean,
  name: string,
  words: string,
): Keyword {
  return (most, _, { refuse }) => {
    if (!(Number.isInteger(most) && (most as number) >= 0)) refuse([name], 'Must be a whole number, 0 or more.')
    return (run, value, path) =>
      !is(value) ||
      isWithin(measure(run, value), most as number) ||
      run.fail(path, name, { limit: most }, `must have ${words} ${most}`)
  }
}

export const atMost = (size: number, most: number) => size <= most
export const atLeast = (size: number, least: number) => size >= least
export const isText = (value: unknown): value is string => typeof value === 'string'
export const isList = (value: unknown): value is unknown[] => Array.isArray(value)
export const isNumber = (value: unknown): value is number => typeof value === 'number'

function characters(run: Run, text: string): number {
  run.spend(text.length >> 2)
  let count = 0
  for (const _ of text) count += 1
  return count
}

function bound(name: string, isWithin: (value: number, limit: number) => boolean, words: string): Keyword {
  return (edge, _, { refuse }) => {
    if (!isNumber(edge)) refuse([name], 'Must be a number.')
    return (run, value, path) =>
      !isNumber(value) ||
      isWithin(value, edge as number) ||
      run.fail(path, name, { limit: edge }, `must be ${words} ${edge}`)
  }
}

/** Whether a quotient is whole, as far as binary fractions can tell. */
function isMultiple(value: number, of: number): boolean {
  const quotient = value / of
  return (
    Number.isFinite(quotient) &&
    Math.abs(quotient - Math.round(quotient)) <= 1e-10 * Math.max(1, Math.abs(quotient) * 1e-4)
  )
}

const enumeration: Keyword = (values, _, { refuse }) => {
  if (!Array.isArray(values)) return refuse(['enum'], 'Must be a list.')
  const texts = values.map((value) => canonicalJson(value))
  const allowed = new Set(texts)
  const shown = texts.slice(0, 20)
  const hasParts = values.some((value) => typeof value === 'object' && value !== null)
  return (run, value, path) =>
    ((hasParts || typeof value !== 'object' || value === null) && allowed.has(run.textOf(value))) ||
    run.fail(path, 'enum', { allowedValues: shown }, '')
}

const type: Keyword = (given, _, { refuse }) => {
  const wanted = [given].flat()
  const tests = wanted.map((name) => (isText(name) && Object.hasOwn(TYPES, name) ? TYPES[name] : undefined))
  if (tests.length === 0 || tests.includes(undefined))
    refuse(['type'], `Must be one of ${Object.keys(TYPES).join(', ')}, or a list of them.`)
  return (run, value, path) => tests.some((test) => test?.(value)) || run.fail(path, 'type', { type: wanted }, '')
}

/** Keywords of any value, of texts and of numbers. */
export const valueKeywords = {
  type,
  enum: enumeration,
  const: (wanted: unknown, _: Members, __: Compiler): Rule => {
    const text = canonicalJson(wanted)
    const hasParts = typeof wanted === 'object' && wanted !== null
    return (run, value, path) =>
      ((hasParts || typeof value !== 'object' || value === null) && run.textOf(value) === text) ||
      run.fail(path, 'const', {}, `must be ${text.slice(0, 200)}`)
  },
  minLength: limit(isText, characters, atLeast, 'minLength', 'a number of characters of at least'),
  maxLength: limit(isText, characters, atMost, 'maxLength', 'a number of characters of at most'),
  pattern: (pattern: unknown, _: Members, compiler: Compiler): Rule => {
    const compiled = compiler.pattern(['pattern'], pattern)
    return (run, value, path) =>
      !isText(value) || compiled.test(run, value) || run.fail(path, 'pattern', {}, `must match the pattern ${pattern}`)
  },
  multipleOf: (of: unknown, _: Members, { refuse }: Compiler): Rule => {
    if (!isNumber(of) || of <= 0) return refuse(['multipleOf'], 'Must be a number above 0.')
    return (run, value, path) =>
      !isNumber(value) || isMultiple(value, of) || run.fail(path, 'multipleOf', {}, `must be a multiple of ${of}`)
  },
  minimum: bound('minimum', (value, edge) => value >= edge, 'at least'),
  maximum: bound('maximum', (value, edge) => value <= edge, 'at most'),
  exclusiveMinimum: bound('exclusiveMinimum', (value, edge) => value > edge, 'more than'),
  exclusiveMaximum: bound('exclusiveMaximum', (value, edge) => value < edge, 'less than'),
}
