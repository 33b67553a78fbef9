import type { Path, Run, Seen } from './run.ts'

/** A keyword's test of a value. */
export type Rule = (run: Run, value: unknown, path: Path, seen: Seen | null) => boolean

/** A schema, ready to run. */
export interface Node {
  rules: Rule[]
  /** Run after the others, because they depend on what the others looked at. */
  lateRules: Rule[]
  /** The schemas that it applies to the same value. */
  inPlace: Node[]
  /** The schema `false`. */
  isNever: boolean
}

/** What a keyword needs while its schema is compiled. */
export interface Compiler {
  /** The schema at `keys` below the one being compiled, which is applied to the same value (`inPlace`) or to a part of it. */
  node(keys: readonly string[], schema: unknown, inPlace?: boolean): Node
  reference(pointer: string): () => Node
  pattern(keys: readonly string[], pattern: unknown): { test(run: Run, text: string): boolean }
  refuse(keys: readonly string[], message: string): never
}

/** The members of an object. */
export type Members = Record<string, unknown>

/** A keyword: its value, the schema that it stands in, and what it may use. Null where it tests nothing. */
export type Keyword = (value: unknown, schema: Members, compiler: Compiler) => Rule | null

export const isObject = (value: unknown): value is Members =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** The path of a member or an element. */
export const member = (parent: Path, key: string | number): Path => ({ parent, key: String(key) })

/** What was seen of another value: nothing yet. */
export const fresh = (seen: Seen | null): Seen | null =>
  seen === null ? null : { names: new Set(), before: 0, indexes: new Set() }

/** The schemas in an object or a list, by their keys. */
export function nodesOf(name: string, parts: unknown, compiler: Compiler, inPlace: boolean): [string, Node][] {
  if (typeof parts !== 'object' || parts === null) return compiler.refuse([name], 'Must contain schemas.')
  return Object.entries(parts).map(([key, part]) => [key, compiler.node([name, key], part, inPlace)])
}

/** Applies a schema to a value. @throws TooComplex */
export function apply(node: Node, run: Run, value: unknown, path: Path, seen: Seen | null): boolean {
  run.spend(1)
  if (node.isNever) return run.fail(path, 'false', {}, 'is not allowed')
  return run.deeper(() => {
    // A schema sees what it and its branches looked at, and hands it on only if the value is valid.
    const own: Seen | null = seen === null ? null : { names: new Set(), before: 0, indexes: new Set() }
    let isValid = true
    for (const rules of [node.rules, node.lateRules])
      for (const rule of rules) {
        run.spend(1)
        if (rule(run, value, path, own)) continue
        isValid = false
        if (run.isQuiet || run.isFull) return false
      }
    if (isValid && seen !== null && own !== null) mergeSeen(run, seen, own)
    return isValid
  })
}

function mergeSeen(run: Run, into: Seen, from: Seen): void {
  run.spend((from.names.size + from.indexes.size) >> 3)
  for (const name of from.names) into.names.add(name)
  for (const index of from.indexes) into.indexes.add(index)
  into.before = Math.max(into.before, from.before)
}
