import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { expectError, expectRefusal } from '../../../test/harness/envelope.ts'
import { type Service, startService, type Tenant } from '../../../test/harness/harness.ts'
import { EVENT_TYPES } from '../../platform/events/event-catalogue.ts'
import { newType, ok } from '../events/own-events.fixture.ts'

let service: Service
let tenant: Tenant
beforeAll(async () => {
  service = await startService()
  tenant = await service.newTenant()
})
afterAll(() => service.stop())

const NAME = 'acme.invoice.paid'

test('a type is created, read, changed, archived and restored, and a publish knows at once', async () => {
  const of = await service.newTenant()
  const made = await newType(of, NAME, { description: 'An invoice was paid.', example: { total: '1' } })
  expect(made).toEqual({
    id: expect.stringMatching(/^ety_[0-9a-z]{26}$/),
    appId: of.appId,
    name: NAME,
    description: 'An invoice was paid.',
    schema: null,
    schemaVersion: 1,
    example: { total: '1' },
    deprecated: false,
    status: 'active',
    createdAt: expect.any(String),
    updatedAt: expect.any(String),
  })
  const path = `/event-types/${made.id}`
  const publish = () => of.post('/events', { type: NAME, data: {} })
  expect(ok(await of.get(path))).toEqual(made)
  expect(ok(await of.patch(path, {}))).toEqual(made)
  const changed = ok(await of.patch(path, { description: null, example: null, deprecated: true }))
  expect(changed).toMatchObject({ description: null, example: null, deprecated: true, schemaVersion: 1 })
  ok(await publish(), 201)
  expect(ok(await of.delete(path))).toMatchObject({ id: made.id, status: 'archived' })
  expectError(await publish(), 409, 'event_type_archived')
  expect(ok(await of.delete(path)).status).toBe('archived')
  expect(ok(await of.get('/event-types'))).toEqual([])
  expect(ok(await of.get('/event-types?status=archived'))).toHaveLength(1)
  expectError(await of.post('/event-types', { name: NAME }), 409, 'already_exists')
  expect(ok(await of.patch(path, { status: 'active' })).status).toBe('active')
  ok(await publish(), 201)
})

test('names have two parts or more, in lower case, and none is of a family that is reserved', async () => {
  const names = ['acme.paid', 'acme.invoice.paid', 'acme-2.x_y.2nd', `a.${'b'.repeat(98)}`]
  for (const name of names) await newType(tenant, name)
  const wrong = [
    '',
    'acme',
    'acme.',
    '.acme',
    'acme..x',
    'Acme.paid',
    'acme.Paid',
    'acme paid.x',
    '1acme.x',
    'acme.*',
    '*',
  ]
  const reserved = [
    ...EVENT_TYPES,
    'user.exploded',
    'halfkey.x',
    'users.imported',
    'dashboard.signed_in',
    'event_type.x',
  ]
  for (const name of [...wrong, ...reserved, `a.${'b'.repeat(99)}`, 'acme.ü', 'acme.x\n']) {
    const [detail] = expectRefusal(await tenant.post('/event-types', { name }), 'validation_failed', name)
    expect([detail.field, detail.code], name).toEqual(['name', reserved.includes(name) ? 'reserved' : 'invalid'])
  }
})

test('a list is filtered by app, name and status, and sorted by creation', async () => {
  const of = await service.newTenant()
  const shop = ok(await of.post('/apps', { name: 'Shop' }), 201).id
  const first = await newType(of, NAME)
  const second = await newType(of, NAME, { appId: shop })
  const third = await newType(of, 'acme.other')
  const ids = async (query: string) => ok(await of.get(`/event-types${query}`)).map(({ id }: { id: string }) => id)
  expect(await ids('')).toEqual([third.id, second.id, first.id])
  expect(await ids('?sort=createdAt')).toEqual([first.id, second.id, third.id])
  expect(await ids(`?app_id=${shop}`)).toEqual([second.id])
  expect(await ids(`?name=${NAME}`)).toEqual([second.id, first.id])
  expect(await ids('?name=acme.none')).toEqual([])
  expectRefusal(await of.get('/event-types?status=gone'), 'validation_failed')
})

