import { expect, test } from 'vitest'
import { routes } from '../../src/app.ts'
import { mayCall } from '../../src/platform/security/roles/member-calls.ts'
import { ROLES, type Role, rankOf, STEP_UP, scopesOf } from '../../src/platform/security/roles/roles.ts'
import { nameOf } from '../matrix/requests.ts'
import { LEAST_ROLE_OF } from '../matrix/role-decisions.ts'

const may = (role: Role, least: Role | 'nobody' | undefined) =>
  least !== undefined && least !== 'nobody' && rankOf(role) >= rankOf(least)

test('somebody has decided for every route which roles may call it, and the roles follow the decision', () => {
  expect([...LEAST_ROLE_OF.keys()].toSorted()).toEqual(routes.map(nameOf).toSorted())
  for (const route of routes)
    for (const role of ROLES)
      expect(mayCall(role, route), `${role} ${nameOf(route)}`).toBe(may(role, LEAST_ROLE_OF.get(nameOf(route))))
})

test('each role may do what the one before it may, and only an owner has every scope', () => {
  for (const [at, role] of ROLES.entries())
    expect(scopesOf(ROLES[at + 1] ?? role)).toEqual(expect.arrayContaining([...scopesOf(role)]))
  expect(ROLES.filter((role) => scopesOf(role).includes('*'))).toEqual(['owner'])
})

test('viewers and support change nothing and are given no secret', () => {
  for (const role of ['viewer', 'support'] as const) {
    expect(scopesOf(role).filter((scope) => !scope.endsWith(':read'))).toEqual([])
    expect(scopesOf(role)).not.toEqual(expect.arrayContaining([expect.stringMatching(/^(api_keys|webhooks|members):/)]))
    expect(routes.filter((route) => route.secret === true && mayCall(role, route)).map(nameOf)).toEqual([])
  }
})

test('every call that gives out a secret or changes keys and members needs a step-up, and each of these calls exists', () => {
  const all = routes.map(nameOf)
  expect([...STEP_UP].filter((name) => !all.includes(name))).toEqual([])
  // Addresses of the payment processor are no secret of ours: whoever has one pays.
  const free = ['POST /billing/checkout', 'POST /billing/portal']
  const sensitive = routes.filter(
    (route) =>
      mayCall('owner', route) &&
      (route.secret === true || (route.method !== 'GET' && /^\/(api-keys|members)\b/.test(route.path))),
  )
  expect(sensitive.map(nameOf).filter((name) => !STEP_UP.has(name) && !free.includes(name))).toEqual([])
})
