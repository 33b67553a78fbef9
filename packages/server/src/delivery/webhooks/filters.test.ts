import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { expectError, expectRefusal } from '../../../test/harness/envelope.ts'
import { type Service, startService, type Tenant } from '../../../test/harness/harness.ts'
import { ok } from '../events/own-events.fixture.ts'

let service: Service
let tenant: Tenant
beforeAll(async () => {
  service = await startService({ HALFKEY_ROLE: 'api' })
  tenant = await service.newTenant()
})
afterAll(() => service.stop())

const endpoint = { url: 'https://hook.example/a', events: ['*'] }
const path = 'data.total'

async function expectRefused(filter: unknown, field: string, code?: string): Promise<string> {
  const created = expectRefusal(await tenant.post('/webhooks', { ...endpoint, filter }), 'validation_failed')
  const checked = expectRefusal(
    await tenant.post('/webhooks/filters/check', { filter, event: {} }),
    'validation_failed',
  )
  expect(checked[0]).toEqual(created[0])
  expect(created[0].field).toBe(field)
  if (code !== undefined) expect(created[0].code).toBe(code)
  return created[0].message
}

/** The JSON text of an event: what no JavaScript value can say, JSON can. */
async function check(filter: unknown, event: string): Promise<{ matches: boolean; reason: string | null }> {
  const raw = `{"filter":${JSON.stringify(filter)},"event":${event}}`
  return ok(await tenant.call('POST', '/webhooks/filters/check', { key: tenant.key, raw }))
}

const all = (count: number) => ({ or: Array.from({ length: count }, (_, at) => ({ path, eq: at })) })
const nested = (depth: number): object => (depth === 1 ? { path, eq: 1 } : { not: nested(depth - 1) })

