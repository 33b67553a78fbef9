import type { Calls, RequestOptions } from '../http.ts'
import type { ApiKey, ApiKeyWithKey } from '../models.ts'
import type { Body, Query } from '../operations.ts'
import type { List } from '../paging.ts'

/** Calls of API keys. Every method may also throw what any call does: see `HalfkeyError`. */
export function apiKeysOf({ one, list }: Calls) {
  return {
    /** Lists API keys, newest first, including revoked and expired ones. Scope `api_keys:read`. */
    list: (query?: Query<'/api-keys', 'get'>, options?: RequestOptions): List<ApiKey> =>
      list('/api-keys', {}, query, options),

    /**
     * Creates an API key with no more rights than the calling one. `key` is in this response only. Scope `api_keys:write`.
     * @throws insufficient_scope, not_found (the app)
     */
    create: (body: Body<'/api-keys', 'post'>, options?: RequestOptions): Promise<ApiKeyWithKey> =>
      one('post', '/api-keys', { body }, options),

    /** Gets an API key's record. Scope `api_keys:read`. @throws not_found */
    get: (id: string, options?: RequestOptions): Promise<ApiKey> =>
      one('get', '/api-keys/{id}', { path: { id } }, options),

    /** Revokes an API key at once; the record stays. Scope `api_keys:write`. @throws not_found, last_admin_key */
    revoke: (id: string, options?: RequestOptions): Promise<ApiKey> =>
      one('delete', '/api-keys/{id}', { path: { id } }, options),

    /**
     * Gives an API key a new value, which is in this response only; the old one works for another `graceSeconds` (default 0).
     * Scope `api_keys:write`. @throws not_found, insufficient_scope, api_key_not_active
     */
    rotate: (
      id: string,
      body: Body<'/api-keys/{id}/rotate', 'post'> = {},
      options?: RequestOptions,
    ): Promise<ApiKeyWithKey> => one('post', '/api-keys/{id}/rotate', { path: { id }, body }, options),
  }
}
