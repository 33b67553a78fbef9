import type { Fetch } from '../attempt.ts'
import { isHalfkeyError } from '../errors.ts'
import type { Contract, OwnDelegatedSession } from '../models.ts'
import { formatAmount, parseAmount } from '../paying/amount.ts'
import { chooseTransfers, type Holding, mayBeSplit } from '../paying/choose.ts'
import { joined } from '../receiving.ts'
import type { delegatedSessionsOf } from '../resources/delegated-sessions.ts'
import { type Bought, buy, type Paid, type Web, type WebAnswer, type WebRequest } from './buy.ts'
import { X402Error } from './read-terms.ts'
import { type Asset, type METHODS, newNonce, type Terms } from './terms.ts'

type Session = ReturnType<typeof delegatedSessionsOf>

/** How a program pays for requests. */
export interface PayerOptions {
  /** `delegatedSessions` of a client with the session's `delegateToken`. */
  session: Session
  /** What it pays with. */
  asset: Asset
  /** The most that it pays for one request, such as `'0.50'`. The session's policy and caps hold beside it. */
  maxAmount: string
  /** Sends the requests instead of the global `fetch`. */
  fetch?: Fetch | undefined
  /** How long one request may take, in milliseconds (default 30000). */
  timeoutMs?: number | undefined
  /** How much of a response's body is read, in bytes (default 1 MiB). */
  bodyBytesMax?: number | undefined
}

/** A request that may cost something. */
export interface PaidRequest {
  /** Default `GET`. */
  method?: (typeof METHODS)[number] | undefined
  /** They go to the origin of the request only. */
  headers?: Record<string, string> | undefined
  body?: string | undefined
  /**
   * Makes it one purchase, whatever is lost on the way: with the same nonce in the same session, the same request is paid once.
   * Keep it before the call to repeat it after a crash. Default: a new one (`newNonce`), which the result and errors have as `nonce`.
   */
  nonce?: string | undefined
}

/** What became of the transfer: see `Execution`. */
export interface PayerPayment extends Paid {
  status: string
  transactionId: string
  /** It was made by an earlier call. */
  repeated: boolean
}

const HOLDINGS_MAX = 1_000
const PAGE = 100
const ATTEMPTS_MAX = 5
const TIMEOUT_MS = 30_000
const BODY_BYTES_MAX = 1_048_576
/** Elsewhere, who reads along without encryption could use the payment first. */
const LOOPBACK = /^(localhost|127(\.\d{1,3}){3}|\[::1\])$/
/** Another transaction used a holding first. Nothing has happened. */
const TAKEN = ['contract_archived', 'contract_not_found']

async function readBody(response: Response, bytesMax: number): Promise<{ body: Uint8Array; isCut: boolean }> {
  const chunks: Uint8Array[] = []
  let bytes = 0
  const reader = response.body?.getReader()
  for (;;) {
    const chunk = await reader?.read()
    if (chunk === undefined || chunk.done) return { body: joined(chunks), isCut: false }
    chunks.push(chunk.value)
    bytes += chunk.value.length
    if (bytes <= bytesMax) continue
    // Not awaited: a sender that never ends would block it.
    reader?.cancel().catch(() => undefined)
    return { body: joined(chunks).slice(0, bytesMax), isCut: true }
  }
}

/** Requests by `fetch`, which may reach whatever the program may. */
function webOf({ fetch: send, timeoutMs = TIMEOUT_MS, bodyBytesMax = BODY_BYTES_MAX }: PayerOptions): Web {
  return async ({ method, url, headers, body }): Promise<WebAnswer> => {
    const { protocol, hostname } = new URL(url)
    if (protocol !== 'https:' && !LOOPBACK.test(hostname))
      throw new X402Error('x402_unreachable', 'The address must begin with https://.')
    const init: RequestInit = { method, headers, redirect: 'manual', signal: AbortSignal.timeout(timeoutMs) }
    if (body !== undefined) init.body = body
    try {
      const response = await (send ?? ((to, how) => globalThis.fetch(to, how)))(url, init)
      return { status: response.status, headers: response.headers, ...(await readBody(response, bodyBytesMax)) }
    } catch {
      throw new X402Error('x402_unreachable', 'There was no response.')
    }
  }
}

