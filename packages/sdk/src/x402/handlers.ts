import { type Charged, type PaywallOptions, type Receipt, reportOf, sellerOf } from './seller.ts'
import { SIGNATURE } from './terms.ts'

const HEADER = SIGNATURE.toLowerCase()

/** A paid response is for its payer: no cache may give it to others, unless the handler says so. */
const CACHED = ['cache-control', 'private, no-store'] as const

/**
 * Sells what a handler of Fetch API requests returns, for Hono, Next.js, Cloudflare Workers, Deno and Bun. Without a payment the
 * response is 402 with what is asked for. The handler runs once the payment is settled. 503 if the service is busy or does not
 * answer: the payer repeats the request with the same payment. 500 if it refuses, for example because of its key.
 * @throws TypeError for invalid options; its result: what the handler throws
 */
export function paywall(
  options: PaywallOptions,
  handler: (request: Request, receipt: Receipt) => Response | Promise<Response>,
): (request: Request) => Promise<Response> {
  const charge = sellerOf(options)
  const report = reportOf(options)
  return async (request) => {
    const { pathname, search } = new URL(request.url)
    const payment = request.headers.get(HEADER)
    let charged: Charged
    try {
      charged = await charge({ method: request.method, target: pathname + search, payment })
    } catch (error) {
      report(error)
      return new Response(null, { status: 500 })
    }
    if (!charged.paid) return new Response(charged.body, { status: charged.status, headers: charged.headers })
    const made = await handler(request, charged.receipt)
    // Headers of a response that was fetched cannot be changed.
    const response = new Response(made.body, made)
    for (const [name, value] of Object.entries(charged.headers)) response.headers.set(name, value)
    if (!response.headers.has(CACHED[0])) response.headers.set(...CACHED)
    return response
  }
}

type Headers = Record<string, string | string[] | undefined>

/** Several headers of the name are no payment. */
function paymentIn(headers: Headers): string | undefined {
  const value = headers[HEADER]
  return typeof value === 'string' ? value : undefined
}

/** The used part of Express' request. After the middleware, `payment` is the receipt. */
export interface PaidExpressRequest {
  method: string
  originalUrl: string
  headers: Headers
  payment?: Receipt
}

interface ExpressResponse {
  statusCode: number
  setHeader(name: string, value: string): unknown
  end(body?: string): unknown
}

function answer(response: ExpressResponse, charged: Charged & { paid: false }): void {
  response.statusCode = charged.status
  for (const [name, value] of Object.entries(charged.headers)) response.setHeader(name, value)
  response.end(charged.body)
}

/**
 * The same as middleware of Express 4 and 5: `app.get('/weather', expressPaywall(options), handler)`. It calls `next` when the
 * payment is settled, with the receipt in `request.payment`, and with an error if the service refuses.
 * @throws TypeError for invalid options
 */
export function expressPaywall(
  options: PaywallOptions,
): (request: PaidExpressRequest, response: ExpressResponse, next: (error?: unknown) => void) => Promise<void> {
  const charge = sellerOf(options)
  return async (request, response, next) => {
    let charged: Charged
    try {
      const { method, originalUrl: target, headers } = request
      charged = await charge({ method, target, payment: paymentIn(headers) })
    } catch (error) {
      return next(error)
    }
    if (!charged.paid) return answer(response, charged)
    for (const [name, value] of Object.entries(charged.headers)) response.setHeader(name, value)
    response.setHeader(...CACHED)
    request.payment = charged.receipt
    next()
  }
}

/** The used part of Fastify's request. After the hook, `payment` is the receipt. */
export interface PaidFastifyRequest {
  method: string
  originalUrl: string
  headers: Headers
  payment?: Receipt
}

interface FastifyReply {
  code(status: number): unknown
  header(name: string, value: string): unknown
  send(payload?: string): unknown
}

/**
 * The same as a hook of Fastify: `app.get('/weather', { onRequest: fastifyPaywall(options) }, handler)`. The handler runs when the
 * payment is settled, with the receipt in `request.payment`. @throws TypeError for invalid options
 */
export function fastifyPaywall(
  options: PaywallOptions,
): (request: PaidFastifyRequest, reply: FastifyReply) => Promise<unknown> {
  const charge = sellerOf(options)
  return async (request, reply) => {
    const { method, originalUrl: target, headers } = request
    const charged = await charge({ method, target, payment: paymentIn(headers) })
    for (const [name, value] of Object.entries(charged.headers)) reply.header(name, value)
    if (!charged.paid) {
      reply.code(charged.status)
      reply.send(charged.body)
      return reply
    }
    reply.header(...CACHED)
    request.payment = charged.receipt
    return undefined
  }
}
