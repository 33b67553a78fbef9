import { isHalfkeyError } from '../errors.ts'
import type { X402PaymentPayload } from '../models.ts'
import { formatAmount, parseAmount } from '../paying/amount.ts'
import type { x402Of } from './facilitator.ts'
import {
  type Asset,
  assetId,
  DECIMALS,
  decodeHeader,
  encodeHeader,
  METHODS,
  PARTY,
  type PaymentRequired,
  REQUIRED,
  RESOURCE,
  RESPONSE,
  SYMBOL,
  type Terms,
  TIMEOUT_SECONDS_MAX,
} from './terms.ts'

/** A request that costs something, as the price may depend on it. */
export interface PricedRequest {
  method: string
  /** With the origin of the options. */
  url: URL
}

/** What a seller asks for. */
export interface PaywallOptions {
  /** `x402` of a client with a secret key that has `payments:settle`. */
  facilitator: Pick<ReturnType<typeof x402Of>, 'supported' | 'settle'>
  /** The party that is paid. */
  payTo: string
  asset: Asset
  /** Such as `'0.25'`, or a function of the request. */
  price: string | ((request: PricedRequest) => string | Promise<string>)
  /**
   * Where clients reach this server, such as `https://api.example.com`. It is not taken from the request: a relay could name itself
   * there, and be given what others paid for.
   */
  origin: string
  /** What is sold, for people who read along. */
  description?: string | undefined
  /** The media type of what is sold. */
  mimeType?: string | undefined
  /** How long after it happened a payment is accepted, in seconds, at most 3600 (default 300). */
  maxTimeoutSeconds?: number | undefined
}

/** A payment that was settled. */
export interface Receipt {
  /** The ledger's id of the transaction. */
  transaction: string
  payer: string
  payTo: string
  /** Decimal. */
  amount: string
  asset: Asset
  method: string
  /** What was paid for. */
  resource: string
}

/** Whether a request is paid for: then `headers` go into the response. Otherwise all of it is the response. */
export type Charged =
  | { paid: true; receipt: Receipt; headers: Record<string, string> }
  | { paid: false; status: 400 | 402 | 405; headers: Record<string, string>; body: string }

/** A request as every framework knows it. */
export interface IncomingCall {
  method: string
  /** Path and query, as they came. */
  target: string
  /** The value of `PAYMENT-SIGNATURE`. */
  payment: string | null | undefined
}

const TIMEOUT_SECONDS = 300

function refusal(status: 400 | 402 | 405, error: string, headers: Record<string, string> = {}): Charged {
  const body = JSON.stringify({ error })
  return {
    paid: false,
    status,
    headers: { 'content-type': 'application/json', 'cache-control': 'no-store', ...headers },
    body,
  }
}

function checkedOrigin(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (url !== undefined && /^https?:$/.test(url.protocol) && url.origin === text) return text
  throw new TypeError("origin must be an origin, such as 'https://api.example.com'")
}

function checkedUnits(price: unknown): bigint {
  const units = typeof price === 'string' ? parseAmount(price) : null
  if (units !== null && units > 0n) return units
  throw new TypeError("price must be a decimal of more than zero, such as '0.25'")
}

function checked(options: PaywallOptions) {
  const { payTo, asset, price, maxTimeoutSeconds = TIMEOUT_SECONDS } = options
  if (!PARTY.test(payTo)) throw new TypeError('payTo must be a party')
  if (!PARTY.test(asset.issuer)) throw new TypeError('asset.issuer must be a party')
  if (!SYMBOL.test(asset.symbol)) throw new TypeError('asset.symbol must be a symbol')
  if (typeof price !== 'function') checkedUnits(price)
  if (!Number.isInteger(maxTimeoutSeconds) || maxTimeoutSeconds < 1 || maxTimeoutSeconds > TIMEOUT_SECONDS_MAX)
    throw new TypeError(`maxTimeoutSeconds must be a whole number from 1 to ${TIMEOUT_SECONDS_MAX}`)
  return { ...options, origin: checkedOrigin(options.origin), maxTimeoutSeconds }
}

/** The ledger's name, asked for once. */
function networkOf({ facilitator }: PaywallOptions): () => Promise<string> {
  let known: Promise<string> | undefined
  const ask = async () => {
    const [kind] = (await facilitator.supported()).kinds
    if (kind === undefined) throw new Error('This Halfkey service settles no payments')
    return kind.network
  }
  return () => {
    known ??= ask().catch((error: unknown) => {
      known = undefined
      throw error
    })
    return known
  }
}

/** Asks for payments and settles them. @throws TypeError for invalid options */
export function sellerOf(given: PaywallOptions): (call: IncomingCall) => Promise<Charged> {
  const options = checked(given)
  const { facilitator, payTo, asset, price, origin, description, mimeType, maxTimeoutSeconds } = options
  const network = networkOf(options)

  async function termsOf(method: Terms['extra']['method'], url: URL): Promise<Terms> {
    const units = checkedUnits(typeof price === 'function' ? await price({ method, url }) : price)
    const extra = { decimals: DECIMALS, method, resource: url.href } as const
    const amount = units.toString()
    return { scheme: 'exact', network: await network(), amount, asset: assetId(asset), payTo, maxTimeoutSeconds, extra }
  }

  function asking(terms: Terms, error: string, headers: Record<string, string> = {}): Charged {
    const about = {
      ...(description === undefined ? {} : { description }),
      ...(mimeType === undefined ? {} : { mimeType }),
    }
    const resource = { url: terms.extra.resource, ...about }
    const required: PaymentRequired = { x402Version: 2, error, resource, accepts: [terms] }
    return refusal(402, error, { [REQUIRED]: encodeHeader(required), ...headers })
  }

  return async ({ method: given, target, payment }) => {
    const method = METHODS.find((one) => one === given)
    if (method === undefined) return refusal(405, 'This method cannot be paid for.', { allow: METHODS.join(', ') })
    // A target of another form would change the origin. One that is spelled in another way could lead a framework elsewhere than
    // what is paid for: `/gold/../tin`.
    const isCanonical =
      target.startsWith('/') && URL.canParse(origin + target) && new URL(origin + target).href === origin + target
    const url = isCanonical && !target.includes('#') ? new URL(origin + target) : undefined
    if (url === undefined || url.origin !== origin || !RESOURCE.test(url.href))
      return refusal(400, 'The address is not valid.')
    const terms = await termsOf(method, url)
    if (payment === null || payment === undefined) return asking(terms, 'Payment is required.')
    const paymentPayload = decodeHeader(payment)
    if (paymentPayload === undefined) return refusal(400, 'PAYMENT-SIGNATURE is not valid.')
    // The service checks its form.
    const body = {
      x402Version: 2,
      paymentPayload: paymentPayload as X402PaymentPayload,
      paymentRequirements: terms,
    } as const
    try {
      const settled = await facilitator.settle(body)
      const headers = { [RESPONSE]: encodeHeader(settled) }
      if (!settled.success) return asking(terms, settled.errorReason ?? 'payment_refused', headers)
      const { transaction, payer } = settled
      const receipt = {
        transaction,
        payer,
        payTo,
        amount: formatAmount(BigInt(terms.amount)),
        asset,
        method,
        resource: url.href,
      }
      return { paid: true, receipt, headers }
    } catch (error) {
      // The terms are ours, so the payer's part has another form, or names that the service refuses.
      if (isHalfkeyError(error) && error.status === 400) return refusal(400, 'PAYMENT-SIGNATURE is not valid.')
      throw error
    }
  }
}
