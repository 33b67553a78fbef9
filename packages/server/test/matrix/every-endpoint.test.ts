import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { routes } from '../../src/app.ts'
import type { Route } from '../../src/platform/http/route.ts'
import { newApiKey, SCOPES } from '../../src/platform/security/api-key.ts'
import { expectError, expectRefusal } from '../harness/envelope.ts'
import { type Answer, type CallOptions, call, type Service, startService, type Tenant } from '../harness/harness.ts'
import { subjects } from './matrix.ts'
import {
  type AskOptions,
  actAs,
  askRoute,
  bearerFor,
  bodyFor,
  dnsOfRequests,
  isForUser,
  nameOf,
  OF_NO_APP,
  type PathIds,
  paramsOf,
  pathOf,
  RECORDS,
  resourceOf,
  signIn,
  stripeOfRequests,
  takesBody,
  unknownIds,
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

/** In the long run every test below runs for every endpoint: a new one is covered by being in the route table. */
const all = subjects.map((route) => [nameOf(route), route] as const)
const some = (fits: (route: Route) => boolean) => all.filter(([, route]) => fits(route))

/** A request that passes the schema. */
const ask = async (route: Route, { by = tenant, ...options }: AskOptions & { by?: Tenant } = {}) =>
  askRoute(service.url, route, {
    key: by.key,
    ...(takesBody(route) ? { body: await bodyFor(route, by) } : {}),
    ...options,
    headers: { ...(await actAs(route, by)), ...options.headers },
  })

describe('the API key', () => {
  test.each(all)('%s takes it from no other place than the x-api-key header', async (name, route) => {
    const places: [string, AskOptions][] = [
      ['none', {}],
      ['empty', { headers: { 'x-api-key': '' } }],
      ['query', { path: withQuery(pathOf(route), `x-api-key=${tenant.key}&api_key=${tenant.key}`) }],
      ['cookie', { headers: { cookie: `x-api-key=${tenant.key}; api_key=${tenant.key}` } }],
      ['bearer', { headers: { authorization: `Bearer ${tenant.key}` } }],
      ['basic', { headers: { authorization: `Basic ${btoa(`${tenant.key}:`)}` } }],
      ['a body that is no JSON', takesBody(route) ? { raw: '{' } : {}],
    ]
    for (const [place, options] of places)
      expectError(await ask(route, { ...options, key: null }), 401, 'api_key_missing', `${name}, key: ${place}`)
  })

  test.each(all)('%s refuses every key that is none with one identical body', async (name, route) => {
    const wrong = [...(await endedKeys()), ...notKeys()]
    const bodies = new Set<string>()
    for (const key of wrong) {
      const answer = await ask(route, { key })
      expectError(answer, 401, 'api_key_invalid', `${name}, key ${key.slice(0, 12)}…`)
      bodies.add(answer.text)
    }
    expect(bodies.size).toBe(1)
  })

  let ended: Promise<string[]> | undefined
  /** A revoked key and an expired one. */
  function endedKeys(): Promise<string[]> {
    ended ??= (async () => {
      const soon = new Date(Date.now() + 3_600_000).toISOString()
      const expiring = { name: 'soon over', type: 'secret', scopes: ['*'], expiresAt: soon }
      const revoked = await tenant.post('/api-keys', { name: 'revoked', type: 'secret', scopes: ['*'] })
      const expired = await tenant.post('/api-keys', expiring)
      expect((await tenant.get('/tenant', { key: revoked.body.data.key })).status).toBe(200)
      expect((await tenant.get('/tenant', { key: expired.body.data.key })).status).toBe(200)
      expect((await tenant.delete(`/api-keys/${revoked.body.data.id}`)).status).toBe(200)
      service.advance(2 * 3_600_000)
      return [revoked.body.data.key, expired.body.data.key]
    })()
    return ended
  }

  /** Unknown, mistyped, malformed, doubled. */
  function notKeys(): string[] {
    const typo = tenant.key.slice(0, -1) + (tenant.key.endsWith('A') ? 'B' : 'A')
    const otherType = tenant.key.replace('hk_sk_', 'hk_pk_')
    return [
      newApiKey('secret'),
      newApiKey('publishable'),
      typo,
      otherType,
      'x',
      `${tenant.key}, ${tenant.key}`,
      `Bearer ${tenant.key}`,
      tenant.key.toLowerCase(),
      "' OR 1=1 --",
      '\u00e9'.repeat(40),
      'k'.repeat(8_000),
    ]
  }
})

describe('who may call', () => {
  const secretOnly = some((route) => route.callers.kind === 'secret')
  const scoped = some((route) => route.callers.kind !== 'any')
  const scopeOf = (route: Route) => (route.callers as { scope: string }).scope
  const keys = new Map<string, Promise<string>>()
  const keyWith = (scopes: string[]) => {
    const known = keys.get(scopes.join()) ?? tenant.newKey({ scopes })
    keys.set(scopes.join(), known)
    return known
  }
  const writing = (scope: string) => scope.replace(/:read$/, ':write')

  /** The caller was let in: what else the request lacks (a record, a state, a step-up) is told after that. */
  function expectMet(answer: Answer, route: Route): void {
    if (route.callers.kind !== 'both') expect(answer.status, answer.text).toBe(route.status ?? 200)
    const refusals = ['insufficient_scope', 'key_type_not_allowed', 'origin_not_allowed', 'session_missing']
    expect(refusals, answer.text).not.toContain(answer.body.code)
    expect(answer.status, answer.text).toBeLessThan(500)
  }

  test.each(secretOnly)('%s refuses a publishable key', async (name, route) => {
    const publishable = await tenant.newKey({ publishable: true })
    expectError(await ask(route, { key: publishable }), 403, 'key_type_not_allowed', name)
  })

  test.each(scoped)('%s refuses a secret key that has every scope but its own', async (name, route) => {
    const scope = scopeOf(route)
    const others = SCOPES.filter((other) => !['*', scope, writing(scope)].includes(other))
    const answer = await ask(route, { key: await keyWith(others) })
    expectError(answer, 403, 'insufficient_scope', name)
    expect(answer.body.details[0].scope).toBe(scope)
  })

  test.each(scoped)('%s takes a secret key that has its scope alone, or write for read', async (name, route) => {
    for (const scope of new Set(
      [scopeOf(route), writing(scopeOf(route))].filter((one) => SCOPES.includes(one as never)),
    )) {
      const answer = await ask(route, { key: await keyWith([scope]) })
      // A key with this scope alone has no role's scopes to give.
      // Nor does any key decide how owners sign in.
      if (['POST /members', 'PATCH /member-sign-in'].includes(name))
        expect(answer.body.details[0].code, answer.text).toBe('wider_than_own')
      // The key is let in; the user has to call.
      else if (name === 'POST /auth/id-token')
        expect(answer.body.details[0].message, answer.text).toContain('`x-user-id` is not enough')
      else if (paramsOf(route).length > 0) expectError(answer, 404, 'not_found', name)
      else expectMet(answer, route)
    }
  })

  const forBoth = some((route) => route.callers.kind === 'both')
  const forUsers = some(isForUser)

  test.each(forBoth)('%s takes a publishable key, from an allowed origin', async (name, route) => {
    const key = await tenant.newKey({ publishable: true })
    const headers = { authorization: await bearerFor(route, service, tenant), origin: 'http://localhost:3000' }
    const answer = await askRoute(service.url, route, { key, headers })
    if (paramsOf(route).length > 0) expectError(answer, 404, 'not_found', name)
    else expectMet(answer, route)
    const foreign = { ...headers, origin: 'https://evil.example' }
    expectError(await askRoute(service.url, route, { key, headers: foreign }), 403, 'origin_not_allowed', name)
  })

  test.each(forUsers)(
    '%s is called for a user: by a valid session, or by a server in its name',
    async (name, route) => {
      const publishable = await tenant.newKey({ publishable: true })
      const { accessToken } = await signIn(service, tenant)
      const other = await service.newTenant()
      const theirs = await signIn(service, other)
      const asked = (headers: Record<string, string>, key = tenant.key) =>
        askRoute(service.url, route, { key, headers })
      const bearer = (token: string) => ({ authorization: `Bearer ${token}` })
      expectError(await asked({}), 401, 'session_missing', name)
      expectError(await asked({}, publishable), 401, 'session_missing', name)
      for (const authorization of ['Bearer', 'Bearer x', `Basic ${btoa('a:b')}`, `Bearer ${accessToken}x`, accessToken])
        expectError(await asked({ authorization }, publishable), 401, 'session_invalid', `${name} ${authorization}`)
      expectError(await asked(bearer(theirs.accessToken), publishable), 404, 'not_found', name)
      expectError(await asked({ 'x-user-id': theirs.userId }), 404, 'not_found', name)
      expectError(await asked({ 'x-user-id': 'none' }), 404, 'not_found', name)
      expectError(await asked({ 'x-user-id': await tenant.userId() }, publishable), 403, 'key_type_not_allowed', name)
      const both = { ...bearer(accessToken), 'x-user-id': await tenant.userId() }
      expectRefusal(await asked(both), 'validation_failed', name)
    },
  )

  test.each(some((route) => route.callers.kind === 'any'))('%s takes any valid key', async (_, route) => {
    for (const key of [await tenant.newKey({ publishable: true }), await keyWith(['audit:read'])])
      expect((await ask(route, { key })).status).toBe(route.status ?? 200)
  })

  test.each(some((route) => route.callers.kind === 'secret' && route.callers.tenantWide))(
    '%s refuses a key that is bound to an app',
    async (name, route) => {
      const bound = await tenant.newKey({ scopes: ['*'], appId: tenant.appId })
      const answer = await ask(route, { key: bound })
      expectError(answer, 403, 'insufficient_scope', name)
      expect(answer.body.details[0].code).toBe('tenant_wide_key_required')
    },
  )
})

describe('an id in a path', () => {
  const withIds = some((route) => paramsOf(route).length > 0)
  const everyWithIds = routes
    .filter((route) => paramsOf(route).length > 0)
    .map((route) => [nameOf(route), route] as const)

  test('there is a way to make a record for every resource with ids', () => {
    for (const [name, route] of everyWithIds) expect(Object.keys(RECORDS), name).toContain(resourceOf(route))
  })

  const hostile = [
    "' OR 1=1",
    '%00',
    'a%00b',
    '%2e%2e%2f',
    '%20',
    '*',
    '%',
    'é',
    `${'a'.repeat(10_000)}`,
    '%F0%9F%98%80',
    '-1',
    'null',
    'usr_',
    '%25zz',
  ]
  const encoded = (text: string) =>
    text.startsWith('%') && text !== '%' ? text : encodeURIComponent(text).replace('%2500', '%00')

  // For every endpoint, in every run: that a query filters by its tenant is each store's own doing.
  test.each(everyWithIds)(
    "%s answers another tenant's id and an unknown one with one 404, without effect",
    async (name, route) => {
      const other = await service.newTenant()
      const theirs = (await RECORDS[resourceOf(route)]?.(other, service)) as PathIds
      const before = await snapshot(other, route, theirs)
      const reference = await ask(route, { ids: unknownIds(route) })
      expectError(reference, 404, 'not_found', name)
      expect(reference.body.details).toEqual([expect.not.objectContaining({ field: expect.anything() })])
      const candidates: [string, PathIds][] = [['theirs', theirs]]
      const mine = paramsOf(route).length > 1 ? ((await RECORDS[resourceOf(route)]?.(tenant, service)) as PathIds) : {}
      // What both have alike is a word, and names nobody's record.
      for (const param of paramsOf(route).filter((each) => theirs[each] !== mine[each]))
        candidates.push([`their ${param}`, { ...unknownIds(route), ...mine, [param]: theirs[param] as string }])
      for (const [what, ids] of candidates) {
        const answer = await ask(route, { ids })
        expect(`${what}: ${answer.status} ${answer.text}`).toBe(`${what}: 404 ${reference.text}`)
      }
      expect(await snapshot(other, route, theirs)).toBe(before)
    },
  )

  test.each(withIds)('%s answers nonsense in place of an id with the 404 of an unknown one', async (name, route) => {
    const reference = await ask(route, { ids: unknownIds(route) })
    expectError(reference, 404, 'not_found', name)
    for (const param of paramsOf(route))
      for (const text of hostile) {
        const answer = await ask(route, { ids: { ...unknownIds(route), [param]: encoded(text) } })
        const what = `${param}=${text.slice(0, 20)}`
        expect(`${what}: ${answer.status} ${answer.text}`).toBe(`${what}: 404 ${reference.text}`)
      }
  })

  /** What its owner sees of a record, by the GET endpoint of its kind. */
  async function snapshot(owner: Tenant, route: Route, ids: PathIds): Promise<string> {
    // An onboarding is a part of its wallet.
    const family = `/${resourceOf(route)}`.replace(/^\/wallets\/.*/, '/wallets')
    // A provider is read where its app has it.
    if (family === '/auth/providers')
      return JSON.stringify((await owner.get(`/apps/${owner.appId}/providers`)).body.data)
    const record = new RegExp(`^${family}/:\\w+$`)
    const read = routes.find((one) => one.method === 'GET' && record.test(one.path))
    const list = routes.find((one) => one.method === 'GET' && one.path === family)
    const answer = await ask((read ?? list) as Route, { by: owner, ...(read === undefined ? {} : { ids }) })
    expect(answer.status).toBe(200)
    // What the service itself changes meanwhile: a job goes on, a key's use is noted.
    const isJob = family === '/jobs' || family === '/users/bulk'
    const moving = isJob ? ['status', 'updatedAt', 'done', 'failed'] : ['lastUsedAt']
    return JSON.stringify(answer.body.data, (key, value) => (moving.includes(key) ? null : value))
  }

  test.each(withIds)(
    "%s answers another app's record with the same 404 to a key that is bound to one",
    async (name, route) => {
      const app = await tenant.post('/apps', { name: 'Other' })
      const bound = await tenant.newKey({ scopes: ['*'], appId: app.body.data.id })
      const ids = (await RECORDS[resourceOf(route)]?.(tenant, service)) as PathIds
      const answer = await ask(route, { key: bound, ids })
      // Already the user is not one of its app's.
      if (isForUser(route)) {
        expectError(answer, 404, 'not_found', name)
        return
      }
      const { tenantWide = false } = route.callers as { tenantWide?: boolean }
      if (OF_NO_APP.includes(resourceOf(route))) {
        expect(answer.text, name).toBe((await ask(route, { ids })).text)
        return
      }
      if (tenantWide) expectError(answer, 403, 'insufficient_scope', name)
      else expect(answer.text, name).toBe((await ask(route)).text)
      expect(answer.status).toBe(tenantWide ? 403 : 404)
    },
  )

  test.each(withIds)(
    '%s answers broken percent-encoding with 400 in the envelope, after the key',
    async (name, route) => {
      for (const broken of ['%', '%zz', '%E0%A4%A', '%C3', '%ff']) {
        const ids = { ...unknownIds(route), [paramsOf(route).at(-1) as string]: broken }
        expectRefusal(await ask(route, { ids }), 'malformed_request', `${name} ${broken}`)
        expectError(await ask(route, { ids, key: null }), 401, 'api_key_missing', `${name} ${broken}`)
      }
    },
  )
})

describe('the order of checks', () => {
  const post = (path: string, options: CallOptions) => call(service.url, 'POST', path, options)

  test('an unknown route asks for the key first', async () => {
    for (const path of ['/v1', '/v1/', '/v1/nothing', '/v1/users/', '/v1/users/a/b/c', '/v1//users'])
      expectError(await call(service.url, 'GET', path), 401, 'api_key_missing', path)
    expectError(await post('/v1/nothing', { key: newApiKey('secret') }), 401, 'api_key_invalid')
  })

  test('an unknown route is a 404 before its body is looked at', async () => {
    for (const path of ['/v1', '/v1/', '/v1/nothing', '/v1/users/', '/v1/Users', '/v1/users/a/b/c', '/v1//users']) {
      expectError(await call(service.url, 'GET', path, { key: tenant.key }), 404, 'not_found', path)
      for (const raw of ['{', 'x'.repeat(2_000_000), '{"__proto__":1}'])
        expectError(await post(path, { key: tenant.key, raw }), 404, 'not_found', path)
      expectError(
        await post(path, { key: tenant.key, raw: 'a', headers: { 'content-type': 'text/plain' } }),
        404,
        'not_found',
      )
    }
  })

  test('the schema is checked before type and scope of the key, and these before the record', async () => {
    const unknown = pathOf(routes.find((route) => nameOf(route) === 'PATCH /users/:id') as Route)
    const weak = await tenant.newKey({ scopes: ['audit:read'] })
    const publishable = await tenant.newKey({ publishable: true })
    for (const key of [weak, publishable]) {
      expectRefusal(await tenant.post('/users', undefined, { key, raw: '{' }), 'malformed_json')
      expectRefusal(await tenant.post('/users', { surprise: 1 }, { key }), 'validation_failed')
      expectRefusal(await tenant.get('/users?page=0', { key }), 'validation_failed')
      expectRefusal(await tenant.patch(unknown, { surprise: 1 }, { key }), 'validation_failed')
    }
    expectError(await tenant.patch(unknown, {}, { key: weak }), 403, 'insufficient_scope')
    expectError(await tenant.patch(unknown, {}, { key: publishable }), 403, 'key_type_not_allowed')
    expectError(await tenant.patch(unknown, {}), 404, 'not_found')
  })

  test('the key type is named before the origin', async () => {
    const key = await tenant.newKey({ publishable: true })
    const headers = { origin: 'https://evil.example' }
    expectError(await tenant.get('/users', { key, headers }), 403, 'key_type_not_allowed')
    expectError(await tenant.get('/healthz', { key, headers }), 403, 'origin_not_allowed')
  })

  test('a query and a body that are both wrong are refused by the query, whose parameters the 400 names', async () => {
    const [detail] = expectRefusal(await tenant.post('/users?x=1', { surprise: 1 }), 'validation_failed')
    expect(detail.field).toBe('x')
  })
})

describe('the method', () => {
  const known = new Map<string, Set<string>>()
  for (const route of routes) known.set(route.path, (known.get(route.path) ?? new Set()).add(route.method))

  test.each([...known])('%s answers 404 to any other', async (path, methods) => {
    const url = `/v1${path.replace(/:\w+/g, 'none')}`
    for (const method of ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'PROPFIND', 'QUERY']) {
      if (methods.has(method)) continue
      // Another path with a parameter in that place may have the method: it is met, and finds no record.
      const answer = await call(service.url, method, url, { key: tenant.key })
      expect(answer.status, `${method} ${url} ${answer.text}`).toBe(404)
      if (method !== 'HEAD') expectError(answer, 404, 'not_found', `${method} ${url}`)
      expect((await call(service.url, method, url)).status).toBe(401)
    }
  })
})

