import { globSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { expect, test } from 'vitest'
import {
  circlesIn,
  files,
  forbidden,
  having,
  type Import,
  importing,
  type SourceFile,
  targetOf,
} from './source-graph.ts'

const PACKAGES = join(import.meta.dirname, '../../..')
const LINES_MAX = 400
const FILES_MAX = 20

/** Each room may import itself and the rooms after it. The files of `src/` itself come first. */
const ROOMS = ['operations', 'keys', 'delegation', 'wallets', 'identity', 'tenancy', 'platform']
/** They stand beside the others, on tenancy and the platform. */
const BESIDE = ['delivery', 'insight']

/** Which slice may import which others' `service.ts` and `schema.ts`. A new line here is a decision: keep it acyclic. */
const SLICE_IMPORTS: Record<string, string[]> = {
  delegation: [
    'identity/passkeys',
    'identity/sessions',
    'identity/sign-in',
    'identity/users',
    'tenancy/apps',
    'wallets/custody',
    'wallets/tokens',
    'wallets/transactions',
    'wallets/wallets',
  ],
  'delivery/engine': [],
  'delivery/event-types': ['tenancy/apps'],
  'delivery/events': ['delivery/event-types', 'delivery/subscribers', 'delivery/webhooks', 'tenancy/apps'],
  'delivery/jobs': [],
  'delivery/portal': ['delivery/event-types', 'delivery/subscribers', 'tenancy/apps'],
  'delivery/subscribers': ['tenancy/apps'],
  'delivery/webhooks': [
    'delivery/engine',
    'delivery/event-types',
    'delivery/jobs',
    'delivery/subscribers',
    'tenancy/apps',
  ],
  'identity/email-recovery': [
    'identity/email-sign-in',
    'identity/emails',
    'identity/identities',
    'identity/passkeys',
    'identity/sessions',
    'identity/users',
    'tenancy/apps',
  ],
  'identity/email-sign-in': [
    'identity/emails',
    'identity/identities',
    'identity/sessions',
    'identity/users',
    'tenancy/apps',
  ],
  'identity/emails': ['tenancy/apps'],
  'identity/external-wallets': ['identity/identities', 'identity/sessions', 'identity/users', 'tenancy/apps'],
  'identity/guests': ['identity/identities', 'identity/sessions', 'identity/users', 'tenancy/apps'],
  'identity/foreign-tokens': ['tenancy/apps'],
  'identity/id-tokens': ['identity/sessions', 'tenancy/apps'],
  'identity/identities': ['identity/foreign-tokens', 'identity/sessions', 'identity/users', 'tenancy/apps'],
  'identity/messenger': ['identity/identities', 'identity/users', 'tenancy/apps'],
  'identity/mfa': ['identity/sessions', 'identity/users', 'tenancy/apps'],
  'identity/passkeys': ['identity/identities', 'identity/sessions', 'identity/users', 'tenancy/apps'],
  'identity/providers': [
    'identity/foreign-tokens',
    'identity/identities',
    'identity/sessions',
    'identity/sign-in',
    'identity/users',
    'tenancy/apps',
  ],
  'identity/sessions': ['tenancy/apps'],
  'identity/sign-in': ['identity/emails', 'identity/messenger', 'identity/sessions', 'identity/users', 'tenancy/apps'],
  'identity/users': ['identity/sessions', 'tenancy/apps', 'tenancy/tenant'],
  'insight/analytics': ['tenancy/apps'],
  'insight/audit': [],
  'keys/key-generations': ['wallets/custody', 'wallets/wallets'],
  'keys/key-shares': [
    'delegation',
    'identity/identities',
    'identity/passkeys',
    'identity/sessions',
    'wallets/custody',
    'wallets/wallets',
  ],
  'keys/recovery': ['delegation', 'identity/sessions', 'tenancy/apps', 'wallets/custody', 'wallets/wallets'],
  'tenancy/api-keys': ['tenancy/apps'],
  'tenancy/apps': [],
  'tenancy/billing': ['tenancy/tenant'],
  'tenancy/custom-domains': ['tenancy/apps'],
  'tenancy/tenant': ['tenancy/api-keys', 'tenancy/apps'],
  'wallets/custody': [],
  'wallets/faucet': ['identity/users', 'wallets/wallets'],
  'wallets/ledger': [],
  'wallets/onboarding': ['wallets/custody', 'wallets/wallets'],
  'wallets/templates': ['wallets/ledger'],
  'wallets/tokens': ['wallets/wallets'],
  'wallets/transactions': ['tenancy/apps', 'wallets/custody'],
  'wallets/wallets': ['identity/sessions', 'identity/users', 'tenancy/apps', 'tenancy/tenant', 'wallets/custody'],
  'wallets/x402': ['wallets/wallets'],
}

/** Closed lists and forms of the wire contract that schemas are made of; they are as pure as a schema. */
const PURE = [
  'platform/http/route.ts',
  'platform/security/api-key.ts',
  'platform/events/event-catalogue.ts',
  'platform/events/audit-actions.ts',
  'platform/events/custom-types.ts',
  'platform/ports/amount.ts',
  'platform/ports/party.ts',
]

/** What other slices see of the embedded ledger; the rest is behind the port. */
const LEDGER_OPEN = [
  'wallets/ledger/configured.ts',
  'wallets/ledger/embedded/template-catalogue.ts',
  'wallets/ledger/proof/service.ts',
  'wallets/ledger/slice.ts',
]
/** What the webhook slice sees of its engine. */
const ENGINE_OPEN = [
  'delivery/engine/content/message.ts',
  'delivery/engine/health/recent.ts',
  'delivery/engine/lanes.ts',
  'delivery/engine/options/options.ts',
  'delivery/engine/send.ts',
]

const isRoot = (file: SourceFile) => file.path === file.room
const isProcess = (file: SourceFile) => isRoot(file) || file.room === 'operations'
const inSlice = (file: SourceFile) => !isProcess(file) && file.room !== 'platform'

test('the imports of every source file are known, and each leads to a source file', () => {
  expect(files.length).toBeGreaterThan(80)
  const outside = files.flatMap((file) =>
    file.imports
      .filter((one) => one.ofProject && targetOf(one) === undefined)
      .map((one) => `${file.path} → ${one.target}`),
  )
  // Operations call a running service by the SDK, of which they see what every client sees.
  // So does the MCP server, which one of them serves over HTTP.
  const bySdk = outside.filter((one) =>
    /^operations\/\S+ → \.\.\/\.\.\/(sdk\/src\/index|mcp\/src\/(agent|server))\.ts$/.test(one),
  )
  expect(bySdk.length).toBeGreaterThan(0)
  // The keys are a package of their own, which clients use too; each part of it is taken in here and nowhere else.
  expect(outside.filter((one) => !bySdk.includes(one))).toEqual([
    'platform/security/canonical-json.ts → ../../keys/src/canonical-json.ts',
    'platform/security/dpop/public-jwk.ts → ../../keys/src/group.ts',
    'platform/security/threshold/threshold.ts → ../../keys/src/index.ts',
    'wallets/ledger/canton/bytes.ts → ../../keys/src/canton/index.ts',
  ])
})

test('rooms import downwards: operations, keys, delegation, wallets, identity, tenancy, platform', () => {
  const rank = (room: string) => ROOMS.indexOf(BESIDE.includes(room) ? 'tenancy' : room)
  expect(files.filter((file) => !isRoot(file) && rank(file.room) < 0).map(({ path }) => path)).toEqual([])
  const upwards = (from: SourceFile, to: SourceFile) => {
    if (isRoot(from)) return false
    if (isRoot(to)) return from.room !== 'operations' || to.path !== 'config.ts'
    return rank(to.room) < rank(from.room)
  }
  expect(forbidden(upwards)).toEqual([])
  const beside = (from: SourceFile, to: SourceFile) =>
    !isProcess(from) && from.room !== to.room && (BESIDE.includes(from.room) || BESIDE.includes(to.room))
  expect(forbidden((from, to) => beside(from, to) && !['tenancy', 'platform'].includes(to.room))).toEqual([])
})

test('slices import each other along the list, which has no circle, and is no longer than needed', () => {
  const edges = new Map(files.filter(inSlice).map((file) => [file.slice, new Set<string>()]))
  forbidden((from, to) => {
    if (inSlice(from) && inSlice(to) && from.slice !== to.slice) edges.get(from.slice)?.add(to.slice)
    return false
  })
  expect(Object.fromEntries([...edges].map(([slice, others]) => [slice, [...others].sort()]))).toEqual(SLICE_IMPORTS)
  expect(circlesIn(edges)).toEqual([])
})

test('no file imports itself by way of others', () => {
  const edges = new Map(files.map((file) => [file.path, new Set<string>()]))
  forbidden((from, to, one) => {
    if (!one.typeOnly) edges.get(from.path)?.add(to.path)
    return false
  })
  expect(circlesIn(edges)).toEqual([])
})

test("a slice imports nothing of another's but its service and its schema", () => {
  const foreign = (from: SourceFile, to: SourceFile) => inSlice(from) && inSlice(to) && from.slice !== to.slice
  const open = (to: SourceFile) =>
    ['service', 'schema'].includes(to.role) || [...LEDGER_OPEN, ...ENGINE_OPEN].includes(to.path)
  expect(forbidden((from, to) => foreign(from, to) && !open(to))).toEqual([])
})

test('in a slice routes call services, services call stores, and nothing goes the other way', () => {
  const mayUse: Record<string, string[]> = {
    slice: ['routes', 'service', 'schema', 'other'],
    routes: ['service', 'schema', 'other'],
    service: ['service', 'store', 'schema', 'other'],
    store: ['store', 'schema', 'other'],
    schema: ['schema'],
    other: ['service', 'store', 'schema', 'other'],
  }
  const within = (from: SourceFile, to: SourceFile) => inSlice(from) && from.slice === to.slice
  expect(forbidden((from, to) => within(from, to) && !mayUse[from.role]?.includes(to.role))).toEqual([])
  // Only `app.ts` takes slices, and only a slice its own routes; the pages' entrances are put together there too.
  expect(
    forbidden((_, to) => to.role === 'slice' && to.room !== 'platform').every((one) => one.startsWith('app.ts')),
  ).toBe(true)
  expect(
    forbidden((from, to) => to.role === 'routes' && from.role !== 'slice').filter(
      (one) => !/^(app|start)\.ts → /.test(one) && !/egress\/routes|plain-routes/.test(one),
    ),
  ).toEqual([])
})

test('a schema imports nothing of the project but schemas, closed lists and written forms', () => {
  const schemas = files.filter((file) => file.role === 'schema' && inSlice(file))
  const impure = (from: SourceFile, to: SourceFile, one: Import) =>
    schemas.includes(from) && to.role !== 'schema' && !PURE.includes(to.path) && !one.typeOnly
  expect(forbidden(impure)).toEqual([])
  const packages = schemas.flatMap((file) => file.imports.filter((one) => !one.ofProject).map((one) => one.target))
  expect([...new Set(packages)]).toEqual(['zod'])
})

test('only start knows which ledgers there are; all others know the port', () => {
  const adapters = (from: SourceFile, to: SourceFile) =>
    from.slice !== 'wallets/ledger' && to.slice === 'wallets/ledger' && !LEDGER_OPEN.includes(to.path)
  expect(forbidden((from, to) => adapters(from, to) && from.path !== 'start.ts')).toEqual([])
})

test('only the server and what it serves pages and plain routes with know the web framework', () => {
  expect(importing((one) => one.target.includes('fastify'))).toEqual([
    'platform/http/cors.ts',
    'platform/http/pages/api-reference.ts',
    'platform/http/plain-routes.ts',
    'platform/http/server.ts',
  ])
})

test('SQL stands only in the platform, stores, the delivery engine and the embedded ledger', () => {
  const isTag = (one: Import) =>
    one.target === 'platform/db/db.ts' && (one.names.includes('sql') || one.names.includes('*'))
  const mayHoldSql = (path: string) =>
    /^platform\/|(?:^|[/-])store\.ts$|^delivery\/engine\/|^wallets\/ledger\/embedded\//.test(path)
  expect(importing(isTag).filter((path) => !mayHoldSql(path))).toEqual([])
  expect(importing((one) => one.target === 'pg').filter((path) => !path.startsWith('platform/'))).toEqual([])
})

test("no statement counts in calendar days, of which the session's time zone makes some 23 hours long", () => {
  expect(having(/interval '[^']*\b(?:day|week|month|year)s?\b/i)).toEqual([])
})