function holdingOf({ contractId, arguments: fields }: Contract): Holding {
  const { issuer, symbol, amount } = fields as Record<string, string>
  return { contractId, issuer: `${issuer}`, symbol: `${symbol}`, amount: `${amount}` }
}

async function holdingsOf(session: Session, { id, wallet }: OwnDelegatedSession, asset: Asset): Promise<Holding[]> {
  const where = Object.entries({ owner: wallet.partyId, ...asset }).map(([path, value]) => ({
    path,
    op: 'eq' as const,
    value,
  }))
  const holdings: Holding[] = []
  for await (const contract of session.queryAll(id, { templateIds: ['Token:Holding'], where, limit: PAGE })) {
    if (holdings.length >= HOLDINGS_MAX) break
    holdings.push(holdingOf(contract))
  }
  return holdings
}

async function earlier(session: Session, commandId: string): Promise<PayerPayment | undefined> {
  const [found] = (await session.transactions({ commandId, pageSize: 1 })).data
  return found && { paid: found.status === 'completed', status: found.status, transactionId: found.id, repeated: true }
}

/** Makes the transfer, once for each command id. @throws HalfkeyError, TypeError if the holdings are not enough */
async function transfer(
  session: Session,
  own: OwnDelegatedSession,
  asset: Asset,
  terms: Terms,
  commandId: string,
): Promise<PayerPayment> {
  const before = await earlier(session, commandId)
  if (before !== undefined) return before
  for (let attempts = 1; ; attempts += 1) {
    const holdings = await holdingsOf(session, own, asset)
    const commands = chooseTransfers(holdings, terms.payTo, BigInt(terms.amount), mayBeSplit(own.policy))
    if (commands === null)
      throw new TypeError('The wallet does not hold enough of this asset, or not in parts that can be used together')
    try {
      const { status, transactionId } = await session.execute(own.id, { commandId, commands })
      return { paid: status === 'completed', status, transactionId: `${transactionId}`, repeated: false }
    } catch (error) {
      const other = isHalfkeyError(error, 'duplicate_command') ? await earlier(session, commandId) : undefined
      if (other !== undefined) return other
      if (!isHalfkeyError(error) || !TAKEN.includes(error.code) || attempts === ATTEMPTS_MAX) throw error
    }
  }
}

/**
 * Returns a function that requests an address and pays if the response is a 402 of x402, out of a delegated session on the embedded
 * ledger. It pays at most `maxAmount`, once for each nonce, and never to another origin than the requested one. A GET follows at
 * most one redirect, and what is there is not paid for. `http:` reaches loopback only. `payment` says what became of the transfer: if its
 * status is `approval_required`, repeat the call with the same nonce, in the same session, soon after the owner has approved.
 * @throws TypeError for invalid options; its result: X402Error if this call paid nothing, HalfkeyError if the policy refused or the
 * service did not answer. Each has the `nonce` of the call.
 */
export function createPayer(
  options: PayerOptions,
): (url: string, request?: PaidRequest) => Promise<Bought<PayerPayment>> {
  const { session, asset, maxAmount } = options
  const unitsMax = parseAmount(maxAmount)
  if (unitsMax === null) throw new TypeError("maxAmount must be a decimal such as '0.50'")
  const web = webOf(options)
  const wanted = { asset, unitsMax }

  async function requested(request: WebRequest, nonce: string): Promise<Bought<PayerPayment>> {
    const own = await session.me()
    const { partyId, network } = own.wallet
    if (network === null) throw new X402Error('x402_unsupported', "Payments are not supported on this wallet's ledger.")
    return buy({
      web,
      wanted: { ...wanted, network },
      request,
      payer: { partyId, delegatedSessionId: own.id },
      nonce,
      pay: (terms, commandId) => transfer(session, own, asset, terms, commandId),
    })
  }

  return async (address, { method = 'GET', headers = {}, body, nonce = newNonce() } = {}) => {
    const url = new URL(address)
    url.hash = ''
    try {
      return await requested({ method, url: url.href, headers, body }, nonce)
    } catch (error) {
      throw error instanceof Error ? Object.assign(error, { nonce }) : error
    }
  }
}

/** The price of terms as a decimal, such as `0.25`. */
export const priceOf = ({ amount }: Pick<Terms, 'amount'>): string => formatAmount(BigInt(amount))