test('a key of an app sees and changes the types of its app only', async () => {
  const of = await service.newTenant()
  const shop = ok(await of.post('/apps', { name: 'Shop' }), 201).id as string
  const foreign = await newType(of, NAME)
  const key = await of.newKey({ scopes: ['event_types:write'], appId: shop })
  const own = ok(await of.post('/event-types', { name: NAME }, { key }), 201)
  expect(own.appId).toBe(shop)
  expect(ok(await of.get('/event-types', { key })).map(({ id }: { id: string }) => id)).toEqual([own.id])
  const unknown = 'ety_01jb2m7x9kq4t8v6w0r3s5y1zz'
  for (const call of [
    (id: string) => of.get(`/event-types/${id}`, { key }),
    (id: string) => of.patch(`/event-types/${id}`, { deprecated: true, schema: {} }, { key }),
    (id: string) => of.delete(`/event-types/${id}`, { key }),
  ]) {
    const [theirs, none] = [await call(foreign.id), await call(unknown)]
    expectError(theirs, 404, 'not_found')
    expect(theirs.text).toBe(none.text)
  }
  expectError(await of.post('/event-types', { name: 'acme.x', appId: of.appId }, { key }), 404, 'not_found')
  expect(ok(await of.get(`/event-types/${foreign.id}`))).toEqual(foreign)
})

test('the types of an app go with it', async () => {
  const of = await service.newTenant()
  const shop = ok(await of.post('/apps', { name: 'Shop' }), 201).id
  const { id } = await newType(of, NAME, { appId: shop })
  ok(await of.post('/events', { type: NAME, data: {}, appId: shop }), 201)
  ok(await of.delete(`/apps/${shop}`))
  expectError(await of.get(`/event-types/${id}`), 404, 'not_found')
  expectError(await of.post('/events', { type: NAME, data: {}, appId: shop }), 404, 'not_found')
})

test('twenty creations of one name at once make one type', async () => {
  const of = await service.newTenant()
  const answers = await Promise.all(Array.from({ length: 20 }, () => of.post('/event-types', { name: NAME })))
  expect(answers.filter(({ status }) => status === 201)).toHaveLength(1)
  for (const answer of answers) if (answer.status !== 201) expectError(answer, 409, 'already_exists')
})

