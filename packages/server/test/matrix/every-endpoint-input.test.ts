import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { z } from 'zod'
import type { Route } from '../../src/platform/http/route.ts'
import { expectError, expectRefusal } from '../harness/envelope.ts'
import { eventually, type Service, startService, type Tenant } from '../harness/harness.ts'
import { NOWHERE } from './bodies.ts'
import { subjects } from './matrix.ts'
import {
  type AskOptions,
  actAs,
  askRoute,
  bodyFor,
  dnsOfRequests,
  fieldsOf,
  nameOf,
  paramsOf,
  pathOf,
  RECORDS,
  resourceOf,
  stripeOfRequests,
  takesBody,
  validBody,
  withQuery,
} from './requests.ts'

let service: Service
let tenant: Tenant
beforeAll(async () => {
  service = await startService({
    HALFKEY_DNS_SERVERS: (await dnsOfRequests()).address,
    ...(await stripeOfRequests()).settings,
  })
  tenant = await service.newTenant()
})
afterAll(() => service.stop())

/** As in every-endpoint.test.ts, in the long run every test runs for every endpoint. */
const all = subjects.map((route) => [nameOf(route), route] as const)
const some = (fits: (route: Route) => boolean) => all.filter(([, route]) => fits(route))
const isList = (route: Route) => route.reply.kind === 'list'
/** The values of `sort` that a list takes. */
const sortsOf = ({ query }: Route): readonly string[] =>
  query?.shape.sort instanceof z.ZodOptional ? ((query.shape.sort.unwrap() as z.ZodEnum).options as string[]) : []

/** A request that passes the schema. */
const ask = async (route: Route, { by = tenant, ...options }: AskOptions & { by?: Tenant } = {}) =>
  askRoute(service.url, route, {
    key: by.key,
    ...(takesBody(route) ? { body: await bodyFor(route, by) } : {}),
    ...options,
    headers: { ...(await actAs(route, by)), ...options.headers },
  })

/** A POST, PATCH or DELETE with these very bytes. */
const sendRaw = (route: Route, raw: string | Buffer, type = 'application/json') =>
  ask(route, { raw, headers: { 'content-type': type } })

