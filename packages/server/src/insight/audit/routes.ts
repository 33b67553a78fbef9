import { list, type Route, route, secretKey } from '../../platform/http/route.ts'
import { AuditEntry, ListAuditLog } from './schema.ts'
import { listEntries } from './service.ts'

export const auditRoutes: Route[] = [
  route(
    'GET /audit-log',
    {
      summary: 'List the audit log',
      description:
        'Returns who did what, to which record, from where, newest first. An entry appears about a second after the action. Entries are never changed; `halfkey audit verify` proves it. A key that is bound to an app sees only the entries of that app.',
      callers: secretKey('audit:read'),
      query: ListAuditLog,
      reply: list(AuditEntry),
      replica: true,
      extension: true,
    },
    (deps, { caller, query }) => listEntries(deps, caller, query),
  ),
]
