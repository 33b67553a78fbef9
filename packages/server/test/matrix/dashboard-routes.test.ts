import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Route } from '../../src/platform/http/route.ts'
import { openAsOperator, openPage, type Page } from '../harness/dashboard-page.ts'
import { expectError } from '../harness/envelope.ts'
import { type Answer, call, type Service, startService, type Tenant } from '../harness/harness.ts'
import { subjects } from './matrix.ts'
import {
  actAs,
  bodyFor,
  dnsOfRequests,
  nameOf,
  paramsOf,
  pathOf,
  RECORDS,
  resourceOf,
  stripeOfRequests,
  takesBody,
  unknownIds,
} from './requests.ts'

/** A tenant and how it is called: by its key, or by a page. */
interface Way {
  tenant: Tenant
  page: Page | null
}

let service: Service
let direct: Way
let byKey: Way
let byLink: Way
beforeAll(async () => {
  service = await startService({
    HALFKEY_DNS_SERVERS: (await dnsOfRequests()).address,
    ...(await stripeOfRequests()).settings,
  })
  direct = { tenant: await service.newTenant(), page: null }
  const [first, second] = [await service.newTenant(), await service.newTenant()]
  byKey = { tenant: first, page: await openPage(service, { key: first.key }) }
  byLink = { tenant: second, page: await openAsOperator(service) }
})
afterAll(() => service.stop())

/** What people may and keys may not: here the operator, by a link. */
const FOR_PEOPLE = ['PATCH /member-sign-in']

/** In the long run every test below runs for every endpoint under `/v1`. */
const all = subjects.map((route) => [nameOf(route), route] as const)

interface AskOptions {
  headers?: Record<string, string | undefined>
  ids?: Record<string, string>
}

/** Calls a route for a way's tenant with a request that passes its schema, on a record of the tenant's. */
async function ask({ tenant, page }: Way, route: Route, options: AskOptions = {}): Promise<Answer> {
  const ids = options.ids ?? (paramsOf(route).length > 0 ? await RECORDS[resourceOf(route)]?.(tenant, service) : {})
  const body = takesBody(route) ? await bodyFor(route, tenant) : undefined
  const path = pathOf(route, ids)
  const sent = { ...(body === undefined ? {} : { body }) }
  const headers = await actAs(route, tenant)
  if (page === null) return tenant.call(route.method, path, { ...sent, headers })
  const chosen = page.session.via === 'link' ? { 'x-halfkey-tenant': tenant.tenantId } : {}
  return page.call(route.method, path, { ...sent, headers: { ...chosen, ...headers, ...options.headers } })
}

test.each(all)(
  '%s answers sessions as it answers a secret key, and nobody may keep the answer',
  async (name, route) => {
    const expected = await ask(direct, route)
    for (const way of [byKey, byLink]) {
      const answer = await ask(way, route)
      const context = `${name} → ${answer.text}`
      if (way === byLink && FOR_PEOPLE.includes(name)) expect(answer.status, context).toBe(200)
      else expect(`${answer.status} ${answer.body.code}`, context).toBe(`${expected.status} ${expected.body.code}`)
      expect(answer.status, context).toBeLessThan(500)
      expect(answer.headers.get('cache-control'), name).toBe('no-store')
      expect(answer.headers.get('access-control-allow-origin'), name).toBeNull()
    }
  },
)

test.each(all)('%s takes no API key in place of a session', async (name, route) => {
  const answer = await ask(byKey, route, {
    headers: { cookie: undefined, 'x-api-key': byKey.tenant.key },
    ids: unknownIds(route),
  })
  expectError(answer, 401, 'session_missing', name)
})

test.each(all)('%s refuses what a page of others sends with the cookie', async (name, route) => {
  const ids = unknownIds(route)
  for (const page of [
    { 'sec-fetch-site': 'cross-site' },
    { 'sec-fetch-site': 'same-site' },
    { 'sec-fetch-site': undefined, origin: 'https://evil.example' },
    { 'sec-fetch-site': undefined, origin: 'null' },
  ])
    for (const way of [byKey, byLink])
      expectError(await ask(way, route, { headers: page, ids }), 403, 'origin_not_allowed', name)
  if (route.method !== 'GET')
    for (const csrf of [undefined, '', 'x', byKey.page?.session.csrfToken])
      expectError(
        await ask(byLink, route, { headers: { 'x-halfkey-csrf': csrf }, ids }),
        403,
        'csrf_token_invalid',
        name,
      )
})

test.each(all)('%s below /v1 takes no cookie in place of a key', async (name, route) => {
  const cookie = byLink.page?.cookie as string
  const headers = { cookie, 'x-halfkey-csrf': byLink.page?.session.csrfToken as string }
  const answer = await call(service.url, route.method, `/v1${pathOf(route)}`, { headers })
  expectError(answer, 401, 'api_key_missing', name)
})

const withIds = all.filter(([, route]) => paramsOf(route).length > 0)

test.each(withIds)('%s answers another tenant’s id as one that names nothing', async (name, route) => {
  const theirs = await RECORDS[resourceOf(route)]?.(direct.tenant, service)
  for (const way of [byKey, byLink]) {
    const answer = await ask(way, route, { ids: theirs ?? {} })
    expectError(answer, 404, 'not_found', name)
    expect(answer.text).toBe((await ask(way, route, { ids: unknownIds(route) })).text)
  }
})
