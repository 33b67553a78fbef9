import { hourly } from '../../platform/maintenance.ts'
import type { Slice } from '../../platform/slice.ts'
import { dashboardRoutes } from './routes.ts'
import { deleteOldSessions } from './service.ts'

/** The dashboard's sessions and files. */
export const dashboardSlice: Slice = {
  plainRoutes: dashboardRoutes,
  tasks: ({ now }) => [hourly((db) => deleteOldSessions({ db, now }))],
}
