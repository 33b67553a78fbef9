import type { Calls, RequestOptions } from '../http.ts'
import type { Analytics } from '../models.ts'
import type { Query } from '../operations.ts'

/** Calls of analytics. Every method may also throw what any call does: see `HalfkeyError`. */
export function analyticsOf({ one }: Calls) {
  return {
    /** Gets the daily counters of a period (30 days by default), including today. Scope `analytics:read`. @throws not_found (an app) */
    get: (query?: Query<'/analytics', 'get'>, options?: RequestOptions): Promise<Analytics> =>
      one('get', '/analytics', { query }, options),
  }
}
