import { afterAll, beforeAll, expect, test } from 'vitest'
import { routes } from '../../src/app.ts'
import { type SignedIn, signedIn } from '../../src/operations/members/members.fixture.ts'
import { ROLES, type Role, rankOf } from '../../src/platform/security/roles/roles.ts'
import { type Service, startService, type Tenant } from '../harness/harness.ts'
import { bodyFor, dnsOfRequests, nameOf, pathOf, stripeOfRequests, takesBody, unknownIds } from './requests.ts'
import { LEAST_ROLE_OF } from './role-decisions.ts'

let service: Service
let tenant: Tenant
const members = new Map<Role, SignedIn>()
beforeAll(async () => {
  service = await startService({
    HALFKEY_DNS_SERVERS: (await dnsOfRequests()).address,
    ...(await stripeOfRequests()).settings,
  })
  tenant = await service.newTenant()
  for (const role of ROLES) members.set(role, await signedIn(service, tenant, role))
})
afterAll(() => service.stop())

test.each(routes.map((route) => [nameOf(route), route] as const))(
  '%s lets in the roles that it should, and refuses every other one before anything is looked up',
  async (name, route) => {
    const least = LEAST_ROLE_OF.get(name)
    for (const [role, { page }] of members) {
      const body = takesBody(route) ? await bodyFor(route, tenant) : undefined
      const answer = await page.call(route.method, pathOf(route, unknownIds(route)), body === undefined ? {} : { body })
      const context = `${role} → ${answer.status} ${answer.text.slice(0, 300)}`
      const isIn = least !== undefined && least !== 'nobody' && rankOf(role) >= rankOf(least)
      if (!isIn) {
        expect(`${answer.status} ${answer.body.details?.[0]?.code}`, context).toBe('403 role_not_allowed')
        continue
      }
      expect(answer.status, context).toBeLessThan(500)
      expect([401, 403], context).not.toContain(answer.status)
    }
  },
)
