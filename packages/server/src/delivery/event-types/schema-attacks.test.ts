import { afterAll, beforeAll, describe, expect, test } from 'vitest'
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

const TYPE = 'acme.attack'
const BYTES_MAX = 256 * 1024
/** Nearly as many as fit into the data of an event. */
const many = <T>(item: T) =>
  Array.from({ length: Math.floor((BYTES_MAX - 20) / (JSON.stringify(item).length + 1)) }, () => item)

/** A chain of schemas that each apply the next one twice. */
const fanOut = (keyword: string, levels: number) => ({
  $ref: '#/$defs/a0',
  $defs: Object.fromEntries(
    Array.from({ length: levels }, (_, n) => [
      `a${n}`,
      n === levels - 1
        ? { required: ['x'] }
        : { [keyword]: [{ $ref: `#/$defs/a${n + 1}` }, { $ref: `#/$defs/a${n + 1}` }] },
    ]),
  ),
})
/** One schema, applied again and again to the same value. */
const again = (schema: object, times: number) => ({
  $ref: '#/$defs/all',
  $defs: { schema, all: { allOf: Array.from({ length: times }, () => ({ $ref: '#/$defs/schema' })) } },
})
const numbered = <T>(count: number, item: T) =>
  Object.fromEntries(Array.from({ length: count }, (_, n) => [`k${n}`, item]))
const nested = (levels: number): unknown => (levels === 0 ? 1 : { a: nested(levels - 1), b: 1 })

interface Attack {
  schema: object
  data: object
  /** The code of the refusal; null where the data is valid. */
  code: string | null
}

const attacks: Record<string, Attack> = {
  'references that fan out': { schema: fanOut('allOf', 60), data: { x: 1 }, code: 'schema_too_complex' },
  'references that fan out over failing branches': {
    schema: fanOut('anyOf', 60),
    data: {},
    code: 'schema_too_complex',
  },
  'references that fan out with unevaluated properties': {
    schema: { ...fanOut('anyOf', 60), unevaluatedProperties: false },
    data: { x: 1 },
    code: 'schema_too_complex',
  },
  'recursion that fans out over the data': {
    schema: {
      $ref: '#/$defs/n',
      $defs: { n: { properties: { a: { allOf: Array.from({ length: 9 }, () => ({ $ref: '#/$defs/n' })) } } } },
    },
    data: nested(25) as object,
    code: 'schema_too_complex',
  },
  'thousands of branches over thousands of elements': {
    schema: { properties: { list: { items: { oneOf: Array.from({ length: 2_000 }, (_, n) => ({ const: n })) } } } },
    data: { list: many(7) },
    code: 'schema_too_complex',
  },
  'unique elements, of which there are as many as fit': {
    schema: { properties: { list: { uniqueItems: true } } },
    data: { list: Array.from({ length: 40_000 }, (_, n) => n) },
    code: null,
  },
  'unique objects that differ at their end': {
    schema: { properties: { list: { uniqueItems: true } } },
    data: { list: Array.from({ length: 6_000 }, (_, n) => ({ same: 'x'.repeat(20), n })) },
    code: null,
  },
  'a large enumeration over as many elements as fit': {
    schema: { properties: { list: { items: { enum: Array.from({ length: 8_000 }, (_, n) => `v${n}`) } } } },
    data: { list: many('v7999') },
    code: null,
  },
  'nested quantifiers': {
    schema: { properties: { t: { pattern: '^(a+)+$' } } },
    data: { t: `${'a'.repeat(200_000)}!` },
    code: 'invalid',
  },
  'alternatives that overlap': {
    schema: { properties: { t: { pattern: '^(a|a|aa)*b$' } } },
    data: { t: 'a'.repeat(200_000) },
    code: 'invalid',
  },
  'counted repetitions over a long text': {
    schema: { properties: { t: { pattern: '^(a?){400}a{400}$' } } },
    data: { t: 'a'.repeat(200_000) },
    code: 'schema_too_complex',
  },
  'a hundred patterns over a long text': {
    schema: { properties: { t: { allOf: Array.from({ length: 100 }, (_, n) => ({ pattern: `(.*x){3}${n}` })) } } },
    data: { t: 'x'.repeat(200_000) },
    code: 'schema_too_complex',
  },
  'patterns of names over thousands of names': {
    schema: { patternProperties: Object.fromEntries(Array.from({ length: 90 }, (_, n) => [`^(a|b)*${n}$`, false])) },
    data: Object.fromEntries(Array.from({ length: 10_000 }, (_, n) => [`abab${n}`, 1])),
    code: 'schema_too_complex',
  },
  'thousands of lengths of a long text': {
    schema: again({ properties: { t: { minLength: 1 } } }, 2_400),
    data: { t: 'x'.repeat(250_000) },
    code: 'schema_too_complex',
  },
  'thousands of counts of many members': {
    schema: again({ maxProperties: 99_999 }, 2_400),
    data: numbered(20_000, 1),
    code: 'schema_too_complex',
  },
  'thousands of names that depend on others, again and again': {
    schema: again({ dependentRequired: numbered(3_500, []) }, 1_000),
    data: { x: 1 },
    code: 'schema_too_complex',
  },
  'thousands of schemas that depend on names, again and again': {
    schema: again({ dependentSchemas: numbered(2_000, true) }, 1_200),
    data: { x: 1 },
    code: 'schema_too_complex',
  },
  'large values that are compared again and again': {
    schema: again({ enum: [{ z: 1 }] }, 2_400),
    data: numbered(20_000, 1),
    code: 'schema_too_complex',
  },
  'as many problems as fit': {
    schema: { properties: { list: { items: { type: 'string' } } } },
    data: { list: many(1) },
    code: 'wrong_type',
  },
  'a schema of as many parts as fit': {
    schema: { anyOf: Array.from({ length: 3_000 }, (_, n) => ({ minimum: n })) },
    data: { list: many(1) },
    code: null,
  },
}

