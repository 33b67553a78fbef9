import { list, type Route, route, secretKey } from '../../platform/http/route.ts'
import { ListEmails, SentEmail } from './schema.ts'
import { listEmails } from './service.ts'

export const emailRoutes: Route[] = [
  route(
    'GET /emails',
    {
      summary: 'List emails',
      description:
        'Emails that Halfkey sent or tried to send, newest first, without what they say. They are kept as long as events. `status=failed` lists those that nobody got.',
      callers: secretKey('emails:read'),
      query: ListEmails,
      reply: list(SentEmail),
      extension: true,
    },
    (deps, { caller, query }) => listEmails(deps, caller, query),
  ),
]
