// A payment processor on a local port: Stripe's API as far as the service uses it, strict about the form of each request.
// Written from the API's reference (https://docs.stripe.com/api), not from the library that calls it.
import { createHmac, randomBytes } from 'node:crypto'
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

const API_VERSION = '2026-10-28.endive'
const KEY = 'sk_test_halfkey'
const WEBHOOK_SECRET = 'whsec_halfkey'
/** The price of each plan that can be bought. */
export const PRICES = { pro: 'price_pro', scale: 'price_scale' } as const
const DAY_SECONDS = 86_400
const WORK_MS = 10
const URL_CHARS_MAX = 5_000
/** Put into a success URL by the processor, which knows it in this spelling alone. */
const TEMPLATE = '{CHECKOUT_SESSION_ID}'
const TEMPLATE_SPELLED = '%7BCHECKOUT_SESSION_ID%7D'

/** A request as it came, with its form's fields or its query's. */
interface StripeRequest {
  method: string
  path: string
  fields: Record<string, string>
  headers: IncomingHttpHeaders
}

/** A subscription as the processor has it. Times are Unix seconds. */
export interface FakeSubscription {
  id: string
  customer: string
  status: string
  price: string
  periodStart: number
  periodEnd: number
}

/** An event, ready to be posted. */
export interface FakeEvent {
  id: string
  body: string
}

type Answer = { status: number; body: object }
type Fault = (request: StripeRequest, response: ServerResponse) => boolean

/** What is wrong with a request is answered as Stripe does, and kept in `violations`: a test may look that there are none. */
export interface StripeFake {
  /** The service's settings to use it. */
  settings: Record<string, string>
  url: string
  requests: StripeRequest[]
  violations: string[]
  customers: { id: string; metadata: Record<string, string> }[]
  /** So many of `path` were answered with success, repeats under one key counted once. */
  made(path: string): number
  subscribe(customer: string, options?: Partial<FakeSubscription>): FakeSubscription
  /** A genuine event about an object, as the processor would post it. */
  event(type: string, object: object, options?: { id?: string; more?: object }): FakeEvent
  subscriptionEvent(type: string, of: FakeSubscription, options?: { id?: string }): FakeEvent
  /** The `stripe-signature` header for these bytes. */
  sign(body: string, options?: { at?: Date; secret?: string; scheme?: string }): string
  /** Until it is called again: true means that the fault has answered, or never will. Null for none. */
  fault(fault: Fault | null): void
  close(): Promise<void>
}

const newIdOf = (prefix: string) => `${prefix}_${randomBytes(12).toString('hex')}`

const refused = (
  status: number,
  code: string,
  message: string,
  { type = 'invalid_request_error', param }: { type?: string; param?: string } = {},
): Answer => ({ status, body: { error: { type, code, message, ...(param === undefined ? {} : { param }) } } })

/** The fields that an operation takes; a `!` marks those that it needs. `[]` stands for any key in brackets. */
const FORMS: Record<string, string[]> = {
  'POST /v1/customers': ['metadata[tenantId]!'],
  'POST /v1/checkout/sessions': [
    'mode!',
    'customer!',
    'client_reference_id!',
    'line_items[0][price]!',
    'line_items[0][quantity]!',
    'success_url!',
    'cancel_url!',
    'metadata[tenantId]!',
    'subscription_data[metadata][tenantId]!',
  ],
  'POST /v1/billing_portal/sessions': ['customer!', 'return_url!'],
  'GET /v1/subscriptions': ['customer!', 'limit'],
}

/** What is wrong with a request's form, or null. */
function formProblem({ method, path, fields, headers }: StripeRequest): Answer | null {
  if (headers.authorization !== `Bearer ${KEY}`)
    return {
      status: 401,
      body: { error: { type: 'invalid_request_error', message: `Invalid API Key provided: ${KEY.slice(0, 7)}***` } },
    }
  if (headers['stripe-version'] !== API_VERSION) return refused(400, 'api_version', `Not ${API_VERSION}`)
  const form = FORMS[`${method} ${path}`]
  if (form === undefined) return refused(404, 'url_unknown', `Unrecognized request URL (${method}: ${path}).`)
  if (method === 'POST') {
    if (headers['content-type'] !== 'application/x-www-form-urlencoded')
      return refused(400, 'content_type', 'Not form-encoded')
    const key = headers['idempotency-key']
    if (typeof key !== 'string' || !key.startsWith('halfkey-') || key.length > 255)
      return refused(400, 'idempotency_key', `Not a key of the service's: ${key}`)
  }
  if (headers['x-stripe-client-telemetry'] !== undefined) return refused(400, 'telemetry', 'Sends telemetry')
  const known = form.map((name) => name.replace('!', ''))
  const unknown = Object.keys(fields).find((name) => !known.includes(name))
  if (unknown !== undefined) return refused(400, 'parameter_unknown', `Received unknown parameter: ${unknown}`)
  const missing = form.find((name) => name.endsWith('!') && !fields[name.slice(0, -1)])
  return missing === undefined ? null : refused(400, 'parameter_missing', `Missing required param: ${missing}`)
}

