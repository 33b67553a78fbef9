import type { Calls, RequestOptions } from '../http.ts'
import type { X402Payment, X402Settlement, X402Supported, X402Verification } from '../models.ts'

/**
 * The facilitator for payments by x402 on the embedded ledger. Scope `payments:settle`. `@halfkey/sdk/x402` has what sellers and
 * payers need around it.
 */
export function x402Of({ one }: Calls) {
  return {
    /** The networks and schemes that can be settled. */
    supported: (options?: RequestOptions): Promise<X402Supported> => one('get', '/x402/supported', {}, options),

    /** Whether a payment could be settled now, and why not. Changes nothing. @throws validation_failed */
    verify: (body: X402Payment, options?: RequestOptions): Promise<X402Verification> =>
      one('post', '/x402/verify', { body, reads: true }, options),

    /** Uses up a payment: it succeeds once for each payment. @throws validation_failed */
    settle: (body: X402Payment, options?: RequestOptions): Promise<X402Settlement> =>
      one('post', '/x402/settle', { body }, options),
  }
}
