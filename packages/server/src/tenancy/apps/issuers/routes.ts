import { IdParam, list, one, type Route, route, secretKey } from '../../../platform/http/route.ts'
import { CreateIssuer, Issuer, IssuerParams, ListIssuers, UpdateIssuer } from './schema.ts'
import { checkSources, createIssuer, getIssuer, listIssuers, removeIssuer, updateIssuer } from './service.ts'

/** The endpoints of the issuers whose tokens an app takes. */
export const issuerRoutes: Route[] = [
  route(
    'GET /apps/:id/issuers',
    {
      summary: 'List the trusted issuers of an app',
      description: 'Newest first.',
      callers: secretKey('apps:read'),
      params: IdParam,
      query: ListIssuers,
      reply: list(Issuer),
      extension: true,
    },
    (deps, { caller, params, query }) => listIssuers(deps, caller, params.id, query),
  ),
  route(
    'POST /apps/:id/issuers',
    {
      summary: 'Trust an issuer',
      description:
        'From then on, `POST /auth/token/exchange` takes the tokens (JWT) of this issuer. An issuer can sign in every user that it created or that linked an identity of it, so trust only issuers that you control or that your users chose. An app can trust 10. The addresses of its keys are checked now and before every request to them. Emits `app.updated`.',
      callers: secretKey('apps:write'),
      params: IdParam,
      body: CreateIssuer,
      reply: one(Issuer),
      status: 201,
      errors: ['issuer_url_blocked', 'already_exists', 'issuer_limit'],
      before: (deps, { body }) => checkSources(deps, body),
      extension: true,
    },
    (deps, { caller, origin, params, body }) => createIssuer(deps, { caller, origin }, params.id, body),
  ),
  route(
    'GET /apps/:id/issuers/:issuerId',
    {
      summary: 'Get a trusted issuer',
      callers: secretKey('apps:read'),
      params: IssuerParams,
      reply: one(Issuer),
      extension: true,
    },
    (deps, { caller, params }) => getIssuer(deps, caller, params),
  ),
  route(
    'PATCH /apps/:id/issuers/:issuerId',
    {
      summary: 'Change a trusted issuer',
      description:
        'Absent fields stay unchanged; `claims` are merged, arrays are replaced. `jwksUri` replaces `discovery`, and the other way round. `issuer` cannot be changed: trust another one, and remove this one. Takes effect immediately in this process, and in others within a second. Emits `app.updated` if something changed.',
      callers: secretKey('apps:write'),
      params: IssuerParams,
      body: UpdateIssuer,
      reply: one(Issuer),
      errors: ['issuer_url_blocked'],
      before: (deps, { body }) => checkSources(deps, body),
      extension: true,
    },
    (deps, { caller, origin, params, body }) => updateIssuer(deps, { caller, origin }, params, body),
  ),
  route(
    'DELETE /apps/:id/issuers/:issuerId',
    {
      summary: 'Stop trusting an issuer',
      description:
        'Its tokens are refused from then on. Users and their identities stay: if you trust the same issuer again, they can sign in again. Sessions that have begun go on. Returns the record in its final state. Emits `app.updated`.',
      callers: secretKey('apps:write'),
      params: IssuerParams,
      reply: one(Issuer),
      extension: true,
    },
    (deps, { caller, origin, params }) => removeIssuer(deps, { caller, origin }, params),
  ),
]
