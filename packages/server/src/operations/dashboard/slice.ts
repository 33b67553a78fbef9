import { hourly } from '../../platform/maintenance.ts'
import type { Slice } from '../../platform/slice.ts'
import { DASHBOARD_SESSION_RECORD, LINK_RECORD } from './records.ts'
import { dashboardRoutes } from './routes.ts'
import { deleteOldSessions } from './service.ts'

/** The dashboard's sessions and files. */
export const dashboardSlice: Slice = {
  plainRoutes: dashboardRoutes,
  records: [LINK_RECORD, DASHBOARD_SESSION_RECORD],
  tasks: ({ now }) => [hourly((db) => deleteOldSessions({ db, now }))],
}
