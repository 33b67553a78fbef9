import { hourly } from '../../platform/maintenance.ts'
import type { Slice } from '../../platform/slice.ts'
import { portalPages } from './page.ts'
import { portalLinkRoutes } from './routes.ts'
import { deleteOldLinks } from './service.ts'

/** Links to the page where a subscriber manages their webhooks, and the page. */
export const portalSlice: Slice = {
  routes: portalLinkRoutes,
  plainRoutes: portalPages(),
  tasks: () => [hourly(deleteOldLinks)],
}
