import type { Calls, RequestOptions } from '../http.ts'
import type { Health, Readiness } from '../models.ts'

/** Calls of the probes. They are not retried unless `maxRetries` asks for it: a probe tells how it is now. */
export function healthOf({ one }: Calls) {
  return {
    /** The process runs. Any valid key. */
    check: (options?: RequestOptions): Promise<Health> =>
      one('get', '/healthz', {}, { ...options, maxRetries: options?.maxRetries ?? 0 }),

    /** It can serve: database, migrations and worker are well. Any valid key. @throws not_ready, a detail for each failing check */
    ready: (options?: RequestOptions): Promise<Readiness> =>
      one('get', '/readyz', {}, { ...options, maxRetries: options?.maxRetries ?? 0 }),
  }
}
