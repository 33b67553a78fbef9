import { AUDIT_ONLY_RECORD } from '../../platform/events/audit-only-entries.ts'
import type { Slice } from '../../platform/slice.ts'
import { auditRoutes } from './routes.ts'
import { followAudit } from './service.ts'

/** The audit log, chained by hashes. */
export const auditSlice: Slice = {
  records: [AUDIT_ONLY_RECORD],
  routes: auditRoutes,
  followers: (deps) => [{ name: 'audit', follow: (db) => followAudit(db, deps) }],
}
