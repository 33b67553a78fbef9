import { IdParam, list, one, type Route, route, secretKey } from '../../platform/http/route.ts'
import { App, CreateApp, DeleteApp, ListApps, UpdateApp } from './schema.ts'
import { createApp, deleteApp, getApp, listApps, updateApp } from './service.ts'
import { checkSignInHook } from './sign-in-hook.ts'

/** The endpoints of apps. */
export const appRoutes: Route[] = [
  route(
    'GET /apps',
    {
      summary: 'List apps',
      description: 'Newest first. A key that is bound to an app sees only that app.',
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
      errors: ['sign_in_hook_url_blocked'],
      before: (deps, { body }) => checkSignInHook(deps, body),
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
        'Absent fields stay unchanged. Nested objects and metadata are merged, arrays are replaced. Emits `app.updated` if something changed.',
      callers: secretKey('apps:write'),
      params: IdParam,
      body: UpdateApp,
      reply: one(App),
      errors: ['sign_in_hook_url_blocked'],
      before: (deps, { body }) => checkSignInHook(deps, body),
    },
    (deps, { caller, origin, params, body }) => updateApp(deps, { caller, origin }, params.id, body),
  ),
  route(
    'DELETE /apps/:id',
    {
      summary: 'Delete an app',
      description:
        "Its API keys stop working immediately, and its webhooks are deleted. You cannot delete the tenant's default app. An app with users or guests is deleted only if `force` is `true`: they are deleted with it, without an event for each. Returns the record in its final state and emits `app.deleted`.",
      callers: secretKey('apps:write', { tenantWide: true }),
      params: IdParam,
      query: DeleteApp,
      reply: one(App),
      errors: ['default_app', 'app_not_empty'],
    },
    (deps, { caller, origin, params, query }) => deleteApp(deps, { caller, origin }, params.id, query),
  ),
]
