import { deleteOldJobs } from '../../platform/events/jobs.ts'
import { hourly } from '../../platform/maintenance.ts'
import type { Slice } from '../../platform/slice.ts'
import { jobRoutes } from './routes.ts'

/** Long-running jobs and their progress. */
export const jobSlice: Slice = {
  routes: jobRoutes,
  tasks: () => [hourly(deleteOldJobs)],
}
