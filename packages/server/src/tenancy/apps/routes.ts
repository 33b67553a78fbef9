import { IdParam, list, one, type Route, route, secretKey } from '../../platform/http/route.ts'
import { App, CreateApp, DeleteApp, ListApps, UpdateApp } from './schema.ts'
import { createApp, deleteApp, getApp, listApps, updateApp } from './service.ts'

/** The endpoints of apps. */
export const appRoutes: Route[] = [
  route(
    'GET /apps',
    {
      summary: 'List apps',
      description: 'Newest first. A key that is bound to an app sees that app only.',
      callers: secretKey('apps:read'),
      query: ListApps,
      reply: list(App),
    },
    (deps, { caller, query }) => listApps(deps, caller, query),
  ),
  route(
    'POST /apps',
    {
      summary: 'Create an app',
      description: 'Needs a key that is not bound to an app. Emits `app.created`.',
      callers: secretKey('apps:write', { tenantWide: true }),
      body: CreateApp,
      reply: one(App),
      status: 201,
    },
    (deps, { caller, origin, body }) => createApp(deps, { caller, origin }, body),
  ),
  route(
    'GET /apps/:id',
    { summary: 'Get an app', callers: secretKey('apps:read'), params: IdParam, reply: one(App) },
    (deps, { caller, params }) => getApp(deps, caller, params.id),
  ),
  route(
    'PATCH /apps/:id',
    {
      summary: 'Change an app',
      description:
        'What is absent stays; nested objects and metadata are merged, arrays replaced. Emits `app.updated` if something changed.',
      callers: secretKey('apps:write'),
      params: IdParam,
      body: UpdateApp,
      reply: one(App),
    },
    (deps, { caller, origin, params, body }) => updateApp(deps, { caller, origin }, params.id, body),
  ),
  route(
    'DELETE /apps/:id',
    {
      summary: 'Delete an app',
      description:
        "Its API keys stop at once and its webhooks go. Refuses the tenant's default app, and an app with users (guests count) unless `force` is `true`: then they go too, without an event for each. Answers the record's final state and emits `app.deleted`.",
      callers: secretKey('apps:write', { tenantWide: true }),
      params: IdParam,
      query: DeleteApp,
      reply: one(App),
      errors: ['default_app', 'app_not_empty'],
    },
    (deps, { caller, origin, params, query }) => deleteApp(deps, { caller, origin }, params.id, query),
  ),
]