describe('a body', () => {
  const nested = (levels: number) => `${'{"a":'.repeat(levels)}1${'}'.repeat(levels)}`
  const longText = `{"name":"${'x'.repeat(2 * 1024 * 1024)}"}`
  const bodies: [what: string, raw: string | Buffer, code: string, detail: Record<string, unknown>][] = [
    ['__proto__', '{"__proto__":{"admin":true}}', 'malformed_json', { message: /__proto__/ }],
    ['an escaped __proto__', '{"\\u005f_proto__":{}}', 'malformed_json', { message: /__proto__/ }],
    ['__proto__ further in', '{"metadata":{"__proto__":"x"}}', 'malformed_json', { message: /__proto__/ }],
    ['constructor', '{"constructor":{"prototype":{}}}', 'malformed_json', { message: /constructor/ }],
    ['a key twice', '{"name":"a","name":"b"}', 'malformed_json', { message: /twice/ }],
    ['a key twice, once escaped', '{"name":"a","n\\u0061me":"b"}', 'malformed_json', { message: /twice/ }],
    ['10 000 arrays', `${'['.repeat(10_000)}${']'.repeat(10_000)}`, 'malformed_json', { message: /32/ }],
    ['10 000 objects', nested(10_000), 'malformed_json', { message: /32/ }],
    ['33 levels', nested(33), 'malformed_json', { message: /32/ }],
    ['2 MB', longText, 'payload_too_large', { message: /1 MiB|1048576/ }],
    ['a byte over 1 MiB', `{}${' '.repeat(1024 * 1024 - 1)}`, 'payload_too_large', { message: /1 MiB|1048576/ }],
    ['NUL', '{"name":"a\\u0000b"}', 'validation_failed', { code: 'nul_character' }],
    ['NUL in a key', '{"a\\u0000":1}', 'validation_failed', { code: 'nul_character' }],
    ['NUL as it is', '{"name":"a\0b"}', 'malformed_json', {}],
    ['half a surrogate pair', '{"name":"\\ud800"}', 'validation_failed', { code: 'lone_surrogate' }],
    ['the other half', '{"name":"\\udc00x"}', 'validation_failed', { code: 'lone_surrogate' }],
    ['half a pair in a key', '{"\\ud83d":1}', 'validation_failed', { code: 'lone_surrogate' }],
    [
      'invalid UTF-8',
      Buffer.from([0x7b, 0x22, 0x61, 0x22, 0x3a, 0x22, 0xff, 0xfe, 0x22, 0x7d]),
      'malformed_json',
      { message: /UTF-8/ },
    ],
    ['UTF-16', Buffer.from('{"name":"a"}', 'utf16le'), 'malformed_json', {}],
    ['nothing', '', 'malformed_json', { message: /empty/ }],
    ['a cut text', '{"name":"a', 'malformed_json', {}],
    ['a trailing comma', '{"name":"a",}', 'malformed_json', {}],
    ['a comment', '{/**/}', 'malformed_json', {}],
    ['NaN', '{"name":NaN}', 'malformed_json', {}],
    ['two texts', '{}{}', 'malformed_json', {}],
    ['a wrong escape', '{"name":"\\x"}', 'malformed_json', {}],
    ['an unknown field', '{"surprise":1}', 'validation_failed', { field: 'surprise', code: 'unknown_field' }],
    ['an array', '[]', 'validation_failed', { field: 'body', code: 'wrong_type' }],
    ['a text', '"x"', 'validation_failed', { field: 'body', code: 'wrong_type' }],
    ['null', 'null', 'validation_failed', { field: 'body', code: 'wrong_type' }],
    ['a number', '7', 'validation_failed', { field: 'body', code: 'wrong_type' }],
    ['false', 'false', 'validation_failed', { field: 'body', code: 'wrong_type' }],
  ]
  const withBody = some(takesBody)

  async function expectUnharmed(): Promise<void> {
    expect((await tenant.get('/tenant')).status).toBe(200)
    expect(({} as { admin?: boolean }).admin).toBeUndefined()
  }

  test.each(withBody)('%s refuses a hostile one with a 400 that says what is wrong', async (name, route) => {
    for (const [what, raw, code, detail] of bodies) {
      const details = expectRefusal(await sendRaw(route, raw), code, `${name}, ${what}`)
      const wanted = Object.fromEntries(
        Object.entries(detail).map(([key, value]) => [
          key,
          value instanceof RegExp ? expect.stringMatching(value) : value,
        ]),
      )
      expect(details, `${name}, ${what}`).toContainEqual(expect.objectContaining(wanted))
      await expectUnharmed()
    }
  })

  test.each(withBody)('%s refuses every media type but application/json', async (name, route) => {
    const types = [
      'text/plain',
      'application/x-www-form-urlencoded',
      'multipart/form-data; boundary=x',
      'application/jsonx',
      'text/json',
      'application/merge-patch+json',
      'json',
      '*/*',
      'application/',
    ]
    for (const type of types) {
      const [detail] = expectRefusal(await sendRaw(route, '{}', type), 'unsupported_media_type', `${name}, ${type}`)
      expect(detail.field).toBe('content-type')
    }
    await expectUnharmed()
  })

  test.each(some((route) => route.method === 'POST' && route.status === 201))(
    '%s lets nobody choose what the service decides',
    async (name, route) => {
      const chosen = {
        id: 'usr_1',
        tenantId: tenant.tenantId,
        plan: 'gold',
        status: 'active',
        createdAt: '2026-01-01T00:00:00.000Z',
        updatedAt: '2026-01-01T00:00:00.000Z',
      }
      for (const [field, value] of Object.entries(chosen)) {
        // A field of the resource's own that happens to have such a name (the plan to check out) is no breach.
        if (['plan', 'status'].includes(field) && fieldsOf(route).includes(field)) continue
        const answer = await ask(route, { body: { ...validBody(route), [field]: value } })
        const details = expectRefusal(answer, 'validation_failed', `${name}, ${field}`)
        expect(details, name).toContainEqual(expect.objectContaining({ field, code: 'unknown_field' }))
      }
    },
  )

  test.each(some((route) => route.method === 'GET'))('%s does not look at one', async (_, route) => {
    if (paramsOf(route).length > 0) return expectError(await ask(route), 404, 'not_found')
    const typed = await ask(route, { headers: { 'content-type': 'application/json' } })
    expect(typed.status).toBe((await ask(route)).status)
    expect([200, 404]).toContain(typed.status)
  })
})

