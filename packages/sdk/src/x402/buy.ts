import { readTerms, type Wanted, X402Error } from './read-terms.ts'
import {
  checkedNonce,
  commandIdOf,
  decodeHeader,
  encodeHeader,
  REQUIRED,
  RESPONSE,
  SIGNATURE,
  sha256,
  type Terms,
} from './terms.ts'

/** A response, with as much of its body as is read. */
export interface WebAnswer {
  status: number
  headers: Headers
  body: Uint8Array
  /** The body was longer. */
  isCut: boolean
}

/** One request. It follows no redirect. */
export interface WebRequest {
  method: string
  url: string
  headers: Record<string, string>
  body?: string | undefined
}

/** Sends requests to addresses that others chose. @throws X402Error x402_unreachable */
export type Web = (request: WebRequest) => Promise<WebAnswer>

/** A transfer to a seller. */
export interface Paid {
  /** Whether it has happened. */
  paid: boolean
}

/** What is bought, by whom and how. */
export interface Purchase<P extends Paid> {
  web: Web
  /** Without what depends on the address. */
  wanted: Omit<Wanted, 'url' | 'method'>
  request: WebRequest
  payer: { partyId: string; delegatedSessionId: string }
  /** 32 bytes as hex. It is not sent: what is sent is derived from it. */
  nonce: string
  /** Makes the transfer under this command id, at most once. */
  pay(terms: Terms, commandId: string): Promise<P>
}

/** Of the header `PAYMENT-RESPONSE`: what is text there. */
export type SellersWord = Partial<Record<'transaction' | 'network' | 'payer' | 'amount' | 'errorReason', string>> & {
  success: boolean
}

const WORDS = ['transaction', 'network', 'payer', 'amount', 'errorReason'] as const

function receiptIn({ headers }: WebAnswer): SellersWord | null {
  const said = decodeHeader(headers.get(RESPONSE) ?? '')
  if (said === undefined) return null
  const texts = WORDS.flatMap((name) => (typeof said[name] === 'string' ? [[name, said[name]]] : []))
  return { ...Object.fromEntries(texts), success: said.success === true }
}

/** What came of it. */
export interface Bought<P extends Paid> {
  /** With which it can be repeated in the same session without paying again. Nobody else may see it. */
  nonce: string
  /** Where the answer came from: after a redirect, another address than the requested one. */
  url: string
  /** Null if there was none after the payment: repeat it with the same nonce, in the same session. */
  answer: WebAnswer | null
  /** Null if nothing was asked for. */
  terms: Terms | null
  commandId: string | null
  payment: P | null
  /** What the seller says of the payment. It is their word, not the ledger's. */
  receipt: SellersWord | null
}

const NONCE_TAG = 'halfkey/x402/nonce/v1'
const REDIRECTS = [301, 302, 303, 307, 308]

/** Where a redirect leads; undefined if it leads nowhere. */
function targetOf({ status, headers }: WebAnswer, from: string): string | undefined {
  const location = REDIRECTS.includes(status) ? headers.get('location') : null
  if (location === null || !URL.canParse(location, from)) return undefined
  const target = new URL(location, from)
  target.hash = ''
  return /^https?:$/.test(target.protocol) && `${target.username}${target.password}` === '' ? target.href : undefined
}

const originOf = (url: string) => new URL(url).origin

/**
 * The nonce that is shown to the seller: another one for each request, so that who sells one thing cannot use what is paid
 * elsewhere with the same nonce.
 */
async function shownNonce(nonce: string, method: string, url: string): Promise<string> {
  return sha256(JSON.stringify([NONCE_TAG, method, url, nonce]))
}

/** The first answer, after at most one redirect of a GET. To another origin go none of the caller's headers. */
async function ask(
  web: Web,
  request: WebRequest,
): Promise<{ url: string; headers: Record<string, string>; answer: WebAnswer }> {
  const { url, headers } = request
  const answer = await web(request)
  const target = request.method === 'GET' ? targetOf(answer, url) : undefined
  if (target === undefined) return { url, headers, answer }
  const passed = originOf(target) === originOf(url) ? headers : {}
  return { url: target, headers: passed, answer: await web({ method: 'GET', url: target, headers: passed }) }
}

/**
 * Requests, pays what a 402 asks for, and requests again with the payment: once, whatever the second answer is. The payment goes
 * to the requested address only, and never along a redirect. @throws X402Error if nothing was paid
 */
export async function buy<P extends Paid>(purchase: Purchase<P>): Promise<Bought<P>> {
  const { web, wanted, request, payer } = purchase
  const base = checkedNonce(purchase.nonce)
  const { url, headers, answer } = await ask(web, request)
  const { method, body } = request
  if (answer.status !== 402)
    return { nonce: base, url, answer, terms: null, commandId: null, payment: null, receipt: null }
  // Where a redirect leads is up to the seller: a repeat could lead elsewhere each time, and be another purchase each time.
  if (url !== request.url)
    throw new X402Error('x402_redirected', 'A redirect led to another address, which asks for a payment.', url)
  const terms = readTerms(answer.headers.get(REQUIRED), { ...wanted, method, url })
  const nonce = await shownNonce(base, method, url)
  const commandId = await commandIdOf(method, url, nonce)
  const payment = await purchase.pay(terms, commandId)
  const done = { nonce: base, url, terms, commandId, payment }
  if (!payment.paid) return { ...done, answer, receipt: null }
  const { partyId, delegatedSessionId } = payer
  const proof = encodeHeader({
    x402Version: 2,
    resource: { url },
    accepted: terms,
    payload: { payer: partyId, delegatedSessionId, nonce },
  })
  const served = await web({ method, url, headers: { ...headers, [SIGNATURE]: proof }, body }).catch(
    (error: unknown) => {
      if (error instanceof X402Error) return null
      throw error
    },
  )
  return { ...done, answer: served, receipt: served && receiptIn(served) }
}
