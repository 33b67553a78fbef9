import {
  apply,
  type Compiler,
  fresh,
  type Keyword,
  type Members,
  member,
  type Node,
  nodesOf,
  type Rule,
} from './node.ts'
import type { Seen } from './run.ts'
import { atLeast, atMost, isList, isNumber, limit } from './value-keywords.ts'

/** Applies a schema to the elements from one on that `isOther` chooses. */
function elements(
  node: Node,
  from: (seen: Seen | null) => number,
  isOther: (index: number, seen: Seen | null) => boolean,
): Rule {
  return (run, value, path, seen) => {
    if (!isList(value)) return true
    let isValid = true
    for (let at = from(seen); at < value.length; at += 1) {
      if (!isOther(at, seen)) continue
      isValid = apply(node, run, value[at], member(path, at), fresh(seen)) && isValid
      if (!isValid && (run.isQuiet || run.isFull)) return false
    }
    if (seen !== null) seen.before = Math.max(seen.before, value.length)
    return isValid
  }
}

const items: Keyword = (part, schema, compiler) => {
  const begin = Array.isArray(schema.prefixItems) ? schema.prefixItems.length : 0
  return elements(
    compiler.node(['items'], part),
    () => begin,
    () => true,
  )
}

const prefixItems: Keyword = (parts, _, compiler) => {
  if (!Array.isArray(parts)) compiler.refuse(['prefixItems'], 'Must be a list of schemas.')
  const nodes = nodesOf('prefixItems', parts, compiler, false).map(([, node]) => node)
  return (run, value, path, seen) => {
    if (!isList(value)) return true
    if (seen !== null) seen.before = Math.max(seen.before, Math.min(nodes.length, value.length))
    let isValid = true
    for (const [at, node] of nodes.entries()) {
      if (at >= value.length) break
      isValid = apply(node, run, value[at], member(path, at), fresh(seen)) && isValid
    }
    return isValid
  }
}

const contains: Keyword = (part, schema, compiler) => {
  const node = compiler.node(['contains'], part)
  const { minContains: least = 1, maxContains: most = Number.POSITIVE_INFINITY } = schema
  if (!isNumber(least) || !isNumber(most))
    return compiler.refuse(['contains'], '`minContains` and `maxContains` must be numbers.')
  return (run, value, path, seen) => {
    if (!isList(value)) return true
    let found = 0
    value.forEach((each, at) => {
      if (!run.quietly(() => apply(node, run, each, path, fresh(seen)))) return
      run.spend(1)
      found += 1
      seen?.indexes.add(at)
    })
    return (
      (found >= least && found <= most) ||
      run.fail(
        path,
        'contains',
        {},
        `must contain ${least}${most === Number.POSITIVE_INFINITY ? ' or more' : ` to ${most}`} entries of a kind`,
      )
    )
  }
}

/** Keywords of lists. */
export const listKeywords = {
  prefixItems,
  items,
  contains,
  minItems: limit(isList, (_, value) => value.length, atLeast, 'minItems', 'a number of entries of at least'),
  maxItems: limit(isList, (_, value) => value.length, atMost, 'maxItems', 'a number of entries of at most'),
  uniqueItems: (wanted: unknown, _: Members, { refuse }: Compiler): Rule | null => {
    if (typeof wanted !== 'boolean') refuse(['uniqueItems'], 'Must be true or false.')
    if (wanted !== true) return null
    return (run, value, path) =>
      !isList(value) ||
      new Set(value.map((each) => run.textOf(each))).size === value.length ||
      run.fail(path, 'uniqueItems', {}, 'must not have the same entry twice')
  },
  unevaluatedItems: (part: unknown, _: Members, compiler: Compiler): Rule =>
    elements(
      compiler.node(['unevaluatedItems'], part),
      (seen) => seen?.before ?? 0,
      (index, seen) => seen?.indexes.has(index) === false,
    ),
}