const toObject = (one: FakeSubscription) => ({
  id: one.id,
  object: 'subscription',
  customer: one.customer,
  status: one.status,
  items: {
    object: 'list',
    data: [
      {
        id: `si_${one.id}`,
        object: 'subscription_item',
        price: { id: one.price, object: 'price' },
        current_period_start: one.periodStart,
        current_period_end: one.periodEnd,
      },
    ],
  },
})

/** Statuses that `GET /v1/subscriptions` leaves out unless asked for. */
const ENDED = ['canceled', 'incomplete_expired']

async function readRequest(request: IncomingMessage): Promise<StripeRequest> {
  let body = ''
  for await (const chunk of request) body += chunk
  const url = new URL(request.url ?? '/', 'http://fake')
  const fields = Object.fromEntries(request.method === 'POST' ? new URLSearchParams(body) : url.searchParams)
  return { method: request.method ?? '', path: url.pathname, fields, headers: request.headers }
}

/** The operations, on a state of their own. */
function operations(url: () => string) {
  const customers: StripeFake['customers'] = []
  const subscriptions: FakeSubscription[] = []
  const noCustomer = (id: string | undefined) =>
    customers.some((one) => one.id === id)
      ? null
      : refused(400, 'resource_missing', `No such customer: '${id}'`, { param: 'customer' })
  const answers: Record<string, (fields: Record<string, string>) => Answer> = {
    'POST /v1/customers'(fields) {
      const customer = { id: newIdOf('cus'), metadata: { tenantId: fields['metadata[tenantId]'] as string } }
      customers.push(customer)
      return { status: 200, body: { object: 'customer', ...customer } }
    },
    'POST /v1/checkout/sessions'(fields) {
      const price = fields['line_items[0][price]']
      const problem = noCustomer(fields.customer)
      if (problem !== null) return problem
      if (!Object.values<string>(PRICES).includes(price ?? ''))
        return refused(400, 'resource_missing', `No such price: '${price}'`)
      for (const field of ['success_url', 'cancel_url'])
        if (URL.parse(fields[field] ?? '')?.href.replaceAll(TEMPLATE_SPELLED, TEMPLATE) !== fields[field])
          return refused(400, 'url_invalid', 'Not a valid URL')
      if (Math.max(...['success_url', 'cancel_url'].map((field) => fields[field]?.length ?? 0)) > URL_CHARS_MAX)
        return refused(400, 'url_invalid', `Must be at most ${URL_CHARS_MAX} characters`)
      if (fields.mode !== 'subscription' || fields['line_items[0][quantity]'] !== '1')
        return refused(400, 'parameter_invalid', 'Not one subscription')
      const id = newIdOf('cs_test')
      const expires_at = Math.floor(Date.now() / 1000) + DAY_SECONDS
      return { status: 200, body: { id, object: 'checkout.session', url: `${url()}/pay/${id}`, expires_at } }
    },
    'POST /v1/billing_portal/sessions'(fields) {
      const id = newIdOf('bps')
      return (
        noCustomer(fields.customer) ?? {
          status: 200,
          body: { id, object: 'billing_portal.session', url: `${url()}/portal/${id}`, return_url: fields.return_url },
        }
      )
    },
    'GET /v1/subscriptions'({ customer, limit = '10' }) {
      const data = subscriptions
        .filter((one) => one.customer === customer && !ENDED.includes(one.status))
        .reverse()
        .slice(0, Number(limit))
      return (
        noCustomer(customer) ?? { status: 200, body: { object: 'list', has_more: false, data: data.map(toObject) } }
      )
    },
  }
  return { customers, subscriptions, answers }
}

