import { afterAll, beforeAll, expect, test } from 'vitest'
import { expectRefusal } from '../../../test/harness/envelope.ts'
import { type Service, startService, type Tenant } from '../../../test/harness/harness.ts'
import { newType, ok } from '../events/own-events.fixture.ts'

let service: Service
let tenant: Tenant
beforeAll(async () => {
  service = await startService()
  tenant = await service.newTenant()
})
afterAll(() => service.stop())

/** A schema of `v`, values that match it, and values that do not, with the field of the problem. */
const ofValue = (schema: unknown) => ({ properties: { v: schema } })
const V: [what: string, schema: unknown, valid: unknown[], invalid: unknown[], field?: string][] = [
  ['type', { type: 'integer' }, [1, 1.0, -2], [1.5, '1', null]],
  ['type, several', { type: ['string', 'null'] }, ['', null], [0, []]],
  ['enum', { enum: ['a', 1, { b: [2] }] }, ['a', 1, { b: [2] }], ['b', '1', { b: [3] }, {}]],
  ['const', { const: { a: [1, null], b: 2 } }, [{ b: 2, a: [1, null] }], [{ a: [null, 1], b: 2 }, null]],
  ['multipleOf', { multipleOf: 0.01 }, [19.99, 0, -1.07], [0.001, 19.995]],
  ['minimum and maximum', { minimum: 1, maximum: 2 }, [1, 2, 'x'], [0.9, 2.1]],
  ['exclusive bounds', { exclusiveMinimum: 1, exclusiveMaximum: 2 }, [1.5], [1, 2]],
  ['lengths in characters', { minLength: 2, maxLength: 2 }, ['👍👍', 'ab'], ['👍', 'abc']],
  ['pattern, anywhere', { pattern: 'b+\\d' }, ['abb1c', 7], ['ab', '1b']],
  ['pattern, of Unicode', { pattern: '^\\p{L}+$' }, ['äß'], ['a1']],
  ['items', { items: { type: 'number' } }, [[], [1], {}], [['x']], 'data.v.0'],
  ['prefixItems', { prefixItems: [{ type: 'number' }], items: false }, [[], [1]], [[1, 2]], 'data.v.1'],
  [
    'contains',
    { contains: { const: 1 }, minContains: 2, maxContains: 3 },
    [
      [1, 1],
      [1, 1, 1, 2],
    ],
    [[1], [1, 1, 1, 1]],
  ],
  ['list sizes', { minItems: 1, maxItems: 2 }, [[1], [1, 2]], [[], [1, 2, 3]]],
  [
    'uniqueItems',
    { uniqueItems: true },
    [[1, '1', { a: 1 }, { a: 2 }]],
    [
      [1, 1.0],
      [
        { a: 1, b: 2 },
        { b: 2, a: 1 },
      ],
    ],
  ],
  ['required', { required: ['a'] }, [{ a: null }], [{}, { A: 1 }], 'data.v.a'],
  [
    'additionalProperties',
    { properties: { a: true }, additionalProperties: false },
    [{ a: 1 }],
    [{ b: 1 }],
    'data.v.b',
  ],
  [
    'patternProperties',
    { patternProperties: { '^n_': { type: 'number' } } },
    [{ n_a: 1, b: 'x' }],
    [{ n_a: 'x' }],
    'data.v.n_a',
  ],
  ['propertyNames', { propertyNames: { maxLength: 2 } }, [{ ab: 1 }], [{ abc: 1 }], 'data.v.abc'],
  ['member counts', { minProperties: 1, maxProperties: 1 }, [{ a: 1 }], [{}, { a: 1, b: 2 }]],
  ['dependentRequired', { dependentRequired: { a: ['b'] } }, [{}, { a: 1, b: 1 }], [{ a: 1 }], 'data.v.b'],
  [
    'dependentSchemas',
    { dependentSchemas: { a: { required: ['b'] } } },
    [{ b: 1 }, { a: 1, b: 1 }],
    [{ a: 1 }],
    'data.v.b',
  ],
  ['allOf', { allOf: [{ minimum: 1 }, { maximum: 2 }] }, [1], [0, 3]],
  ['anyOf', { anyOf: [{ const: 1 }, { type: 'string' }] }, [1, 'x'], [2]],
  ['oneOf', { oneOf: [{ minimum: 1 }, { maximum: 2 }] }, [0, 3], [1]],
  ['not', { not: { type: 'string' } }, [1], ['x']],
  // biome-ignore lint/suspicious/noThenProperty: the keyword's name
  ['if, then, else', { if: { minimum: 10 }, then: { multipleOf: 10 }, else: { multipleOf: 2 } }, [4, 20], [3, 12]],
  ['false', false, [], [null, 1]],
  [
    'unevaluatedProperties',
    {
      allOf: [{ properties: { a: true } }],
      anyOf: [{ required: ['b'], properties: { b: true } }, true],
      unevaluatedProperties: false,
    },
    [{ a: 1 }, { a: 1, b: 1 }],
    [{ c: 1 }],
    'data.v.c',
  ],
  [
    'unevaluatedItems',
    { allOf: [{ prefixItems: [true] }], contains: { const: 1 }, unevaluatedItems: false },
    [[0, 1], [1]],
    [[0, 1, 2]],
    'data.v.2',
  ],
  ['format, which is not checked', { format: 'email' }, ['no email'], []],
]

test.each(V)('%s', async (what, schema, valid, invalid, field = 'data.v') => {
  const name = `acme.k${V.findIndex(([each]) => each === what)}`
  await newType(tenant, name, { schema: ofValue(schema) })
  const publish = (v: unknown) => tenant.post('/events', { type: name, data: { v } })
  for (const v of valid) ok(await publish(v), 201)
  for (const v of invalid)
    expect(expectRefusal(await publish(v), 'validation_failed', JSON.stringify(v))[0].field).toBe(field)
})

test('a recursive schema holds for a tree, however deep, and names the field that is wrong', async () => {
  const node = {
    type: 'object',
    required: ['n'],
    properties: { n: { type: 'integer' }, next: { $ref: '#/$defs/node' } },
  }
  await newType(tenant, 'acme.tree', { schema: { $ref: '#/$defs/node', $defs: { node } } })
  const good = { n: 1, next: { n: 2, next: { n: 3 } } }
  ok(await tenant.post('/events', { type: 'acme.tree', data: good }), 201)
  const bad = { n: 1, next: { n: 2, next: {} } }
  const details = expectRefusal(await tenant.post('/events', { type: 'acme.tree', data: bad }), 'validation_failed')
  expect(details.map(({ field }) => field)).toEqual(['data.next.next.n'])
})