describe('a query', () => {
  const pages = [
    '0',
    '-1',
    '1e309',
    String(2n ** 63n),
    '01',
    '1.5',
    '',
    ' 1',
    '%2B1',
    '0x1',
    'NaN',
    '10000000',
    '%D9%A1',
  ]
  const sizes = ['0', '101', '-1', '1e1', '', '020', String(2n ** 31n)]

  test.each(some(isList))('%s refuses a page that is none', async (name, route) => {
    for (const [parameter, values] of [
      ['page', pages],
      ['page_size', sizes],
    ] as const) {
      for (const value of values) {
        const [detail] = expectRefusal(
          await ask(route, { path: withQuery(pathOf(route), `${parameter}=${value}`) }),
          'validation_failed',
          `${name} ${parameter}=${value}`,
        )
        expect(detail.field).toBe(parameter)
      }
    }
  })

  test.each(all)('%s refuses a parameter that is unknown or repeated, and broken encoding', async (name, route) => {
    const refused = async (query: string, field: string) => {
      const [detail] = expectRefusal(
        await ask(route, { path: withQuery(pathOf(route), query) }),
        'validation_failed',
        `${name} ${query}`,
      )
      expect(detail.field).toBe(field)
    }
    await refused('surprise=1', 'surprise')
    await refused('surprise', 'surprise')
    await refused('__proto__=1', '__proto__')
    await refused('page[]=1', 'page[]')
    await refused('surprise=1&surprise=1', 'surprise')
    await refused('surprise=%00', 'surprise')
    await refused('surprise=%zz', '')
    await refused('surprise=%ff', '')
    if (isList(route)) await refused('page=1&page=1', 'page')
    if (isList(route)) await refused('page=1&p%61ge=2', 'page')
  })

  test.each(some(isList))('%s answers an empty page past the end', async (name, route) => {
    const ids = (await RECORDS[resourceOf(route)]?.(tenant, service)) ?? {}
    const past = () => ask(route, { path: withQuery(pathOf(route, ids), 'page=9999999&page_size=100') })
    const one = () => ask(route, { path: withQuery(pathOf(route, ids), 'page_size=1') })
    // What is written down behind an answer, as in the audit log, may come between the two.
    const [answer, first] = await eventually('two looks at one moment', async () => {
      const looks = [await past(), await one()] as const
      return looks[0].body.total === looks[1].body.total && looks
    })
    expect(answer.status, name).toBe(200)
    expect(Object.keys(answer.body)).toEqual(['data', 'total', 'page', 'pageSize', 'hasMore'])
    expect(answer.body).toMatchObject({ data: [], page: 9999999, pageSize: 100, hasMore: false })
    expect(first.body).toMatchObject({ total: answer.body.total, page: 1, pageSize: 1, hasMore: answer.body.total > 1 })
    expect(first.body.data).toHaveLength(Math.min(1, answer.body.total))
    expect((await ask(route, { path: pathOf(route, ids) })).body).toMatchObject({ page: 1, pageSize: 20 })
  })

  test.each(some((route) => sortsOf(route).length > 0))(
    '%s sorts by each field it names, and no other',
    async (name, route) => {
      let ids: Record<string, string> = {}
      for (let made = 0; made < 3; made += 1) ids = (await RECORDS[resourceOf(route)]?.(tenant, service)) ?? {}
      const get = (query: string) => ask(route, { path: withQuery(pathOf(route, ids), query) })
      for (const sort of sortsOf(route)) {
        const answer = await get(`sort=${sort}&page_size=100`)
        expect(answer.status, answer.text).toBe(200)
        const field = sort.replace('-', '')
        const values: (string | number)[] = answer.body.data
          .map((record: Record<string, unknown>) => record[field])
          .filter((value: unknown) => value !== null)
        const wanted = values.toSorted((a, b) => (a < b ? -1 : 1))
        expect(values, `${name} ${sort}`).toEqual(sort.startsWith('-') ? wanted.reverse() : wanted)
      }
      for (const wrong of ['', '-', 'id', 'metadata', '--createdAt', 'CREATEDAT', 'createdAt,email', '%2BcreatedAt']) {
        const [detail] = expectRefusal(await get(`sort=${wrong}`), 'validation_failed', `${name} sort=${wrong}`)
        expect(detail).toMatchObject({ field: 'sort', code: 'not_allowed' })
      }
    },
  )
})

test('an error in a body is shown for each field, in the same order for the same body', async () => {
  const body = { url: NOWHERE, events: [], surprise: 1, description: 7 }
  const details = expectRefusal(await tenant.post('/webhooks', body), 'validation_failed')
  expect(details.map((detail) => detail.field).sort()).toEqual(['description', 'events', 'surprise'])
  expect(expectRefusal(await tenant.post('/webhooks', body), 'validation_failed')).toEqual(details)
})
