import {
  apply,
  type Compiler,
  fresh,
  isObject,
  type Keyword,
  type Members,
  member,
  type Node,
  nodesOf,
  type Rule,
} from './node.ts'
import type { Path, Run, Seen } from './run.ts'
import { atLeast, atMost, isText, limit } from './value-keywords.ts'

function names(value: unknown): value is string[] {
  return Array.isArray(value) && value.every(isText)
}

const properties: Keyword = (parts, _, compiler) => {
  if (!isObject(parts)) compiler.refuse(['properties'], 'Must be an object of schemas.')
  const nodes = nodesOf('properties', parts, compiler, false)
  return (run, value, path, seen) => {
    if (!isObject(value)) return true
    let isValid = true
    run.spend(nodes.length >> 2)
    for (const [name, node] of nodes) {
      if (!Object.hasOwn(value, name)) continue
      seen?.names.add(name)
      isValid = apply(node, run, value[name], member(path, name), fresh(seen)) && isValid
    }
    return isValid
  }
}

/** The patterns of a schema's `patternProperties`, compiled. */
function patternsOf(schema: Members, compiler: Compiler) {
  const parts = schema.patternProperties ?? {}
  if (!isObject(parts)) return compiler.refuse(['patternProperties'], 'Must be an object of schemas.')
  return Object.keys(parts).map((key) => ({ key, pattern: compiler.pattern(['patternProperties', key], key) }))
}

const patternProperties: Keyword = (parts, schema, compiler) => {
  const patterns = patternsOf(schema, compiler).map(({ key, pattern }) => ({
    pattern,
    node: compiler.node(['patternProperties', key], (parts as Members)[key]),
  }))
  return (run, value, path, seen) => {
    if (!isObject(value)) return true
    let isValid = true
    for (const name of run.keysOf(value))
      for (const { pattern, node } of patterns) {
        if (!pattern.test(run, name)) continue
        seen?.names.add(name)
        isValid = apply(node, run, value[name], member(path, name), fresh(seen)) && isValid
      }
    return isValid
  }
}

/** Applies a schema to the members that `isOther` chooses; `false` reports them as unknown fields. */
function others(name: string, node: Node, isOther: (run: Run, key: string, seen: Seen | null) => boolean): Rule {
  return (run, value, path, seen) => {
    if (!isObject(value)) return true
    let isValid = true
    for (const key of run.keysOf(value)) {
      run.spend(1)
      if (!isOther(run, key, seen)) continue
      const at = member(path, key)
      const fits = node.isNever
        ? run.fail(at, 'additionalProperties', { additionalProperty: key }, `is unknown to \`${name}\``)
        : apply(node, run, value[key], at, fresh(seen))
      seen?.names.add(key)
      isValid = fits && isValid
    }
    return isValid
  }
}

const additionalProperties: Keyword = (part, schema, compiler) => {
  const known = new Set(isObject(schema.properties) ? Object.keys(schema.properties) : [])
  const patterns = patternsOf(schema, compiler)
  const node = compiler.node(['additionalProperties'], part)
  return others(
    'additionalProperties',
    node,
    (run, key) => !known.has(key) && !patterns.some(({ pattern }) => pattern.test(run, key)),
  )
}

const propertyNames: Keyword = (part, _, compiler) => {
  const node = compiler.node(['propertyNames'], part)
  return (run, value, path) =>
    !isObject(value) ||
    run
      .keysOf(value)
      .every(
        (name) =>
          run.quietly(() => apply(node, run, name, path, null)) ||
          run.fail(member(path, name), 'propertyNames', {}, 'has a name that is not allowed'),
      )
}

function requireAll(run: Run, value: Members, required: readonly string[], path: Path): boolean {
  run.spend(required.length >> 2)
  const missing = required.filter((name) => !Object.hasOwn(value, name))
  for (const name of missing) run.fail(member(path, name), 'required', { missingProperty: name }, 'is required')
  return missing.length === 0
}

const required: Keyword = (list, _, compiler) => {
  if (!names(list)) return compiler.refuse(['required'], 'Must be a list of names.')
  return (run, value, path) => !isObject(value) || requireAll(run, value, list, path)
}

const dependentRequired: Keyword = (lists, _, compiler) => {
  if (!isObject(lists) || !Object.values(lists).every(names))
    return compiler.refuse(['dependentRequired'], 'Must be an object of lists of names.')
  const entries = Object.entries(lists as Record<string, string[]>)
  return (run, value, path) => {
    run.spend(entries.length >> 1)
    if (!isObject(value)) return true
    return entries.every(([name, list]) => !Object.hasOwn(value, name) || requireAll(run, value, list, path))
  }
}

const dependentSchemas: Keyword = (parts, _, compiler) => {
  if (!isObject(parts)) compiler.refuse(['dependentSchemas'], 'Must be an object of schemas.')
  const nodes = nodesOf('dependentSchemas', parts, compiler, true)
  return (run, value, path, seen) => {
    run.spend(nodes.length >> 2)
    if (!isObject(value)) return true
    return nodes.every(([name, node]) => !Object.hasOwn(value, name) || apply(node, run, value, path, seen))
  }
}

/** Keywords of objects. */
export const objectKeywords = {
  properties,
  patternProperties,
  additionalProperties,
  propertyNames,
  required,
  dependentRequired,
  dependentSchemas,
  minProperties: limit(
    isObject,
    (run, value) => run.keysOf(value).length,
    atLeast,
    'minProperties',
    'a number of fields of at least',
  ),
  maxProperties: limit(
    isObject,
    (run, value) => run.keysOf(value).length,
    atMost,
    'maxProperties',
    'a number of fields of at most',
  ),
  unevaluatedProperties: (part: unknown, _: Members, compiler: Compiler): Rule =>
    others(
      'unevaluatedProperties',
      compiler.node(['unevaluatedProperties'], part),
      (_run, key, seen) => seen?.names.has(key) === false,
    ),
}
