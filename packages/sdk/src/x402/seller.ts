import { isHalfkeyError } from '../errors.ts'
import type { X402PaymentPayload, X402Settlement } from '../models.ts'
import { formatAmount, parseAmount } from '../paying/amount.ts'
import type { x402Of } from './facilitator.ts'
import { isFields } from './read-terms.ts'
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
  facilitator: Pick<ReturnType<typeof x402Of>, 'supported' | 'verify' | 'settle'>
  /** The party that is paid. */
  payTo: string
  asset: Asset
  /** Such as `'0.25'`, or a function of the request. It must throw for an address that it does not know: no cheap default. */
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
  /**
   * How long after it happened a payment is accepted, in seconds, at most 3600, which is the default. A transfer that an owner had to
   * approve happens at the approval, and its payer comes back later.
   */
  maxTimeoutSeconds?: number | undefined
  /** Called when a payment could not be settled; by default it is written to the console. */
  onError?: ((error: unknown) => void) | undefined
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
  | { paid: false; status: 400 | 402 | 405 | 503; headers: Record<string, string>; body: string }

/** A request as every framework knows it. */
export interface IncomingCall {
  method: string
  /** Path and query, as they came. */
  target: string
  /** The value of `PAYMENT-SIGNATURE`. */
  payment: string | null | undefined
}

/**
 * A slash, a backslash, or a character that needs no encoding (RFC 3986, section 2.3), written as `%xx` in a path. Frameworks decode
 * them, some before they choose a route.
 */
const ENCODED = /^[^?]*%(2[def]|3\d|4[1-9a-f]|5[\dacf]|6[1-9a-f]|7[\dae])/i
const RETRY_AFTER_SECONDS = '5'

/** Whether the service is only busy or away: the same payment can be shown again. */
const isPassing = (error: unknown) =>
  isHalfkeyError(error) && (error.status === 0 || error.status === 429 || error.status >= 500)

/** Whether a value has exactly the members of `own`, whatever their order. */
function isSame(value: unknown, own: unknown): boolean {
  if (!isFields(own)) return value === own
  const names = Object.keys(own)
  return (
    isFields(value) &&
    Object.keys(value).length === names.length &&
    names.every((name) => Object.hasOwn(value, name) && isSame(value[name], own[name]))
  )
}

function refusal(status: 400 | 402 | 405 | 503, error: string, headers: Record<string, string> = {}): Charged {
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
  const { payTo, asset, price, maxTimeoutSeconds = TIMEOUT_SECONDS_MAX } = options
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

/** Where errors go. */
export function reportOf({ onError }: PaywallOptions): (error: unknown) => void {
  // biome-ignore lint/suspicious/noConsole: without onError, the error would be lost
  return onError ?? ((error) => console.error(error))
}

/** The address of a request; undefined if a framework could read it in another way. */
function addressOf(origin: string, target: string): URL | undefined {
  // A target of another form would change the origin. One that is spelled in another way could lead a framework elsewhere than
  // what is paid for: `/gold/../tin`.
  if (!target.startsWith('/') || target.includes('#') || ENCODED.test(target)) return undefined
  const url = URL.canParse(origin + target) ? new URL(origin + target) : undefined
  return url?.href === origin + target && url.origin === origin && RESOURCE.test(url.href) ? url : undefined
}

/** Settles a payment. Settling writes: it is asked for only where a payment could be settled. @throws HalfkeyError */
async function settle(
  { facilitator }: PaywallOptions,
  payload: Record<string, unknown>,
  terms: Terms,
): Promise<X402Settlement> {
  const refused = (errorReason: NonNullable<X402Settlement['errorReason']>, payer: string): X402Settlement => ({
    success: false,
    errorReason,
    payer,
    transaction: '',
    network: terms.network,
  })
  if (isFields(payload.accepted) && !isSame(payload.accepted, terms)) return refused('requirements_mismatch', '')
  // The service checks its form.
  const paymentPayload = payload as X402PaymentPayload
  const body = { x402Version: 2, paymentPayload, paymentRequirements: terms } as const
  const { isValid, invalidReason = 'payment_not_found', payer } = await facilitator.verify(body)
  return isValid ? facilitator.settle(body) : refused(invalidReason, payer)
}

/**
 * Asks for payments and settles them.
 * @throws TypeError for invalid options; its result: what `price` throws, HalfkeyError if the service refuses
 */
export function sellerOf(given: PaywallOptions): (call: IncomingCall) => Promise<Charged> {
  const options = checked(given)
  const { payTo, asset, price, origin, description, mimeType, maxTimeoutSeconds } = options
  const report = reportOf(options)
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

  async function charge(
    method: Terms['extra']['method'],
    url: URL,
    payment: IncomingCall['payment'],
  ): Promise<Charged> {
    const terms = await termsOf(method, url)
    if (payment === null || payment === undefined) return asking(terms, 'Payment is required.')
    const payload = decodeHeader(payment)
    if (payload === undefined) return refusal(400, 'PAYMENT-SIGNATURE is not valid.')
    const settlement = await settle(options, payload, terms).catch((error: unknown) => {
      // The terms are ours, so the payer's part has another form, or names that the service refuses.
      if (isHalfkeyError(error) && error.status === 400) return undefined
      throw error
    })
    if (settlement === undefined) return refusal(400, 'PAYMENT-SIGNATURE is not valid.')
    const headers = { [RESPONSE]: encodeHeader(settlement) }
    if (!settlement.success) return asking(terms, settlement.errorReason ?? 'payment_refused', headers)
    const { transaction, payer } = settlement
    const amount = formatAmount(BigInt(terms.amount))
    return { paid: true, receipt: { transaction, payer, payTo, amount, asset, method, resource: url.href }, headers }
  }

  return async ({ method: given, target, payment }) => {
    const method = METHODS.find((one) => one === given)
    if (method === undefined) return refusal(405, 'This method cannot be paid for.', { allow: METHODS.join(', ') })
    const url = addressOf(origin, target)
    if (url === undefined) return refusal(400, 'The address is not valid.')
    try {
      return await charge(method, url, payment)
    } catch (error) {
      if (!isPassing(error)) throw error
      report(error)
      const words = 'The payment could not be checked. Repeat the request, with the same payment if there is one.'
      return refusal(503, words, { 'retry-after': RETRY_AFTER_SECONDS })
    }
  }
}
