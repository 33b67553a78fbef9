import { list, type Route, route, secretKey } from '../../platform/http/route.ts'
import { AuditEntry, ListAuditLog } from './schema.ts'
import { listEntries } from './service.ts'

export const auditRoutes: Route[] = [
  route(
    'GET /audit-log',
    {
      summary: 'List the audit log',
      description:
        'Who did what to what, from where: newest first, about a second after it happened. Entries are never changed; `halfkey audit verify` proves it. A key that is bound to an app sees its app’s entries.',
      callers: secretKey('audit:read'),
      query: ListAuditLog,
      reply: list(AuditEntry),
      extension: true,
    },
    (deps, { caller, query }) => listEntries(deps, caller, query),
  ),
]
