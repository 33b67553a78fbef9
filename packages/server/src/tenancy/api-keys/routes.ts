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
        'Newest first, including revoked and expired keys. A key that is bound to an app sees only the keys of that app.',
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
        '`key` is only in this response. The new key must not have more scopes, apps, addresses or lifetime than the key that makes the call (403 `insufficient_scope`). Emits `api_key.created`.',
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
      description: 'Takes effect immediately. The record stays, with the status `revoked`. Emits `api_key.revoked`.',
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
      summary: 'Rotate an API key',
      description:
        'Gives the key a new value. `key` is only in this response. The id and the rights stay the same. The old value works for another `graceSeconds`. The key must not have more rights than the key that makes the call. Emits `api_key.rotated`.',
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
