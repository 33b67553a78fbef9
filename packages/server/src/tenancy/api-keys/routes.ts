import { IdParam, list, one, type Route, route, secretKey } from '../../platform/http/route.ts'
import { ApiKey, ApiKeyWithKey, CreateApiKey, ListApiKeys, RotateApiKey } from './schema.ts'
import { createApiKey, getApiKey, listApiKeys, revokeApiKey, rotateApiKey } from './service.ts'

/** The endpoints of API keys. */
export const apiKeyRoutes: Route[] = [
  route(
    'GET /api-keys',
    {
      summary: 'List API keys',
      description:
        'Newest first, revoked and expired ones too. A key that is bound to an app sees the keys of that app only.',
      callers: secretKey('api_keys:read'),
      query: ListApiKeys,
      reply: list(ApiKey),
    },
    (deps, { caller, query }) => listApiKeys(deps, caller, query),
  ),
  route(
    'POST /api-keys',
    {
      summary: 'Create an API key',
      description:
        '`key` is in this answer only. The new key must not be wider than the one that asks: no scope, app, address or day more (403 `insufficient_scope`). Emits `api_key.created`.',
      callers: secretKey('api_keys:write'),
      body: CreateApiKey,
      reply: one(ApiKeyWithKey),
      status: 201,
      errors: ['not_found'],
      secret: true,
    },
    (deps, { caller, origin, body }) => createApiKey(deps, { caller, origin }, body),
  ),
  route(
    'GET /api-keys/:id',
    {
      summary: 'Get an API key',
      callers: secretKey('api_keys:read'),
      params: IdParam,
      reply: one(ApiKey),
      extension: true,
    },
    (deps, { caller, params }) => getApiKey(deps, caller, params.id),
  ),
  route(
    'DELETE /api-keys/:id',
    {
      summary: 'Revoke an API key',
      description: 'Works at once. The record stays, with the status `revoked`. Emits `api_key.revoked`.',
      callers: secretKey('api_keys:write'),
      params: IdParam,
      reply: one(ApiKey),
      errors: ['last_admin_key'],
    },
    (deps, { caller, origin, params }) => revokeApiKey(deps, { caller, origin }, params.id),
  ),
  route(
    'POST /api-keys/:id/rotate',
    {
      summary: 'Give an API key a new value',
      description:
        '`key` is in this answer only; id and rights stay. The old value works for `graceSeconds` more. The key must not be wider than the one that asks. Emits `api_key.rotated`.',
      callers: secretKey('api_keys:write'),
      params: IdParam,
      body: RotateApiKey,
      reply: one(ApiKeyWithKey),
      errors: ['api_key_not_active'],
      secret: true,
      extension: true,
    },
    (deps, { caller, origin, params, body }) => rotateApiKey(deps, { caller, origin }, params.id, body),
  ),
]