describe('X-Request-Id', () => {
  const asked = (id: string, path = '/v1/healthz', key: string | null = tenant.key) =>
    call(service.url, 'GET', path, { key, headers: { 'x-request-id': id } })

  test('an id of up to 128 visible ASCII characters comes back, on failures too', async () => {
    for (const id of ['a', '~!@#$%^&*()', 'x'.repeat(128)]) {
      for (const [path, key] of [
        ['/v1/healthz', tenant.key],
        ['/v1/users/none', tenant.key],
        ['/v1/users?page=0', tenant.key],
        ['/v1/users/%zz', tenant.key],
        ['/v1/healthz', null],
        ['/v1/nothing', tenant.key],
        ['/healthz', null],
        ['/nothing', null],
        ['/openapi.json', null],
      ] as const)
        expect((await asked(id, path, key)).headers.get('x-request-id'), path).toBe(id)
    }
  })

  test('any other id is replaced by a new one', async () => {
    const given = ['x'.repeat(129), 'a b', 'é', 'a\tb']
    const answered = new Set<string | null>()
    for (const id of given) answered.add((await asked(id)).headers.get('x-request-id'))
    answered.add((await call(service.url, 'GET', '/v1/healthz')).headers.get('x-request-id'))
    expect(answered.size).toBe(given.length + 1)
    for (const id of answered) {
      expect(given).not.toContain(id)
      expect(id).toMatch(/^[\x21-\x7e]{1,128}$/)
    }
  })
})
