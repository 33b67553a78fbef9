import type { Calls, RequestOptions } from '../http.ts'
import type { Template } from '../models.ts'
import type { Body, Query } from '../operations.ts'
import type { List } from '../paging.ts'

/** Calls of the embedded ledger's declared templates. Every method may also throw what any call does: see `HalfkeyError`. */
export function templatesOf({ one, list }: Calls) {
  return {
    /** Lists the tenant's own templates, newest first; the built-in ones are not among them. Scope `wallets:read`. */
    list: (query?: Query<'/templates', 'get'>, options?: RequestOptions): List<Template> =>
      list('/templates', {}, query, options),

    /** Gets a template by its `templateId`, such as `Shop:Voucher`. Scope `wallets:read`. @throws not_found */
    get: (templateId: string, options?: RequestOptions): Promise<Template> =>
      one('get', '/templates/{id}', { path: { id: templateId } }, options),

    /**
     * Declares a template; it is never changed or removed. Scope `wallets:write`, tenant-wide.
     * @throws already_exists, template_limit_reached
     */
    create: (body: Body<'/templates', 'post'>, options?: RequestOptions): Promise<Template> =>
      one('post', '/templates', { body }, options),
  }
}
