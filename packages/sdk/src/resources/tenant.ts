import type { Calls, RequestOptions } from '../http.ts'
import type { Tenant } from '../models.ts'
import type { Body } from '../operations.ts'

/** Calls of the key's tenant. Every method may also throw what any call does: see `HalfkeyError`. */
export function tenantOf({ one }: Calls) {
  return {
    /** Gets the tenant. Scope `tenant:read`. */
    get: (options?: RequestOptions): Promise<Tenant> => one('get', '/tenant', {}, options),

    /** Changes the given name and settings. Scope `tenant:write`, tenant-wide. @throws not_found (the default app) */
    update: (body: Body<'/tenant', 'patch'>, options?: RequestOptions): Promise<Tenant> =>
      one('patch', '/tenant', { body }, options),
  }
}
