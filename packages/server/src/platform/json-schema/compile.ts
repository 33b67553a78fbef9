import { keywords } from './keywords.ts'
import { type Compiler, isObject, type Node } from './node.ts'
import type { Run } from './run.ts'

/** A part of a schema that was refused, by its keys, and why. */
export class SchemaRefused extends Error {
  readonly path: readonly string[]

  constructor(path: readonly string[], message: string) {
    super(message)
    this.path = path
  }
}

const SCHEMAS_MAX = 5_000
const DIALECT = /^https:\/\/json-schema\.org\/draft\/2020-12\/schema#?$/

/** Keywords that would change the meaning of a schema, and are not supported. */
const UNSUPPORTED: Record<string, string> = {
  $dynamicRef: 'Use `$ref` with a local reference.',
  $dynamicAnchor: 'Use `$defs` and `$ref` with a local reference.',
  $recursiveRef: 'Use `$ref` with a local reference.',
  $recursiveAnchor: 'Use `$defs` and `$ref` with a local reference.',
  $anchor: 'Use `$defs` and `$ref` with a local reference.',
  $vocabulary: 'Remove it.',
  dependencies: 'Use `dependentRequired` or `dependentSchemas`.',
  additionalItems: 'Use `prefixItems` and `items`.',
}

const step = (key: string) => `/${key.replaceAll('~', '~0').replaceAll('/', '~1')}`
/** Whether a schema is applied to the same value again and again. */
function refuseEndless(nodes: ReadonlyMap<string, Node>): void {
  const done = new Set<Node>()
  const open = new Set<Node>()
  const visit = (node: Node): void => {
    if (done.has(node)) return
    if (open.has(node))
      throw new SchemaRefused(
        [],
        'A `$ref` refers back to itself in an endless loop. Remove one reference of the loop.',
      )
    open.add(node)
    node.inPlace.forEach(visit)
    open.delete(node)
    done.add(node)
  }
  for (const node of nodes.values()) visit(node)
}

/** Compiles patterns with a given engine. @throws Error for a pattern that it does not take */
export type PatternEngine = (pattern: string) => { test(run: Run, text: string): boolean }

/** A compiled schema. */
export interface Compiled {
  root: Node
  /** Whether annotations must be collected. */
  tracks: boolean
}

/** Compiles a schema of JSON Schema 2020-12. @throws SchemaRefused */
export function compile(schema: unknown, engine: PatternEngine): Compiled {
  const nodes = new Map<string, Node>()
  const references: { from: Node; path: readonly string[]; pointer: string }[] = []
  let tracks = false

  function compilerAt(node: Node, pointer: string, path: readonly string[]): Compiler {
    const refuse = (keys: readonly string[], message: string): never => {
      throw new SchemaRefused([...path, ...keys], message)
    }
    return {
      node(keys, part, inPlace = false) {
        const made = build(part, pointer + keys.map(step).join(''), [...path, ...keys])
        if (inPlace) node.inPlace.push(made)
        return made
      },
      reference(target) {
        references.push({ from: node, path: [...path, '$ref'], pointer: target })
        return () => nodes.get(target) as Node
      },
      pattern(keys, pattern) {
        if (typeof pattern !== 'string') return refuse(keys, 'Must be a regular expression as a string.')
        try {
          return engine(pattern)
        } catch (error) {
          return refuse(
            keys,
            `This regular expression is not supported (${(error as Error).message}). Use RE2 syntax, without lookaround and backreferences.`,
          )
        }
      },
      refuse,
    }
  }

  function build(part: unknown, pointer: string, path: readonly string[]): Node {
    const node: Node = { rules: [], lateRules: [], inPlace: [], isNever: part === false }
    nodes.set(pointer, node)
    if (typeof part === 'boolean') return node
    if (!isObject(part)) throw new SchemaRefused(path, 'Must be a schema: an object, or true or false.')
    if (nodes.size > SCHEMAS_MAX) throw new SchemaRefused([], `Must contain at most ${SCHEMAS_MAX} subschemas.`)
    const compiler = compilerAt(node, pointer, path)
    checkIdentity(part, path, compiler)
    for (const [name, value] of Object.entries(part)) {
      if (Object.hasOwn(UNSUPPORTED, name))
        compiler.refuse([name], `\`${name}\` is not supported. ${UNSUPPORTED[name]}`)
      if (!Object.hasOwn(keywords, name)) continue
      const rule = keywords[name as keyof typeof keywords](value, part, compiler)
      const isLate = name.startsWith('unevaluated')
      tracks ||= isLate
      if (rule !== null) (isLate ? node.lateRules : node.rules).push(rule)
    }
    return node
  }

  const root = build(schema, '', [])
  for (const { from, path, pointer } of references) {
    const target = nodes.get(pointer)
    if (target === undefined)
      throw new SchemaRefused(path, 'Must refer to a part of this schema, for example `#/$defs/amount`.')
    from.inPlace.push(target)
  }
  refuseEndless(nodes)
  return { root, tracks }
}

function checkIdentity(part: Record<string, unknown>, path: readonly string[], { refuse }: Compiler): void {
  if (part.$schema !== undefined && !(typeof part.$schema === 'string' && DIALECT.test(part.$schema)))
    refuse(['$schema'], 'Must be https://json-schema.org/draft/2020-12/schema. You can also omit it.')
  if (part.$id !== undefined && path.length > 0) refuse(['$id'], 'Only the top level of a schema may have an `$id`.')
}