describe('schemas', () => {
  const schema = {
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    type: 'object',
    required: ['invoiceId', 'total'],
    properties: {
      invoiceId: { type: 'string', pattern: '^inv_[a-z0-9]+$' },
      total: { $ref: '#/$defs/amount' },
      lines: { type: 'array', maxItems: 3, items: { type: 'object', properties: { n: { type: 'integer' } } } },
    },
    additionalProperties: false,
    $defs: { amount: { type: 'string', pattern: '^\\d+\\.\\d{2}$' } },
  }
  const good = { invoiceId: 'inv_1', total: '25.00', lines: [{ n: 1 }] }

  test('data must match the schema of its type, and each problem names its field', async () => {
    const of = await service.newTenant()
    await newType(of, NAME, { schema, example: good })
    const publish = (data: object) => of.post('/events', { type: NAME, data })
    ok(await publish(good), 201)
    const cases: [data: object, fields: Record<string, string>][] = [
      [{ invoiceId: 'inv_1' }, { 'data.total': 'required' }],
      [{ ...good, total: 25 }, { 'data.total': 'wrong_type' }],
      [{ ...good, total: '25' }, { 'data.total': 'invalid' }],
      [{ ...good, more: 1 }, { 'data.more': 'unknown_field' }],
      [{ ...good, lines: [{ n: 1 }, { n: 1.5 }] }, { 'data.lines.1.n': 'wrong_type' }],
      [{ ...good, lines: [{}, {}, {}, {}] }, { 'data.lines': 'invalid' }],
      [
        { invoiceId: 7, x: 1 },
        { 'data.invoiceId': 'wrong_type', 'data.total': 'required', 'data.x': 'unknown_field' },
      ],
    ]
    for (const [data, fields] of cases) {
      const details = expectRefusal(await publish(data), 'validation_failed', JSON.stringify(data))
      expect(Object.fromEntries(details.map(({ field, code }) => [field, code]))).toEqual(fields)
    }
    const events = [
      { type: NAME, data: good },
      { type: NAME, data: {} },
    ]
    const inBatch = expectRefusal(await of.post('/events/batch', { events }), 'validation_failed')
    expect(inBatch.map(({ field }) => field).sort()).toEqual(['events[1].data.invoiceId', 'events[1].data.total'])
  })

  test('each change of the schema is a new version, which the next publish is held against', async () => {
    const of = await service.newTenant()
    const { id } = await newType(of, NAME, { schema })
    const path = `/event-types/${id}`
    const publish = (data: object) => of.post('/events', { type: NAME, data })
    expectRefusal(await publish({}), 'validation_failed')
    expect(ok(await of.patch(path, { schema })).schemaVersion).toBe(1)
    expect(ok(await of.patch(path, { schema: { required: ['a'] } }))).toMatchObject({ schemaVersion: 2 })
    expect(expectRefusal(await publish(good), 'validation_failed')[0].field).toBe('data.a')
    ok(await publish({ a: 1 }), 201)
    expect(ok(await of.patch(path, { schema: null, description: 'x' }))).toMatchObject({
      schemaVersion: 3,
      schema: null,
    })
    ok(await publish({}), 201)
    expect(ok(await of.patch(path, { description: 'y' })).schemaVersion).toBe(3)
  })

  test('an example must match the schema, whichever of them is changed', async () => {
    const of = await service.newTenant()
    const body = { name: NAME, schema, example: { ...good, total: 1 } }
    expect(expectRefusal(await of.post('/event-types', body), 'validation_failed')[0].field).toBe('example.total')
    const { id } = await newType(of, NAME, { schema, example: good })
    for (const change of [{ example: {} }, { schema: { required: ['x'] } }])
      expectRefusal(await of.patch(`/event-types/${id}`, change), 'validation_failed')
    ok(await of.patch(`/event-types/${id}`, { schema: { required: ['x'] }, example: { x: 1 } }))
  })

  const refused: [what: string, schema: object, field: string][] = [
    ['a reference to the network', { $ref: 'https://example.com/schema.json' }, 'schema.$ref'],
    ['a reference to a file', { properties: { a: { $ref: 'file:///etc/passwd' } } }, 'schema.properties.a.$ref'],
    ['a relative reference', { $ref: 'other.json#/a' }, 'schema.$ref'],
    ['a reference to nothing', { $ref: '#/$defs/none' }, 'schema.$ref'],
    ['a reference to what is no schema', { $ref: '#/required', required: ['a'] }, 'schema.$ref'],
    ['a reference to the prototype', { $ref: '#/toString' }, 'schema.$ref'],
    ['a reference to itself', { $ref: '#' }, 'schema'],
    [
      'references in a circle',
      { $ref: '#/$defs/a', $defs: { a: { allOf: [{ $ref: '#/$defs/b' }] }, b: { $ref: '#/$defs/a' } } },
      'schema',
    ],
    ['a dynamic reference', { $dynamicRef: '#x' }, 'schema.$dynamicRef'],
    ['an anchor', { $anchor: 'x' }, 'schema.$anchor'],
    ['an id inside', { properties: { a: { $id: 'https://example.com/a' } } }, 'schema.properties.a.$id'],
    ['another dialect', { $schema: 'http://json-schema.org/draft-07/schema#' }, 'schema.$schema'],
    ['a type of another language', { type: 'float' }, 'schema.type'],
    ['a number as schema', { properties: { a: 1 } }, 'schema.properties.a'],
    ['a lookahead', { pattern: '^(?=a)b' }, 'schema.pattern'],
    ['a lookbehind', { pattern: '(?<!a)b' }, 'schema.pattern'],
    ['a backreference', { pattern: '(a)\\1' }, 'schema.pattern'],
    ['a broken pattern', { properties: { a: { pattern: '(' } } }, 'schema.properties.a.pattern'],
    ['a broken pattern of names', { patternProperties: { '[': {} } }, 'schema.patternProperties.['],
    ['repetitions of repetitions', { pattern: '(((a{100}){100}){100}){100}' }, 'schema.pattern'],
    ['a pattern that is too large', { pattern: '(\\pL{1,200}){1,5}'.repeat(10) }, 'schema.pattern'],
    [
      '101 patterns',
      { allOf: Array.from({ length: 101 }, (_, n) => ({ pattern: `a${n}` })) },
      'schema.allOf.100.pattern',
    ],
    [
      'patterns that take long to compile',
      { allOf: Array.from({ length: 9 }, (_, n) => ({ pattern: `[${'\\p{L}\\P{L}'.repeat(50)}]${n}` })) },
      'schema.allOf.7.pattern',
    ],
    ['more than 64 KiB', { description: 'x'.repeat(64 * 1024) }, 'schema'],
  ]
  test.each(refused)('a schema is refused with %s', async (_, bad, field) => {
    const [detail] = expectRefusal(
      await tenant.post('/event-types', { name: 'acme.bad', schema: bad }),
      'validation_failed',
    )
    expect(detail.field).toBe(field)
    expect(ok(await tenant.get('/event-types?name=acme.bad'))).toEqual([])
  })

  test('a schema as deep as a body may be works, and a deeper one is refused', async () => {
    const of = await service.newTenant()
    const nested = (levels: number): object => (levels === 0 ? {} : { not: nested(levels - 1) })
    await newType(of, 'acme.deep', { schema: nested(30) })
    ok(await of.post('/events', { type: 'acme.deep', data: {} }), 201)
    expectRefusal(await of.post('/event-types', { name: 'acme.deeper', schema: nested(40) }), 'malformed_json')
  })
})
