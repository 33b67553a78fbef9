import {
  apply,
  type Compiler,
  fresh,
  isObject,
  type Keyword,
  type Members,
  type Node,
  nodesOf,
  type Rule,
} from './node.ts'
import { isText } from './value-keywords.ts'

function branches(name: string, parts: unknown, compiler: Compiler): Node[] {
  if (!Array.isArray(parts) || parts.length === 0) compiler.refuse([name], 'Must be a list of schemas.')
  return nodesOf(name, parts, compiler, true).map(([, node]) => node)
}

/** Holds schemas that others refer to. */
const definitions =
  (name: string): Keyword =>
  (parts, _, compiler) => {
    if (!isObject(parts)) compiler.refuse([name], 'Must be an object of schemas.')
    nodesOf(name, parts, compiler, false)
    return null
  }

const reference: Keyword = (ref, _, compiler) => {
  if (!isText(ref) || !/^#(\/|$)/.test(ref))
    return compiler.refuse(
      ['$ref'],
      'Must be a local reference that begins with `#/`. Halfkey does not load other schemas.',
    )
  let pointer = ''
  try {
    pointer = decodeURIComponent(ref.slice(1))
  } catch {
    compiler.refuse(['$ref'], 'Must be valid percent-encoded UTF-8.')
  }
  const target = compiler.reference(pointer)
  return (run, value, path, seen) => apply(target(), run, value, path, seen)
}

const conditional: Keyword = (test, schema, compiler) => {
  const of = (name: string) => (schema[name] === undefined ? null : compiler.node([name], schema[name], true))
  const [condition, then, otherwise] = [compiler.node(['if'], test, true), of('then'), of('else')]
  return (run, value, path, seen) => {
    const branch = run.quietly(() => apply(condition, run, value, path, seen)) ? then : otherwise
    return branch === null || apply(branch, run, value, path, seen)
  }
}

/** Keywords that apply other schemas to the same value. */
export const branchKeywords = {
  $ref: reference,
  $defs: definitions('$defs'),
  definitions: definitions('definitions'),
  allOf: (parts: unknown, _: Members, compiler: Compiler): Rule => {
    const nodes = branches('allOf', parts, compiler)
    return (run, value, path, seen) =>
      nodes.reduce((isValid, node) => {
        if (!isValid && run.isQuiet) return false
        return apply(node, run, value, path, seen) && isValid
      }, true)
  },
  anyOf: (parts: unknown, _: Members, compiler: Compiler): Rule => {
    const nodes = branches('anyOf', parts, compiler)
    return (run, value, path, seen) => {
      const fits = (node: Node) => run.quietly(() => apply(node, run, value, path, seen))
      const isValid = seen === null ? nodes.some(fits) : nodes.filter(fits).length > 0
      return isValid || run.fail(path, 'anyOf', {}, 'must match one of the schemas of `anyOf`')
    }
  },
  oneOf: (parts: unknown, _: Members, compiler: Compiler): Rule => {
    const nodes = branches('oneOf', parts, compiler)
    return (run, value, path, seen) => {
      const fitting = nodes.filter((node) => run.quietly(() => apply(node, run, value, path, seen)))
      return fitting.length === 1 || run.fail(path, 'oneOf', {}, 'must match exactly one of the schemas of `oneOf`')
    }
  },
  not: (part: unknown, _: Members, compiler: Compiler): Rule => {
    const node = compiler.node(['not'], part, true)
    return (run, value, path, seen) =>
      !run.quietly(() => apply(node, run, value, path, fresh(seen))) ||
      run.fail(path, 'not', {}, 'must not match the schema of `not`')
  },
  if: conditional,
}
