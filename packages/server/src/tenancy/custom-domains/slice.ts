import { detached } from '../../platform/maintenance.ts'
import type { Slice } from '../../platform/slice.ts'
import { customDomainRoutes, relatedOriginsRoute, tlsAllowedRoute } from './routes.ts'
import { CUSTOM_DOMAIN_ERRORS } from './service.ts'
import { recheckDomains } from './verify.ts'

/** Custom domains and related origins. */
export const customDomainSlice: Slice = {
  routes: customDomainRoutes,
  plainRoutes: [relatedOriginsRoute, tlsAllowedRoute],
  errors: CUSTOM_DOMAIN_ERRORS,
  tasks: (deps) => [detached(deps, (db) => recheckDomains({ ...deps, db }))],
}
