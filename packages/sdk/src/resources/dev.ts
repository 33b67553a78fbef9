import type { Calls, RequestOptions } from '../http.ts'
import type { Dripped } from '../models.ts'
import type { Body } from '../operations.ts'

/** Calls of a service in development mode; in production they throw `not_found`. */
export function devOf({ one }: Calls) {
  return {
    /** Issues test tokens to a user's wallet. Scope `wallets:write`. @throws not_found (the user) */
    faucet: (body: Body<'/dev/faucet', 'post'>, options?: RequestOptions): Promise<Dripped> =>
      one('post', '/dev/faucet', { body }, options),
  }
}
