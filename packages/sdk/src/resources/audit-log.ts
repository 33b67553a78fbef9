import type { Calls, RequestOptions } from '../http.ts'
import type { AuditEntry } from '../models.ts'
import type { Query } from '../operations.ts'
import type { List } from '../paging.ts'

/** Calls of the audit log. Every method may also throw what any call does: see `HalfkeyError`. */
export function auditLogOf({ list }: Calls) {
  return {
    /**
     * Lists who did what to which record, newest first. `action` is an event type, an audit-only action, or a
     * family such as `user.*`; `since` an ISO 8601 time. Scope `audit:read`.
     */
    list: (query?: Query<'/audit-log', 'get'>, options?: RequestOptions): List<AuditEntry> =>
      list('/audit-log', {}, query, options),
  }
}
