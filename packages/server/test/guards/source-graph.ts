import { globSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import ts from 'typescript'

const SRC = join(import.meta.dirname, '../../src')

export interface Import {
  /** Relative to `src/`, or the name of a package. */
  target: string
  ofProject: boolean
  /** Erased by the compiler. */
  typeOnly: boolean
  names: string[]
}

export interface SourceFile {
  /** Relative to `src/`. */
  path: string
  text: string
  /** `identity`, `platform` and so on; a file of `src/` itself names its own. */
  room: string
  /** `identity/users` and so on; in the rooms of one slice, and in the platform, the room. */
  slice: string
  /** In a slice: `slice`, `routes`, `service`, `store`, `schema`, or `other`. */
  role: string
  imports: Import[]
}

/** Rooms that are one slice, in folders of their own for each workflow. */
const ROOMS_OF_ONE = ['platform', 'delegation']

function importsOf(path: string, text: string): Import[] {
  const found: Import[] = []
  const add = (specifier: ts.Expression, typeOnly: boolean, names: string[]) => {
    const { text: target } = specifier as ts.StringLiteral
    const ofProject = target.startsWith('.')
    found.push({ target: ofProject ? join(dirname(path), target) : target, ofProject, typeOnly, names })
  }
  const visit = (node: ts.Node): void => {
    if (ts.isImportDeclaration(node)) {
      const clause = node.importClause
      const bindings = clause?.namedBindings
      const names = bindings && ts.isNamedImports(bindings) ? bindings.elements : []
      const erased = names.length > 0 && clause?.name === undefined && names.every((name) => name.isTypeOnly)
      const inner = names.map((name) => (name.propertyName ?? name.name).text)
      add(
        node.moduleSpecifier,
        clause?.phaseModifier === ts.SyntaxKind.TypeKeyword || erased,
        bindings && ts.isNamespaceImport(bindings) ? ['*'] : inner,
      )
    } else if (ts.isExportDeclaration(node) && node.moduleSpecifier !== undefined)
      add(node.moduleSpecifier, node.isTypeOnly, ['*'])
    else if (ts.isCallExpression(node) && node.expression.kind === ts.SyntaxKind.ImportKeyword)
      add(node.arguments[0] as ts.Expression, false, ['*'])
    ts.forEachChild(node, visit)
  }
  visit(ts.createSourceFile(path, text, ts.ScriptTarget.Latest))
  return found
}

function sliceOf(path: string): string {
  const parts = path.split('/')
  return parts.length < 3 || ROOMS_OF_ONE.includes(parts[0] as string)
    ? (parts[0] as string)
    : parts.slice(0, 2).join('/')
}

const roleOf = (path: string) => /(?:^|[/-])(slice|routes|service|store|schema)\.ts$/.exec(path)?.[1] ?? 'other'

/** Every source file of the server, without tests. */
export const files: readonly SourceFile[] = globSync('**/*.ts', { cwd: SRC })
  .map((path) => path.replaceAll('\\', '/'))
  .filter((path) => !/\.(test|fixture)\.ts$/.test(path))
  .sort()
  .map((path) => {
    const text = readFileSync(join(SRC, path), 'utf8')
    const room = path.split('/')[0] as string
    return { path, text, room, slice: sliceOf(path), role: roleOf(path), imports: importsOf(path, text) }
  })

const byPath = new Map(files.map((file) => [file.path, file]))

/** The file of the project that an import leads to. */
export const targetOf = (one: Import): SourceFile | undefined => (one.ofProject ? byPath.get(one.target) : undefined)

/** Every import within the project that a rule forbids, as `from → to`. */
export function forbidden(rule: (from: SourceFile, to: SourceFile, one: Import) => boolean): string[] {
  return files.flatMap((from) =>
    from.imports.flatMap((one) => {
      const to = targetOf(one)
      return to !== undefined && rule(from, to, one) ? [`${from.path} → ${to.path}`] : []
    }),
  )
}

/** A file's text without its comments. */
export const codeOf = ({ text }: SourceFile) => text.replace(/\/\*[\s\S]*?\*\/|^\s*\/\/.*$/gm, '')

/** The files whose code matches. */
export const having = (pattern: RegExp) => files.filter((file) => pattern.test(codeOf(file))).map(({ path }) => path)

/** The files with a matching import. */
export const importing = (matches: (one: Import) => boolean) =>
  files.filter((file) => file.imports.some(matches)).map(({ path }) => path)

/**
 * Circles among the nodes of a graph, each as one path through it; none in a graph that has an order.
 * @param edges to what each node leads
 */
export function circlesIn(edges: ReadonlyMap<string, Iterable<string>>): string[] {
  const circles: string[] = []
  const done = new Set<string>()
  const visit = (node: string, path: string[]) => {
    if (path.includes(node)) circles.push([...path.slice(path.indexOf(node)), node].join(' → '))
    if (path.includes(node) || done.has(node)) return
    for (const next of edges.get(node) ?? []) visit(next, [...path, node])
    done.add(node)
  }
  for (const node of edges.keys()) visit(node, [])
  return circles
}