describe('a schema that is an attack', () => {
  test.each(Object.entries(attacks))(
    '%s: the data is decided on, and other calls go on meanwhile',
    async (name, attack) => {
      const of = await service.newTenant()
      await newType(of, TYPE, { schema: attack.schema })
      const body = { type: TYPE, data: attack.data }
      expect(JSON.stringify(attack.data).length).toBeLessThanOrEqual(BYTES_MAX)
      let isDecided = false
      const publishing = Promise.all([body, body, body].map((one) => of.post('/events', one))).finally(() => {
        isDecided = true
      })
      // The same event loop answers these: while it is held, none returns.
      let answered = 0
      do {
        expect((await tenant.get('/users')).status).toBe(200)
        answered += 1
      } while (!isDecided)
      expect(answered).toBeGreaterThan(0)
      for (const answer of await publishing)
        if (attack.code === null) ok(answer, 201)
        else expect(expectRefusal(answer, 'validation_failed', name)[0].code).toBe(attack.code)
    },
  )

  test('questions that take as long as may be do not keep another tenant waiting behind all of them', async () => {
    const [of, other] = [await service.newTenant(), await service.newTenant()]
    await newType(of, TYPE, { schema: again({ maxProperties: 99_999 }, 2_400) })
    await newType(other, 'acme.fine', { schema: { required: ['a'] } })
    let decided = 0
    const body = { type: TYPE, data: numbered(20_000, 1) }
    const calls = Array.from({ length: 12 }, async () => {
      const answer = await of.post('/events', body)
      decided += 1
      return answer.status
    })
    ok(await other.post('/events', { type: 'acme.fine', data: { a: 1 } }), 201)
    expect(decided).toBeLessThan(10)
    expect(new Set(await Promise.all(calls))).toEqual(new Set([400]))
  })

  test('problems are cut at fifty', async () => {
    const of = await service.newTenant()
    await newType(of, TYPE, { schema: { properties: { list: { items: { type: 'string' } } } } })
    const answer = await of.post('/events', { type: TYPE, data: { list: many(1) } })
    expect(expectRefusal(answer, 'validation_failed')).toHaveLength(50)
  })

  test('a schema of too many parts is refused', async () => {
    const schema = { anyOf: Array.from({ length: 6_000 }, () => ({})) }
    expectRefusal(await tenant.post('/event-types', { name: 'acme.parts', schema }), 'validation_failed')
  })

  test('two hundred at once do not keep another tenant from publishing', async () => {
    const [of, other] = [await service.newTenant(), await service.newTenant()]
    await newType(of, TYPE, { schema: fanOut('allOf', 60) })
    await newType(other, 'acme.fine', { schema: { required: ['a'] } })
    const calls = Array.from({ length: 200 }, () => of.post('/events', { type: TYPE, data: { x: 1 } }))
    ok(await other.post('/events', { type: 'acme.fine', data: { a: 1 } }), 201)
    for (const answer of await Promise.all(calls)) expect(answer.status).toBe(400)
  })
})
