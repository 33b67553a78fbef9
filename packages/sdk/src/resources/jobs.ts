import type { Calls, RequestOptions } from '../http.ts'
import type { Job } from '../models.ts'

/** Calls of jobs. Every method may also throw what any call does: see `HalfkeyError`. */
export function jobsOf({ one }: Calls) {
  return {
    /** Gets a job with its progress. Scope `webhooks:read`. @throws not_found */
    get: (id: string, options?: RequestOptions): Promise<Job> => one('get', '/jobs/{id}', { path: { id } }, options),
  }
}
