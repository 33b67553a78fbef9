import { one, type Route, route, secretKey } from '../../platform/http/route.ts'
import { Tenant, UpdateTenant } from './schema.ts'
import { getTenant, updateTenant } from './service.ts'

/** The endpoints of the tenant. */
export const tenantRoutes: Route[] = [
  route(
    'GET /tenant',
    { summary: 'Get the tenant', callers: secretKey('tenant:read'), reply: one(Tenant) },
    (deps, { caller }) => getTenant(deps, caller),
  ),
  route(
    'PATCH /tenant',
    {
      summary: 'Change the tenant',
      description:
        'Changes the name and settings. Billing sets the plan and quotas. Needs a key that is not bound to an app. Emits `tenant.updated` if something changed.',
      callers: secretKey('tenant:write', { tenantWide: true }),
      body: UpdateTenant,
      reply: one(Tenant),
      errors: ['not_found'],
    },
    (deps, { caller, origin, body }) => updateTenant(deps, { caller, origin }, body),
  ),
]
