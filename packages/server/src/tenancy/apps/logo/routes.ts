import { IdParam, one, type Route, route, secretKey } from '../../../platform/http/route.ts'
import { App } from '../schema.ts'
import { Logo, SetLogo } from './schema.ts'
import { deleteLogo, getLogo, setLogo } from './service.ts'

/** The endpoints of an app's logo. */
export const logoRoutes: Route[] = [
  route(
    'GET /apps/:id/logo',
    {
      summary: 'Get the logo of an app',
      description: '404 if the app has no logo.',
      callers: secretKey('apps:read'),
      params: IdParam,
      extension: true,
      reply: one(Logo),
    },
    (deps, { caller, params }) => getLogo(deps, caller, params.id),
  ),
  route(
    'POST /apps/:id/logo',
    {
      summary: 'Set the logo of an app',
      description:
        'Replaces the current one. Everything that is not the picture, such as the place where a photo was taken, is removed. Emits `app.updated` if the picture changed.',
      callers: secretKey('apps:write'),
      params: IdParam,
      extension: true,
      body: SetLogo,
      reply: one(App),
    },
    (deps, { caller, origin, params, body }) => setLogo(deps, { caller, origin }, params.id, body),
  ),
  route(
    'DELETE /apps/:id/logo',
    {
      summary: 'Remove the logo of an app',
      description: 'Emits `app.updated` if the app had one.',
      callers: secretKey('apps:write'),
      params: IdParam,
      extension: true,
      reply: one(App),
    },
    (deps, { caller, origin, params }) => deleteLogo(deps, { caller, origin }, params.id),
  ),
]
