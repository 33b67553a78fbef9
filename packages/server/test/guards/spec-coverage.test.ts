import { afterAll, beforeAll, expect, test } from 'vitest'
import { routes } from '../../src/app.ts'
import { expectError } from '../harness/envelope.ts'
import { call, type Service, startService } from '../harness/harness.ts'
import { nameOf } from '../matrix/requests.ts'
import { EXTENSIONS, PENDING, SPEC_ENDPOINTS, type SpecEndpoint } from '../matrix/spec-endpoints.ts'

let service: Service
beforeAll(async () => {
  service = await startService()
})
afterAll(() => service.stop())

const sorted = (names: Iterable<string>) => [...names].sort()
const built = new Map(routes.map((route) => [nameOf(route), route]))

function expectAsInMatrix(endpoints: readonly SpecEndpoint[]): void {
  const seen = endpoints.flatMap((endpoint) => {
    const route = built.get(nameOf(endpoint))
    if (route === undefined) return []
    const { scope = null } = route.callers as { scope?: string }
    return [`${nameOf(endpoint)} ${scope} ${route.status ?? 200}`]
  })
  const wanted = endpoints
    .filter((endpoint) => built.has(nameOf(endpoint)))
    .map((endpoint) => `${nameOf(endpoint)} ${endpoint.scope} ${endpoint.status}`)
  expect(seen).toEqual(wanted)
}

test('the specification has 56 endpoints, each once', () => {
  expect(SPEC_ENDPOINTS).toHaveLength(56)
  expect(new Set(SPEC_ENDPOINTS.map(nameOf)).size).toBe(56)
})

test('every endpoint of the specification is served or is known to be pending, none is both', () => {
  const served = routes.filter((route) => !route.extension).map(nameOf)
  expect(sorted([...served, ...PENDING])).toEqual(sorted(SPEC_ENDPOINTS.map(nameOf)))
})

test('what is not in the specification is flagged as an extension and is listed', () => {
  const flagged = routes.filter((route) => route.extension).map(nameOf)
  expect(sorted(flagged)).toEqual(sorted(EXTENSIONS.map(nameOf)))
})

test('no endpoint is in the route table twice', () => {
  expect(built.size).toBe(routes.length)
})

test('scope and status of success are those of the caller matrix', () => {
  expectAsInMatrix(SPEC_ENDPOINTS)
  expectAsInMatrix(EXTENSIONS)
})

test.each(SPEC_ENDPOINTS.map((endpoint) => [nameOf(endpoint), endpoint] as const))(
  '%s answers 401 without a key, and with one 404 exactly if it is pending',
  async (name, { method, path }) => {
    const url = `/v1${path.replace(/:\w+/, 'none')}`
    expectError(await call(service.url, method, url), 401, 'api_key_missing', name)
    const answer = await call(service.url, method, url, {
      key: service.admin.key,
      body: method === 'GET' ? undefined : {},
    })
    if (PENDING.includes(name)) expectError(answer, 404, 'not_found', name)
    else if (path.includes(':')) expect([400, 401, 404], answer.text).toContain(answer.status)
    else expect(answer.body.code, answer.text).not.toBe('not_found')
  },
)
