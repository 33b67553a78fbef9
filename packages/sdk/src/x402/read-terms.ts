import { type Asset, assetId, DECIMALS, decodeHeader, PARTY, type Terms, TIMEOUT_SECONDS_MAX } from './terms.ts'

/** Why nothing was paid. */
export type X402Problem =
  | 'x402_invalid'
  | 'x402_unsupported'
  | 'x402_asset'
  | 'x402_resource'
  | 'x402_price'
  | 'x402_redirected'
  | 'x402_unreachable'

/** A request that was not paid for. */
export class X402Error extends Error {
  override readonly name = 'X402Error'
  readonly code: X402Problem
  /** Of `x402_redirected`: the address that asks for a payment. */
  readonly url: string | null
  /** Of the call that failed, if a payer of `createPayer` made it: with it, the call can be repeated in the same session. */
  declare readonly nonce?: string

  constructor(code: X402Problem, message: string, url: string | null = null) {
    super(message)
    this.code = code
    this.url = url
  }
}

/** What a payer is ready to pay for. */
export interface Wanted {
  /** How x402 names the payer's ledger. */
  network: string
  asset: Asset
  /** The most that may be paid, in atomic units. */
  unitsMax: bigint
  method: string
  /** The address that was requested. */
  url: string
}

/** How many ways to pay are looked at. */
const ACCEPTS_MAX = 20
const UNITS = /^[1-9]\d{0,37}$/

type Fields = Record<string, unknown>

export const isFields = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

const has = (value: Fields, names: readonly string[]) =>
  Object.keys(value).length === names.length && names.every((name) => Object.hasOwn(value, name))

const TERMS = ['scheme', 'network', 'amount', 'asset', 'payTo', 'maxTimeoutSeconds', 'extra']
const EXTRA = ['decimals', 'method', 'resource']

/** Whether an entry has exactly the members that the service settles, in their form. */
function isTerms(value: unknown): value is Terms {
  if (!isFields(value) || !has(value, TERMS)) return false
  const { scheme, network, amount, asset, payTo, maxTimeoutSeconds: seconds, extra } = value
  return (
    scheme === 'exact' &&
    typeof network === 'string' &&
    typeof amount === 'string' &&
    UNITS.test(amount) &&
    typeof asset === 'string' &&
    typeof payTo === 'string' &&
    PARTY.test(payTo) &&
    typeof seconds === 'number' &&
    Number.isInteger(seconds) &&
    seconds >= 1 &&
    seconds <= TIMEOUT_SECONDS_MAX &&
    isFields(extra) &&
    has(extra, EXTRA) &&
    typeof extra.method === 'string' &&
    typeof extra.resource === 'string'
  )
}

/**
 * The way to pay that is wanted, out of a 402's header. Whatever is not exactly as it should be is refused: what the payer does
 * not understand, they do not pay. @throws X402Error
 */
export function readTerms(header: string | null, wanted: Wanted): Terms {
  const required = header === null ? undefined : decodeHeader(header)
  if (required === undefined)
    throw new X402Error('x402_invalid', 'The 402 response has no valid PAYMENT-REQUIRED header.')
  const { x402Version, accepts } = required
  if (x402Version !== 2 || !Array.isArray(accepts))
    throw new X402Error('x402_invalid', 'The 402 response is not of x402, version 2.')
  const known = accepts
    .slice(0, ACCEPTS_MAX)
    .filter(isTerms)
    .filter(({ network, extra }) => network === wanted.network && extra.decimals === DECIMALS)
  if (known.length === 0)
    throw new X402Error(
      'x402_unsupported',
      `The seller takes no payment on ${wanted.network} with ${DECIMALS} decimals.`,
    )
  const inAsset = known.filter(({ asset }) => asset === assetId(wanted.asset))
  const cheapest = inAsset.sort((a, b) => (BigInt(a.amount) < BigInt(b.amount) ? -1 : 1))[0]
  if (cheapest === undefined)
    throw new X402Error('x402_asset', 'The seller takes another asset than the one to pay with.')
  if (cheapest.extra.method !== wanted.method || cheapest.extra.resource !== wanted.url)
    throw new X402Error('x402_resource', 'The seller asks for a payment for another request than this one.')
  if (BigInt(cheapest.amount) > wanted.unitsMax)
    throw new X402Error('x402_price', 'The price is higher than the most that may be paid.')
  return cheapest
}
