// The matrices ask representatives for what every endpoint promises. This is why that is enough.
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { entrancesOf, plainRoutes, routes, routesOf } from '../../src/app.ts'
import { loadConfig } from '../../src/config.ts'
import { enterAsDelegate } from '../../src/delegation/service.ts'
import { enterPortal } from '../../src/delivery/portal/service.ts'
import { enterFromPage } from '../../src/identity/sign-in/serve-page.ts'
import { enterDashboard } from '../../src/operations/dashboard/service.ts'
import type { Route } from '../../src/platform/http/route.ts'
import { REPRESENTATIVES } from './matrix.ts'
import { nameOf } from './requests.ts'

const SRC = join(import.meta.dirname, '../../src')
const config = loadConfig({})

/** The files of the source, relative to it, in which a pattern is found, and how often. */
function uses(pattern: RegExp): Record<string, number> {
  const files = globSync('**/*.ts', { cwd: SRC }).filter((path) => !/\.(test|fixture)\.ts$/.test(path))
  const counts = files.map((path) => [path, readFileSync(join(SRC, path), 'utf8').match(pattern)?.length ?? 0] as const)
  return Object.fromEntries(counts.filter(([, count]) => count > 0))
}

test('every route of a table is served by endpoint(), in one place', () => {
  // Its definition aside.
  expect(uses(/(?<!function )\bendpoint\(/g)).toEqual({ 'platform/http/server.ts': 1 })
  expect(uses(/\baddRoute\(app, deps, route/g)).toEqual({ 'platform/http/server.ts': 2 })
  expect(uses(/\b(app|scope|server|instance)\.(route|get|post|put|patch|delete|all)\(/g)).toEqual({
    'platform/http/plain-routes.ts': 2,
    'platform/http/server.ts': 1,
  })
  expect(uses(/\bapp\.register\(/g)).toEqual({
    'platform/http/pages/api-reference.ts': 1,
    'platform/http/plain-routes.ts': 1,
  })
})

test('only the routes of the portal take its links, and it has no others', () => {
  const portal = entrancesOf(config)[2]?.routes ?? []
  const others = entrancesOf(config).flatMap(({ base, routes: own }) => (base === '/portal/api' ? [] : own))
  expect(portal.filter(({ callers }) => callers.kind !== 'subscriber')).toEqual([])
  expect([...routes, ...others].filter(({ callers }) => callers.kind === 'subscriber')).toEqual([])
})

test('the dashboard has the routes of /v1, the sign-in page and agents some of them, and each one way in', () => {
  const [page, dashboard, portal, agent, ...others] = entrancesOf(config)
  expect(others).toEqual([])
  expect(dashboard).toMatchObject({ base: '/dashboard/api', limit: 'secret' })
  expect(dashboard?.routes).toEqual(routesOf(config))
  expect(dashboard?.enter).toBe(enterDashboard)
  expect(page).toMatchObject({ base: '/signin/api', limit: 'publishable' })
  expect(page?.enter).toBe(enterFromPage)
  expect(portal).toMatchObject({ base: '/portal/api', limit: 'publishable' })
  expect(portal?.enter).toBe(enterPortal)
  expect(agent).toMatchObject({ base: '/agent/api', limit: 'secret' })
  expect(agent?.enter).toBe(enterAsDelegate)
  // Nothing that makes, changes or ends a session.
  expect(agent?.routes.map(nameOf)).toEqual([
    'GET /delegated-sessions/me',
    'GET /delegated-sessions/me/transactions',
    'GET /delegated-sessions/me/transactions/:id',
    'POST /delegated-sessions/:id/execute',
    'POST /delegated-sessions/:id/query',
  ])
})

test('no keyless route lies below /v1 or where a page calls endpoints', () => {
  const endpoints = new Set([
    ...routes.map((route) => `${route.method} /v1${route.path}`),
    ...entrancesOf(config).flatMap(({ base, routes: own }) =>
      own.map(({ method, path }) => `${method} ${base}${path}`),
    ),
  ])
  for (const { method = 'GET', path } of plainRoutes) {
    expect(path).not.toMatch(/^\/v1(\/|$)/)
    expect([...endpoints]).not.toContain(`${method} ${path}`)
  }
})

test('the representatives hold every kind of callers, of answers and of methods that there is', () => {
  const kindsOf = (route: Route) => {
    const { kind, user, tenantWide } = { user: null, tenantWide: null, ...route.callers }
    return [
      JSON.stringify({ kind, user, tenantWide }),
      `reply ${route.reply.kind}`,
      `method ${route.method}`,
      `secret ${route.secret ?? false}`,
      `steps ${route.steps !== undefined}`,
      `turn ${route.turn !== undefined}`,
      `limit ${route.limit ?? null}`,
    ]
  }
  const byName = new Map(routes.map((route) => [nameOf(route), route]))
  const held = new Set(REPRESENTATIVES.flatMap((name) => kindsOf(byName.get(name) as Route)))
  for (const route of routes) for (const kind of kindsOf(route)) expect(held, nameOf(route)).toContain(kind)
})
