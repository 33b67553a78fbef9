// Payments for HTTP requests (x402): both sides.
export type { Bought, SellersWord, WebAnswer } from './buy.ts'
export {
  expressPaywall,
  fastifyPaywall,
  type PaidExpressRequest,
  type PaidFastifyRequest,
  paywall,
} from './handlers.ts'
export { createPayer, type PaidRequest, type PayerOptions, type PayerPayment, priceOf } from './payer.ts'
export { X402Error, type X402Problem } from './read-terms.ts'
export type { PaywallOptions, PricedRequest, Receipt } from './seller.ts'
export { type Asset, newNonce, type Terms } from './terms.ts'