describe('a filter', () => {
  test('is stored and shown as it was written, replaced by an update and cleared by null', async () => {
    const filter = {
      and: [{ path: 'type', prefix: 'acme.' }, { not: { path: ['data', 'a.b'], in: [1, 'x', null, true] } }],
    }
    const made = ok(await tenant.post('/webhooks', { ...endpoint, filter }), 201)
    expect(JSON.stringify(made.filter)).toBe(JSON.stringify(filter))
    const url = `/webhooks/${made.id}`
    expect(ok(await tenant.patch(url, { description: 'Other' })).filter).toEqual(filter)
    expect(ok(await tenant.patch(url, { filter: { path, gte: '5' } })).filter).toEqual({ path, gte: '5' })
    expect(ok(await tenant.get(url)).filter).toEqual({ path, gte: '5' })
    expectRefusal(await tenant.patch(url, { filter: { path } }), 'validation_failed')
    expect(ok(await tenant.patch(url, { filter: null })).filter).toBeNull()
    expect(ok(await tenant.get(url)).filter).toBeNull()
    expectError(await (await service.newTenant()).patch(url, { filter: { path, eq: 1 } }), 404, 'not_found')
  })

  test.each<[string, unknown, string]>([
    ['no object', [], 'filter'],
    ['a text', 'data.total', 'filter'],
    ['empty', {}, 'filter'],
    ['without a comparison', { path }, 'filter'],
    ['without a path', { eq: 1 }, 'filter.path'],
    ['with two comparisons', { path, gte: 1, lt: 5 }, 'filter.lt'],
    ['with an unknown comparison', { path, matches: '^a+$' }, 'filter.matches'],
    ['with a comparison that objects inherit', { path, toString: 1 }, 'filter.toString'],
    ['with a script', { path, $where: 'sleep(1)' }, 'filter.$where'],
    ['a combination beside a condition', { and: [{ path, eq: 1 }], path, eq: 1 }, 'filter.path'],
    ['two combinations', { not: { path, eq: 1 }, or: [{ path, eq: 1 }] }, 'filter.or'],
    ['an empty list', { and: [] }, 'filter.and'],
    ['a list that is none', { or: { path, eq: 1 } }, 'filter.or'],
    ['wrong deep inside', { and: [{ path, eq: 1 }, { not: { or: [{ path, in: [] }] } }] }, 'filter.and.1.not.or.0.in'],
    ['a path of another kind', { path: 5, eq: 1 }, 'filter.path'],
    ['a path with an empty name', { path: 'data..total', eq: 1 }, 'filter.path'],
    ['a path with a name of another kind', { path: ['data', 0], eq: 1 }, 'filter.path'],
    ['an empty path', { path: [], eq: 1 }, 'filter.path'],
    ['a path that no event has', { path: 'total', eq: 1 }, 'filter.path'],
    ['a path into the prototype', { path: '__proto__.polluted', exists: true }, 'filter.path'],
    ['a path of 17 names', { path: ['data', ...Array(16).fill('a')], eq: 1 }, 'filter.path'],
    ['a path over 1 KiB', { path: `data.${'a'.repeat(1_020)}`, eq: 1 }, 'filter.path'],
    ['eq with an object', { path, eq: {} }, 'filter.eq'],
    ['eq with an array', { path, eq: [1] }, 'filter.eq'],
    ['in with an object', { path, in: ['a', {}] }, 'filter.in.1'],
    ['in with a text', { path, in: 'a' }, 'filter.in'],
    ['prefix with a number', { path, prefix: 1 }, 'filter.prefix'],
    ['exists with null', { path, exists: null }, 'filter.exists'],
    ['gt with true', { path, gt: true }, 'filter.gt'],
    ['lt with null', { path, lt: null }, 'filter.lt'],
    ['gte with a decimal of 101 digits', { path, gte: '9'.repeat(101) }, 'filter.gte'],
    ['a value over 1 KiB', { path, eq: 'ü'.repeat(513) }, 'filter.eq'],
    ['a value over 1 KiB in a list', { path, in: ['a'.repeat(1_025)] }, 'filter.in.0'],
  ])('%s is refused, with its field', async (_name, filter, field) => {
    expect(await expectRefused(filter, field)).toMatch(/\.$/)
  })

  test('with a number that JSON cannot carry back is refused', async () => {
    const raw = `{"url":"https://hook.example","events":["*"],"filter":{"path":"data.total","gt":1e400}}`
    const refused = await tenant.call('POST', '/webhooks', { key: tenant.key, raw })
    expect(expectRefusal(refused, 'validation_failed')[0].field).toBe('filter.gt')
  })

  test('has at most 64 conditions, 8 levels, 100 values in a list and 16 KiB', async () => {
    const fits = [all(64), nested(8), { path, in: Array.from({ length: 100 }, (_, at) => at) }]
    for (const filter of [...fits, { path, eq: 'a'.repeat(1_024) }])
      ok(await tenant.post('/webhooks', { ...endpoint, filter }), 201)
    await expectRefused(all(65), 'filter.or.64', 'too_many')
    await expectRefused({ and: [all(32), all(33)] }, 'filter.and.1.or.32', 'too_many')
    await expectRefused(nested(9), `filter${'.not'.repeat(8)}`, 'too_deep')
    await expectRefused({ path, in: Array(101).fill(1) }, 'filter.in')
    const wide = Array.from({ length: 16 }, (_, at) => ({ path, eq: `${at}`.padEnd(1_010, 'a') }))
    await expectRefused({ or: wide }, 'filter', 'too_large')
  })

  test.each<[string, unknown, string, boolean]>([
    ['eq: the same text', { path, eq: 'a' }, '{"data":{"total":"a"}}', true],
    ['eq: a text is no number', { path, eq: 5 }, '{"data":{"total":"5"}}', false],
    ['eq: texts are compared as texts', { path, eq: '5.0' }, '{"data":{"total":"5.00"}}', false],
    ['eq: numbers by their value', { path, eq: 5 }, '{"data":{"total":5.0}}', true],
    ['eq null: a member with null', { path, eq: null }, '{"data":{"total":null}}', true],
    ['eq null: no member', { path, eq: null }, '{"data":{}}', false],
    ['eq false', { path, eq: false }, '{"data":{"total":false}}', true],
    ['in', { path, in: ['a', 2, null] }, '{"data":{"total":2}}', true],
    ['in: kinds differ', { path, in: ['2', true] }, '{"data":{"total":2}}', false],
    ['in: an object is none of them', { path, in: ['[object Object]'] }, '{"data":{"total":{}}}', false],
    ['prefix', { path: 'type', prefix: 'acme.' }, '{"type":"acme.invoice.paid"}', true],
    ['prefix: no text', { path, prefix: '' }, '{"data":{"total":5}}', false],
    ['prefix: a pattern is a text', { path, prefix: '.*' }, '{"data":{"total":"abc"}}', false],
    ['exists: null is there', { path, exists: true }, '{"data":{"total":null}}', true],
    ['exists false', { path, exists: false }, '{"data":{"sum":1}}', true],
    ['not: there is no such member', { not: { path, eq: 1 } }, '{"data":{}}', true],
    ['gt: numbers', { path, gt: 9 }, '{"data":{"total":10}}', true],
    ['gt: decimals as decimals', { path, gt: '9.5' }, '{"data":{"total":"10"}}', true],
    ['gt: equal decimals', { path, gt: '10.50' }, '{"data":{"total":"10.5"}}', false],
    ['gte: equal decimals', { path, gte: '10.500' }, '{"data":{"total":"10.5"}}', true],
    ['lte: zero has no sign', { path, lte: '0' }, '{"data":{"total":"-0.000"}}', true],
    ['lt: negative decimals', { path, lt: '-9' }, '{"data":{"total":"-10"}}', true],
    ['lt: decimals of both signs', { path, lt: '0.1' }, '{"data":{"total":"-10"}}', true],
    ['gt: a fraction in its place', { path, gt: '0.05' }, '{"data":{"total":"0.5"}}', true],
    [
      'gt: more digits than a number holds',
      { path, gt: '9007199254740992.1' },
      '{"data":{"total":"9007199254740992.10000000000000000001"}}',
      true,
    ],
    ['gt: 100 characters', { path, gt: '8'.repeat(100) }, `{"data":{"total":"${'9'.repeat(100)}"}}`, true],
    ['gt: 200 000 digits are no decimal', { path, gt: '1' }, `{"data":{"total":"${'9'.repeat(200_000)}"}}`, false],
    ['gt: a huge number', { path, gt: 1e308 }, '{"data":{"total":1e400}}', true],
    ['gt: a number is no decimal', { path, gt: '5' }, '{"data":{"total":10}}', false],
    ['gt: a decimal is no number', { path, gt: 5 }, '{"data":{"total":"10"}}', false],
    ['gt: a decimal is no text', { path, gt: 'a' }, '{"data":{"total":"10"}}', false],
    ['gt: a text is no decimal', { path, gt: '10' }, '{"data":{"total":"a"}}', false],
    ['gte: exponents and leading zeros are texts', { path, gte: '1e1' }, '{"data":{"total":"007"}}', false],
    ['lt: times as texts', { path: 'created_at', lt: '2026-12-01' }, '{"created_at":"2026-11-21T08:30:00.000Z"}', true],
    ['lt: an array', { path, lt: 5 }, '{"data":{"total":[1]}}', false],
    ['lt: true', { path, lt: 5 }, '{"data":{"total":true}}', false],
    [
      'and',
      {
        and: [
          { path, gte: '1' },
          { path, lt: '2' },
        ],
      },
      '{"data":{"total":"1.99"}}',
      true,
    ],
    [
      'or',
      {
        or: [
          { path, eq: 1 },
          { path, eq: 2 },
        ],
      },
      '{"data":{"total":2}}',
      true,
    ],
    [
      'a member of an entry',
      { path: 'data.lines.1.sku', eq: 'b' },
      '{"data":{"lines":[{"sku":"a"},{"sku":"b"}]}}',
      true,
    ],
    ['an entry that is not there', { path: 'data.lines.9', exists: true }, '{"data":{"lines":[1]}}', false],
    ['an index of another form', { path: 'data.lines.01', exists: true }, '{"data":{"lines":[1,2]}}', false],
    ['the length of an array', { path: 'data.lines.length', exists: true }, '{"data":{"lines":[1]}}', false],
    ['the length of a text', { path: 'data.total.length', exists: true }, '{"data":{"total":"abc"}}', false],
    ['a name with a dot', { path: ['data', 'a.b'], eq: 1 }, '{"data":{"a.b":1,"a":{"b":2}}}', true],
    ['an empty name', { path: ['data', ''], eq: 1 }, '{"data":{"":1}}', true],
    ['a name of digits in an object', { path: 'data.0', eq: 'a' }, '{"data":{"0":"a"}}', true],
    ['the prototype', { path: 'data.__proto__', exists: true }, '{"data":{}}', false],
    ['the constructor', { path: 'data.constructor.name', exists: true }, '{"data":{}}', false],
    ['an inherited method', { path: 'data.hasOwnProperty', exists: true }, '{"data":{}}', false],
    ['a method of arrays', { path: 'data.lines.map', exists: true }, '{"data":{"lines":[]}}', false],
    ['below null', { path: 'data.total.x', exists: false }, '{"data":{"total":null}}', true],
    ['no data', { path: 'data.total', exists: false }, '{}', true],
  ])('%s', async (_name, filter, event, matches) => {
    expect(await check(filter, event)).toEqual({ matches, reason: matches ? null : expect.any(String) })
  })

  test('says which condition does not match, and what it found there', async () => {
    const filter = {
      and: [
        { path: 'type', prefix: 'acme.' },
        { path, gte: '100.00' },
      ],
    }
    const reasonFor = async (event: object, tried: unknown = filter) =>
      (await check(tried, JSON.stringify(event))).reason
    const type = 'acme.invoice.paid'
    expect(await reasonFor({ type, data: { total: '25.00' } })).toBe(
      '`filter.and.1`: data.total is "25.00", which does not match {"gte":"100.00"}.',
    )
    expect(await reasonFor({ data: {} })).toBe(
      '`filter.and.0`: type is not there, which does not match {"prefix":"acme."}.',
    )
    expect(await reasonFor({ type }, { not: filter.and[0] })).toBe('`filter.not` matches.')
    expect(await reasonFor({ data: {} }, { or: filter.and })).toBe('No condition of `filter.or` matches.')
    const long = await reasonFor({ data: { total: '\u{1f511}'.repeat(10_000) } }, filter.and[1])
    expect(long?.length).toBeLessThan(250)
  })
})

test('only a secret key that may read webhooks checks filters', async () => {
  const body = { filter: { path, eq: 1 }, event: {} }
  const asked = async (scope: string) =>
    tenant.post('/webhooks/filters/check', body, { key: await tenant.newKey({ scopes: [scope] }) })
  ok(await asked('webhooks:read'))
  expectError(await asked('users:read'), 403, 'insufficient_scope')
})
