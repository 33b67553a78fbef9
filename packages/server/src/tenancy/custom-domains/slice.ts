import { detached } from '../../platform/maintenance.ts'
import type { Slice } from '../../platform/slice.ts'
import { CUSTOM_DOMAIN_ERRORS } from './errors.ts'
import { recheckDomains } from './recheck.ts'
import { customDomainRoutes, relatedOriginsRoute, tlsAllowedRoute } from './routes.ts'

/** Custom domains and related origins. */
export const customDomainSlice: Slice = {
  routes: customDomainRoutes,
  plainRoutes: [relatedOriginsRoute, tlsAllowedRoute],
  errors: CUSTOM_DOMAIN_ERRORS,
  tasks: (deps) => [detached(deps, (db) => recheckDomains({ ...deps, db }))],
}
