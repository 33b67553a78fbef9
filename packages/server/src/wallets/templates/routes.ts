import { IdParam, list, one, type Route, route, secretKey } from '../../platform/http/route.ts'
import { DeclareTemplate, ListTemplates, Template } from './schema.ts'
import { createTemplate, getTemplate, pageTemplates } from './service.ts'

export const templateRoutes: Route[] = [
  route(
    'GET /templates',
    {
      summary: 'List declared templates',
      description:
        'Templates that the tenant declared on the embedded ledger, newest first. `Token:*` and `Note:Note` are built in and not listed.',
      callers: secretKey('wallets:read'),
      query: ListTemplates,
      reply: list(Template),
      extension: true,
    },
    (deps, { caller, query }) => pageTemplates(deps, caller, query),
  ),
  route(
    'POST /templates',
    {
      summary: 'Declare a template',
      description:
        'Declares a kind of contract on the embedded ledger, as data: its fields, who signs it, who sees it, and what its choices create. A template is never changed or deleted; give a new version a new name. Needs a key that is not bound to an app.',
      callers: secretKey('wallets:write', { tenantWide: true }),
      body: DeclareTemplate,
      reply: one(Template),
      status: 201,
      errors: ['already_exists', 'template_limit_reached'],
      extension: true,
    },
    (deps, { caller, origin, body }) => createTemplate(deps, { caller, origin }, body),
  ),
  route(
    'GET /templates/:id',
    {
      summary: 'Get a declared template',
      description: 'The id is its `templateId`, including the colon.',
      callers: secretKey('wallets:read'),
      params: IdParam,
      reply: one(Template),
      extension: true,
    },
    (deps, { caller, params }) => getTemplate(deps, caller, params.id),
  ),
]
