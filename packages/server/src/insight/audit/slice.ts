import type { Slice } from '../../platform/slice.ts'
import { auditRoutes } from './routes.ts'
import { followAudit } from './service.ts'

/** The audit log, chained by hashes. */
export const auditSlice: Slice = {
  routes: auditRoutes,
  followers: (deps) => [{ name: 'audit', follow: (db) => followAudit(db, deps) }],
}
