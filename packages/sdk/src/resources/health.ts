import type { Calls, RequestOptions } from '../http.ts'
import type { Health, Readiness } from '../models.ts'

/** Calls of the probes. They are not retried unless `maxRetries` is set: a probe reports the current state. */
export function healthOf({ one }: Calls) {
  return {
    /** Whether the process runs. Any valid key. */
    check: (options?: RequestOptions): Promise<Health> =>
      one('get', '/healthz', {}, { ...options, maxRetries: options?.maxRetries ?? 0 }),

    /** Whether the process can serve: database, migrations and worker are in order. Any valid key. @throws not_ready, a detail for each failing check */
    ready: (options?: RequestOptions): Promise<Readiness> =>
      one('get', '/readyz', {}, { ...options, maxRetries: options?.maxRetries ?? 0 }),
  }
}
