import { IdParam, list, one, type Route, route, secretKey } from '../../../platform/http/route.ts'
import { CreateProvider, ListProviders, Provider, ProviderParams, UpdateProvider } from './schema.ts'
import { checkProvider, createProvider, getProvider, listProviders, removeProvider, updateProvider } from './service.ts'

/** The endpoints of the providers by which users of an app sign in. */
export const providerRoutes: Route[] = [
  route(
    'GET /apps/:id/providers',
    {
      summary: 'List the sign-in providers of an app',
      description: 'Newest first, without their secrets.',
      callers: secretKey('apps:read'),
      params: IdParam,
      query: ListProviders,
      reply: list(Provider),
      extension: true,
    },
    (deps, { caller, params, query }) => listProviders(deps, caller, params.id, query),
  ),
  route(
    'POST /apps/:id/providers',
    {
      summary: 'Add a sign-in provider',
      description:
        'From then on, users sign in with their account at this provider: on the hosted sign-in page, with `POST /auth/providers/:id/start`, and in native apps with `POST /auth/providers/:id/token`. Register `callbackUrl` of the response at the provider. A provider can sign in every user that it created or that linked an account of it. An app can have 10, each with another issuer. Emits `app.updated`.',
      callers: secretKey('apps:write'),
      params: IdParam,
      body: CreateProvider,
      reply: one(Provider),
      status: 201,
      errors: ['issuer_url_blocked', 'already_exists', 'provider_limit'],
      before: (deps, { body }) => checkProvider(deps, body),
      extension: true,
    },
    (deps, { caller, origin, params, body }) => createProvider(deps, { caller, origin }, params.id, body),
  ),
  route(
    'GET /apps/:id/providers/:providerId',
    {
      summary: 'Get a sign-in provider',
      callers: secretKey('apps:read'),
      params: ProviderParams,
      reply: one(Provider),
      extension: true,
    },
    (deps, { caller, params }) => getProvider(deps, caller, params),
  ),
  route(
    'PATCH /apps/:id/providers/:providerId',
    {
      summary: 'Change a sign-in provider',
      description:
        'Absent fields stay unchanged; arrays are replaced. `preset` and `issuer` cannot be changed: add another provider, and remove this one. Emits `app.updated` if something changed.',
      callers: secretKey('apps:write'),
      params: ProviderParams,
      body: UpdateProvider,
      reply: one(Provider),
      extension: true,
    },
    (deps, { caller, origin, params, body }) => updateProvider(deps, { caller, origin }, params, body),
  ),
  route(
    'DELETE /apps/:id/providers/:providerId',
    {
      summary: 'Remove a sign-in provider',
      description:
        'Nobody signs in by it any more. Users and their identities stay: if you add a provider with the same issuer again, they can sign in again. Sessions that have begun go on. Returns the record in its final state. Emits `app.updated`.',
      callers: secretKey('apps:write'),
      params: ProviderParams,
      reply: one(Provider),
      extension: true,
    },
    (deps, { caller, origin, params }) => removeProvider(deps, { caller, origin }, params),
  ),
]