/** Each key's first answer again; other fields under one key are an error (https://docs.stripe.com/api/idempotent_requests). */
function idempotently() {
  const kept = new Map<string, { content: string; answer: Answer }>()
  return (request: StripeRequest, work: () => Answer): { answer: Answer; repeated: boolean } => {
    const key = request.headers['idempotency-key'] as string | undefined
    if (key === undefined) return { answer: work(), repeated: false }
    const content = JSON.stringify([request.path, request.fields])
    const before = kept.get(key)
    if (before !== undefined)
      return before.content === content
        ? { answer: before.answer, repeated: true }
        : {
            answer: refused(400, 'idempotency', 'Keys can only be used with the same parameters', {
              type: 'idempotency_error',
            }),
            repeated: true,
          }
    const answer = work()
    kept.set(key, { content, answer })
    return { answer, repeated: false }
  }
}

/** Refuses a request while another one under its key is worked on, which takes a moment. */
function inTurn() {
  const running = new Set<unknown>()
  return async (request: StripeRequest, work: () => Answer): Promise<Answer> => {
    const key = request.headers['idempotency-key']
    if (key === undefined) return work()
    if (running.has(key)) return refused(409, 'idempotency_key_in_use', 'Another request under this key is running')
    running.add(key)
    await new Promise((resolve) => setTimeout(resolve, WORK_MS))
    running.delete(key)
    return work()
  }
}

/** Starts one on a free port of 127.0.0.1. */
export async function startStripeFake(): Promise<StripeFake> {
  const requests: StripeRequest[] = []
  const violations: string[] = []
  const successes: string[] = []
  let url = ''
  let fault: Fault | null = null
  const { customers, subscriptions, answers } = operations(() => url)
  const once = idempotently()
  const oneAtATime = inTurn()

  function answerTo(request: StripeRequest): Answer {
    const problem = formProblem(request)
    const name = `${request.method} ${request.path}`
    const { answer, repeated } =
      problem === null
        ? once(request, () => answers[name]?.(request.fields) as Answer)
        : { answer: problem, repeated: false }
    if (answer.status >= 400) violations.push(`${name}: ${JSON.stringify(answer.body)}`)
    else if (!repeated) successes.push(request.path)
    return answer
  }
  const server = createServer(async (incoming, response) => {
    const request = await readRequest(incoming)
    requests.push(request)
    if (fault?.(request, response)) return
    const { status, body } = await oneAtATime(request, () => answerTo(request))
    if (status === 409) violations.push(`${request.path}: two at once under one key`)
    response.writeHead(status, { 'content-type': 'application/json', 'request-id': newIdOf('req') })
    response.end(JSON.stringify(body))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`

  const event: StripeFake['event'] = (type, object, { id = newIdOf('evt'), more = {} } = {}) => {
    const created = Math.floor(Date.now() / 1000)
    const body = { id, object: 'event', api_version: API_VERSION, created, type, data: { object }, ...more }
    return { id, body: JSON.stringify(body, null, 2) }
  }
  return {
    settings: {
      HALFKEY_STRIPE_API: url,
      HALFKEY_STRIPE_SECRET_KEY: KEY,
      HALFKEY_STRIPE_WEBHOOK_SECRET: WEBHOOK_SECRET,
      HALFKEY_STRIPE_PRICES: `pro=${PRICES.pro},scale=${PRICES.scale}`,
    },
    url,
    requests,
    violations,
    customers,
    made: (path) => successes.filter((one) => one === path).length,
    subscribe(customer, options = {}) {
      const now = Math.floor(Date.now() / 1000)
      const period = { periodStart: now, periodEnd: now + 30 * DAY_SECONDS }
      const made = { id: newIdOf('sub'), customer, status: 'active', price: PRICES.pro, ...period, ...options }
      subscriptions.push(made)
      return made
    },
    event,
    subscriptionEvent: (type, of, options) => event(`customer.subscription.${type}`, toObject(of), options),
    sign(body, { at = new Date(), secret = WEBHOOK_SECRET, scheme = 'v1' } = {}) {
      const seconds = Math.floor(at.getTime() / 1000)
      const mac = createHmac('sha256', secret).update(`${seconds}.${body}`).digest('hex')
      return `t=${seconds},${scheme}=${mac}`
    },
    fault(next) {
      fault = next
    },
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}
