import { afterAll, beforeAll, expect, test } from 'vitest'
import { routes } from '../../src/app.ts'
import { STATUSES } from '../harness/envelope.ts'
import { call, type Service, startService } from '../harness/harness.ts'
import { paramsOf } from '../matrix/requests.ts'

type Json = { [key: string]: Json } & { [index: number]: Json } & Iterable<Json>

let service: Service
// biome-ignore lint/suspicious/noExplicitAny: a document that is walked by path
let document: any
beforeAll(async () => {
  service = await startService()
  document = (await call(service.url, 'GET', '/openapi.json')).body
})
afterAll(() => service.stop())

/** Every object in the document, with its JSON pointer. */
function* objects(value: unknown, pointer = ''): Generator<[string, Record<string, unknown>]> {
  if (typeof value !== 'object' || value === null) return
  if (!Array.isArray(value)) yield [pointer, value as Record<string, unknown>]
  for (const [key, inner] of Object.entries(value))
    yield* objects(inner, `${pointer}/${key.replaceAll('~', '~0').replaceAll('/', '~1')}`)
}

function resolve(pointer: string): unknown {
  return pointer
    .split('/')
    .slice(1)
    .map((part) => decodeURIComponent(part).replaceAll('~1', '/').replaceAll('~0', '~'))
    .reduce<unknown>((at, part) => (at as Record<string, unknown> | undefined)?.[part], document)
}

const operations = () =>
  Object.entries(document.paths as Json).flatMap(([path, item]) =>
    Object.entries(item).map(([method, operation]) => ({ path, method, operation })),
  )

test('the document is OpenAPI 3.1 and describes exactly the endpoints that there are', () => {
  expect(document.openapi).toMatch(/^3\.1\.\d+$/)
  expect(document.info).toMatchObject({ title: expect.any(String), version: expect.any(String) })
  const described = operations().map(({ path, method }) => `${method.toUpperCase()} ${path}`)
  const served = routes.map((route) => `${route.method} ${route.path.replace(/:(\w+)/g, '{$1}')}`)
  expect(described.sort()).toEqual(served.sort())
})

test('every reference leads to something, and every component is used', () => {
  const targets = new Set<string>()
  for (const [pointer, value] of objects(document)) {
    if (typeof value.$ref !== 'string') continue
    expect(value.$ref, pointer).toMatch(/^#\//)
    expect(resolve(value.$ref), `${pointer} → ${value.$ref}`).toBeDefined()
    targets.add(value.$ref)
  }
  const schemas = Object.keys(document.components.schemas).map((name) => `#/components/schemas/${name}`)
  expect(schemas.filter((name) => !targets.has(name))).toEqual([])
})

test('operation ids are unique, and each operation has a summary, a tag and a key', () => {
  const ids = operations().map(({ operation }) => operation.operationId)
  expect(new Set(ids).size).toBe(ids.length)
  for (const { path, method, operation } of operations()) {
    expect(operation, `${method} ${path}`).toMatchObject({
      summary: expect.stringMatching(/\S/),
      tags: [expect.any(String)],
    })
  }
  expect(document.security).toEqual([{ apiKey: [] }])
  expect(document.components.securitySchemes.apiKey).toEqual({ type: 'apiKey', in: 'header', name: 'x-api-key' })
})

test('every parameter in a path is declared, once, and none beside', () => {
  for (const route of routes) {
    const operation = document.paths[route.path.replace(/:(\w+)/g, '{$1}')][route.method.toLowerCase()]
    const parameters = operation.parameters.map((one: { $ref?: string }) =>
      one.$ref === undefined ? one : resolve(one.$ref),
    )
    const named = parameters.map((one: { name: string; in: string }) => `${one.in} ${one.name}`)
    expect(new Set(named).size, route.path).toBe(named.length)
    expect(
      parameters.filter((one: { in: string }) => one.in === 'path').map((one: { name: string }) => one.name),
    ).toEqual(paramsOf(route))
    for (const one of parameters)
      expect(one, route.path).toMatchObject({
        name: expect.any(String),
        required: expect.any(Boolean),
        schema: expect.any(Object),
      })
  }
})

test("answers have the route's status of success and no status that the specification does not know", () => {
  for (const route of routes) {
    const { responses } = document.paths[route.path.replace(/:(\w+)/g, '{$1}')][route.method.toLowerCase()]
    const statuses = Object.keys(responses).map(Number)
    expect(statuses.filter((status) => status < 300)).toEqual([route.status ?? 200])
    for (const status of statuses) expect(STATUSES).toContain(status)
    expect(statuses).toEqual(expect.arrayContaining([400, 401, 403, 429, 500]))
    for (const status of statuses) {
      const { schema } = responses[status].content['application/json']
      if (status >= 400) expect(schema).toEqual({ $ref: '#/components/schemas/Error' })
    }
  }
})

test('an error code of a route is in the answer of its status, with the status of its table', () => {
  for (const route of routes)
    for (const code of route.errors ?? []) {
      const { responses } = document.paths[route.path.replace(/:(\w+)/g, '{$1}')][route.method.toLowerCase()]
      const holding = Object.entries(responses as Json).filter(([, response]) =>
        String(response.description).includes(`\`${code}\``),
      )
      expect(
        holding.map(([status]) => status),
        `${route.method} ${route.path} ${code}`,
      ).toHaveLength(1)
    }
})

test('schemas are JSON Schema 2020-12 with closed request bodies, and none is empty', () => {
  for (const { path, method, operation } of operations()) {
    const body = operation.requestBody?.content?.['application/json']?.schema
    if (body === undefined) continue
    const schema = (typeof body.$ref === 'string' ? resolve(body.$ref) : body) as Json
    // What the messenger signed is taken as it is: it may add a field at any time.
    if (path === '/auth/messenger/verify') continue
    expect(schema, `${method} ${path}`).toMatchObject({ type: 'object', additionalProperties: false })
    // A call without a body is one with {}: it will do where no field is required.
    expect(operation.requestBody?.required, `${method} ${path}`).toBe(schema.required !== undefined)
  }
  for (const [pointer, value] of objects(document.components.schemas)) {
    if (value.type === 'array') expect(value.items, pointer).toBeDefined()
    if (Array.isArray(value.required)) {
      const properties = Object.keys(value.properties as object)
      for (const name of value.required) expect(properties, pointer).toContain(name)
    }
  }
})

test('the document holds no key and no secret', () => {
  expect(JSON.stringify(document)).not.toMatch(/hk_[sp]k_[0-9A-Za-z]{49}/)
})
