import { hourly } from '../../platform/maintenance.ts'
import { deleteOldRevocations } from '../../platform/security/revocations.ts'
import type { Slice } from '../../platform/slice.ts'
import { jwksRoute, sessionRoutes } from './routes.ts'
import { deleteOldSessions } from './service.ts'

/** Sessions of signed-in users and their tokens. */
export const sessionSlice: Slice = {
  routes: sessionRoutes,
  plainRoutes: [jwksRoute],
  tasks: () => [hourly(deleteOldSessions), hourly(deleteOldRevocations)],
}