test('only config.ts reads the environment, only main.ts the arguments, and only main.ts ends the process', () => {
  // A key service's own variables are read as its tools read them, and only if the key file names it.
  const keyServices = 'platform/security/key-services/open-key-service.ts'
  expect(having(/process\.env|from 'node:process'/)).toEqual(['config.ts', keyServices])
  expect(having(/process\.argv/)).toEqual(['main.ts'])
  const ending = having(/process\.(exit|exitCode|abort|kill)\b/)
  expect(ending.filter((path) => !path.startsWith('platform/db/embedded/'))).toEqual(['main.ts'])
  expect(having(/process\.(exit|exitCode|abort)\b/)).toEqual(['main.ts'])
})

test('nothing calls out but by the guarded egress, and the command line to the addresses that its user gives', () => {
  // By the SDK, which sends what it is given; to the receiver of `halfkey listen`, as a delivery is sent; and to the key service
  // and the Canton participants that the operator names.
  expect(having(/\bfetch\(/)).toEqual(['operations/seed/service.ts', 'platform/security/key-services/vault.ts'])
  expect(importing((one) => /^node:https?$/.test(one.target) && one.names.includes('request'))).toEqual([
    'operations/cli/commands/listen.ts',
    'platform/egress/proxy.ts',
    'wallets/ledger/canton/http.ts',
  ])
  expect(importing((one) => one.target === 'undici').filter((path) => !path.startsWith('platform/egress/'))).toEqual([])
})

test('no file is a barrel, and none has a default export', () => {
  expect(having(/^export \*|^export default/m)).toEqual(['platform/security/threshold/threshold.ts'])
  expect(files.filter(({ path }) => path.endsWith('index.ts'))).toEqual([])
})

test('every hook of a lower slice is answered by one higher slice, the deletion of an app by several', () => {
  const declared = files.find(({ path }) => path === 'platform/hooks.ts')?.text ?? ''
  const hooks = [...declared.slice(declared.indexOf('interface Hooks')).matchAll(/^ {2}(\w+)\(/gm)].map(
    ([, name]) => name,
  )
  const answers = files
    .filter(({ role }) => role === 'slice')
    .flatMap(({ text }) =>
      (/hooks: \{([^}]*)\}/.exec(text)?.[1] ?? '').split(',').map((one) => one.split(':')[0]?.trim()),
    )
    .filter((name) => name)
  expect(hooks.length).toBeGreaterThan(0)
  expect([...new Set(answers)].sort()).toEqual([...hooks].sort())
  const once = answers.filter((name) => name !== 'appDeleted')
  expect(new Set(once).size).toBe(once.length)
})

test(`no source file is longer than ${LINES_MAX} lines`, () => {
  expect(files.filter(({ text }) => text.split('\n').length - 1 > LINES_MAX).map(({ path }) => path)).toEqual([])
})

test(`no source folder has more than ${FILES_MAX} files side by side`, () => {
  const counts = new Map<string, number>()
  for (const path of globSync('*/src/**/*.{ts,tsx}', { cwd: PACKAGES }))
    counts.set(dirname(path), (counts.get(dirname(path)) ?? 0) + 1)
  expect([...counts].filter(([, count]) => count > FILES_MAX)).toEqual([])
})

test('every room says what lives in it and what it may import', () => {
  for (const room of [...ROOMS, ...BESIDE]) {
    const page = readFileSync(join(PACKAGES, 'server/src', room, 'README.md'), 'utf8')
    expect(page, room).toMatch(/^# /)
    expect(page, room).toContain('May import')
  }
})
