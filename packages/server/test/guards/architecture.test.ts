import { globSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import ts from 'typescript'
import { expect, test } from 'vitest'

const SRC = join(import.meta.dirname, '../../src')
const LINES_MAX = 400

/** Which slice may import which others' `service.ts` and `schema.ts`. A new line here is a decision: keep it acyclic. */
const SLICE_IMPORTS: Record<string, string[]> = {
  analytics: [],
  billing: [],
  apps: [],
  'api-keys': ['apps'],
  tenant: ['api-keys', 'apps'],
  sessions: [],
  passkeys: ['apps', 'custody', 'sessions', 'users'],
  signin: ['apps', 'messenger', 'sessions', 'users'],
  mfa: ['apps', 'sessions', 'users'],
  users: ['apps', 'sessions', 'tenant'],
  custody: [],
  'custom-domains': ['apps', 'passkeys'],
  wallets: ['apps', 'custody', 'sessions', 'tenant', 'users'],
  'key-generations': ['custody', 'wallets'],
  'key-shares': ['custody', 'delegated-sessions', 'passkeys', 'sessions', 'wallets'],
  messenger: ['apps', 'users'],
  guests: ['apps', 'sessions', 'users', 'wallets'],
  'delegated-sessions': ['apps', 'custody', 'sessions', 'transactions', 'wallets'],
  recovery: ['apps', 'custody', 'delegated-sessions', 'sessions', 'wallets'],
  transactions: ['apps', 'custody'],
  templates: [],
  dashboard: [],
  faucet: ['users', 'wallets'],
  jobs: [],
  webhooks: ['apps', 'jobs'],
  events: ['webhooks'],
  audit: [],
  health: [],
  'docs-site': [],
  transfer: [],
}

/** Closed lists and forms of the wire contract that schemas are made of; they are as pure as a schema. */
const PURE = [
  'core/http.ts',
  'core/api-key.ts',
  'core/event-catalogue.ts',
  'core/audit-actions.ts',
  'core/amount.ts',
  'ledger/party.ts',
]

/** What slices see of the ledgers: the port, parties, signatures, how one is asked, and services of the embedded one. */
const LEDGER_OPEN = /^ledger\/(ledger|party|signature|ask-ledger|embedded\/[a-z-]+-service)\.ts$/

interface Import {
  /** Relative to `src/`, or the name of a package. */
  target: string
  ofProject: boolean
  /** Erased by the compiler. */
  typeOnly: boolean
  names: string[]
}

interface File {
  /** Relative to `src/`. */
  path: string
  text: string
  /** `main`, `process`, `app`, the name of a slice, or `core`. */
  part: string
  /** In a slice: `routes`, `service`, `store`, `schema`, `engine`, or `other`. */
  role: string
  imports: Import[]
}

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

function partOf(path: string): string {
  if (path === 'main.ts') return 'main'
  if (path === 'app.ts') return 'app'
  if (!path.includes('/') || path.startsWith('cli/')) return 'process'
  return path.split('/')[0] as string
}

function roleOf(path: string): string {
  if (path.includes('/engine/')) return 'engine'
  return /(?:^|[/-])(routes|service|store|schema)\.ts$/.exec(path)?.[1] ?? 'other'
}

const files: File[] = globSync('**/*.ts', { cwd: SRC })
  .filter((path) => !/\.(test|fixture)\.ts$/.test(path))
  .sort()
  .map((path) => {
    const text = readFileSync(join(SRC, path), 'utf8')
    return { path, text, part: partOf(path), role: roleOf(path), imports: importsOf(path, text) }
  })

const LAYERS = ['main', 'process', 'app', 'slice', 'ledger', 'core']
const layerOf = (part: string) => LAYERS.indexOf(LAYERS.includes(part) ? part : 'slice')
const isSlice = (part: string) => !LAYERS.includes(part)

/** Every import within the project that a rule forbids, as `from → to`. */
function forbidden(rule: (from: File, to: File, one: Import) => boolean): string[] {
  const byPath = new Map(files.map((file) => [file.path, file]))
  return files.flatMap((from) =>
    from.imports.flatMap((one) => {
      const to = one.ofProject ? byPath.get(one.target) : undefined
      return to !== undefined && rule(from, to, one) ? [`${from.path} → ${to.path}`] : []
    }),
  )
}

/** The files whose text has something, without comments. */
const having = (pattern: RegExp) =>
  files.filter(({ text }) => pattern.test(text.replace(/\/\*[\s\S]*?\*\/|^\s*\/\/.*$/gm, ''))).map(({ path }) => path)

const importing = (fits: (one: Import) => boolean) =>
  files.filter((file) => file.imports.some(fits)).map(({ path }) => path)

test('the imports of every source file are known, and each leads to a source file', () => {
  expect(files.length).toBeGreaterThan(80)
  const known = new Set(files.map((file) => file.path))
  const lost = files.flatMap((file) =>
    file.imports.filter((one) => one.ofProject && !known.has(one.target)).map((one) => `${file.path} → ${one.target}`),
  )
  // The keys are a package of their own, which clients use too; it is taken in here and nowhere else.
  expect(lost).toEqual([
    'core/canonical-json.ts → ../../keys/src/canonical-json.ts',
    'core/threshold.ts → ../../keys/src/index.ts',
  ])
})

/** What everything has in `deps` is described there: the ledgers and the payments by their ports, which are erased. */
const isPortInDeps = (from: File, to: File, one: Import) =>
  from.path === 'core/deps.ts' && ['ledger/ledger.ts', 'billing/processor.ts'].includes(to.path) && one.typeOnly

test('imports lead downwards: main, start and command line, app, slices, ledger, core', () => {
  expect(forbidden((from, to, one) => layerOf(to.part) < layerOf(from.part) && !isPortInDeps(from, to, one))).toEqual(
    [],
  )
})

test('core knows no slice, and of ledgers and payments only the ports', () => {
  expect(
    forbidden((from, to, one) => from.part === 'core' && to.part !== 'core' && !isPortInDeps(from, to, one)),
  ).toEqual([])
})

test('slices know a ledger by its port alone, and only start knows which ledgers there are', () => {
  expect(forbidden((from, to) => isSlice(from.part) && to.part === 'ledger' && !LEDGER_OPEN.test(to.path))).toEqual([])
  const adapters = (from: File, to: File) =>
    from.part !== 'ledger' && to.part === 'ledger' && !LEDGER_OPEN.test(to.path) && from.path !== 'start.ts'
  expect(forbidden(adapters)).toEqual([])
})

test('slices import each other along the list, which has no cycle, and is no longer than needed', () => {
  const edges = new Map<string, Set<string>>()
  forbidden((from, to) => {
    if (isSlice(from.part)) edges.set(from.part, edges.get(from.part) ?? new Set())
    if (isSlice(from.part) && isSlice(to.part) && from.part !== to.part) edges.get(from.part)?.add(to.part)
    return false
  })
  const seen = Object.fromEntries([...edges].map(([slice, others]) => [slice, [...others].sort()]))
  expect(seen).toEqual(SLICE_IMPORTS)

  const done = new Set<string>()
  for (let left = Object.keys(seen); left.length > 0; ) {
    const free = left.filter((slice) => seen[slice]?.every((other) => done.has(other)))
    expect(free, `a cycle among ${left.join(', ')}`).not.toEqual([])
    for (const slice of free) done.add(slice)
    left = left.filter((slice) => !done.has(slice))
  }
})

test("a slice imports nothing of another's but its service and its schema", () => {
  const foreign = (from: File, to: File) => isSlice(from.part) && isSlice(to.part) && from.part !== to.part
  expect(forbidden((from, to) => foreign(from, to) && !['service', 'schema'].includes(to.role))).toEqual([])
})

test('in a slice routes call services, services call stores, and nothing goes the other way', () => {
  const mayUse: Record<string, string[]> = {
    routes: ['service', 'schema'],
    service: ['service', 'store', 'schema', 'engine', 'other'],
    store: ['schema', 'engine', 'other'],
    engine: ['engine', 'schema', 'other'],
    schema: ['schema'],
    other: ['store', 'schema', 'other'],
  }
  const within = (from: File, to: File) => isSlice(from.part) && from.part === to.part
  expect(forbidden((from, to) => within(from, to) && !mayUse[from.role]?.includes(to.role))).toEqual([])
  // What an engine does with a store would be SQL in two places.
  expect(forbidden((from, to) => to.role === 'store' && !['service', 'other'].includes(from.role))).toEqual([])
})

test('a schema imports nothing of the project but schemas, closed lists and written forms', () => {
  expect(
    forbidden(
      (from, to, one) =>
        from.role === 'schema' &&
        isSlice(from.part) &&
        to.role !== 'schema' &&
        !PURE.includes(to.path) &&
        !one.typeOnly,
    ),
  ).toEqual([])
  const packages = files.flatMap((file) =>
    file.role === 'schema' && isSlice(file.part)
      ? file.imports.filter((one) => !one.ofProject).map((one) => one.target)
      : [],
  )
  expect([...new Set(packages)]).toEqual(['zod'])
})

test('only app and start take the route tables', () => {
  expect(
    forbidden((from, to) => to.role === 'routes' && isSlice(to.part) && !['app.ts', 'start.ts'].includes(from.path)),
  ).toEqual([])
})

test('only core/server.ts and what it serves pages and plain routes with know the web framework', () => {
  expect(importing((one) => one.target.includes('fastify'))).toEqual([
    'core/openapi-page.ts',
    'core/plain-routes.ts',
    'core/server.ts',
  ])
})

test('SQL stands only in core, stores, the delivery engine and database.ts', () => {
  const isTag = (one: Import) => one.target === 'core/db.ts' && (one.names.includes('sql') || one.names.includes('*'))
  const mayHoldSql = (path: string) =>
    /^core\/|(?:^|[/-])store\.ts$|^webhooks\/engine\/|^ledger\/embedded\/|^database\.ts$/.test(path)
  expect(importing(isTag).filter((path) => !mayHoldSql(path))).toEqual([])
  expect(importing((one) => one.target === 'pg').filter((path) => !path.startsWith('core/'))).toEqual([])
})

test('only config.ts reads the environment, only main.ts the arguments, and only main.ts ends the process', () => {
  expect(having(/process\.env|from 'node:process'/)).toEqual(['config.ts'])
  expect(having(/process\.argv/)).toEqual(['main.ts'])
  expect(having(/process\.(exit|exitCode|abort|kill)\b/).filter((path) => !path.startsWith('core/embedded/'))).toEqual([
    'main.ts',
  ])
  expect(having(/process\.(exit|exitCode|abort)\b/)).toEqual(['main.ts'])
})

test('nothing calls out but by the guarded egress', () => {
  expect(having(/\bfetch\(/)).toEqual([])
  expect(importing((one) => one.target === 'undici').filter((path) => !path.startsWith('core/egress/'))).toEqual([])
})

test('no file is a barrel, and none has a default export', () => {
  expect(having(/^export \*|^export default/m)).toEqual(['core/threshold.ts'])
  expect(files.filter(({ path }) => path.endsWith('index.ts'))).toEqual([])
})

test(`no source file is longer than ${LINES_MAX} lines`, () => {
  const long = files.filter(({ text }) => text.split('\n').length - 1 > LINES_MAX).map(({ path }) => path)
  expect(long).toEqual([])
})
