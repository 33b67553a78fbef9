import { type ErrorDetail, HalfkeyError } from './errors.ts'
import { parseRetryAfter } from './retry.ts'

/** How requests are sent. The global `fetch` has this type. */
export type Fetch = (url: string, init: RequestInit) => Promise<Response>

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** Why there was no response: the text of the innermost error, with its code. */
function reasonOf(error: unknown): string {
  const inner = isObject(error) && isObject(error.cause) ? error.cause : error
  const { message = '', code = '' } = isObject(inner) ? inner : {}
  // Node's error for a name with several addresses has a code and no message.
  if (message === '' || String(message).includes(String(code))) return String(message || code)
  return `${message} (${code})`
}

/** What to do without a response. Browsers do not say whether a response was refused because of its origin. */
function advice(): string {
  const onPage = 'document' in globalThis
  return onPage
    ? "Check baseUrl, that Halfkey is running there, and that the app's allowedOrigins has the origin of this page."
    : 'Check baseUrl, and that Halfkey is running there.'
}

/** The envelope of a success. @throws HalfkeyError for every other response */
function envelopeOf(response: Response, text: string, address: string): { data: unknown } {
  const { status, headers } = response
  const requestId = headers.get('x-request-id')
  const retryAfterSeconds = parseRetryAfter(headers.get('retry-after'), Date.now())
  if (response.type === 'opaqueredirect' || (status >= 300 && status < 400))
    throw new HalfkeyError(`${address} answered with a redirect. Check baseUrl.`, {
      status,
      code: 'unexpected_redirect',
      requestId,
    })
  const body = parsed(text)
  if (response.ok && isObject(body) && 'data' in body) return body as { data: unknown }
  if (!response.ok && isObject(body) && typeof body.error === 'string' && typeof body.code === 'string') {
    const details = Array.isArray(body.details) ? (body.details as ErrorDetail[]) : []
    throw new HalfkeyError(body.error, { status, code: body.code, details, requestId, retryAfterSeconds })
  }
  throw new HalfkeyError(`${address} answered ${status}, but not as the Halfkey API does. Check baseUrl.`, {
    status,
    code: 'invalid_response',
    requestId,
    retryAfterSeconds,
  })
}

/**
 * Sends a request once and returns its envelope.
 * @param options `timeoutMs` covers the whole response; `signal` is the caller's
 * @throws HalfkeyError, or the signal's reason
 */
export async function attempt(
  send: Fetch,
  url: string,
  init: RequestInit,
  options: { timeoutMs: number; signal: AbortSignal | undefined },
): Promise<{ data: unknown }> {
  const { signal, timeoutMs } = options
  // Queries may hold personal data, and errors end up in logs.
  const [address = ''] = url.split('?')
  signal?.throwIfAborted()
  const ending = new AbortController()
  const abort = () => ending.abort(signal?.reason)
  signal?.addEventListener('abort', abort)
  let timedOut = false
  const timer = setTimeout(() => {
    timedOut = true
    ending.abort()
  }, timeoutMs)
  let response: Response
  let text: string
  try {
    response = await send(url, { ...init, signal: ending.signal })
    text = await response.text()
  } catch (cause) {
    signal?.throwIfAborted()
    if (timedOut)
      throw new HalfkeyError(`${address} did not answer within ${timeoutMs} ms.`, { status: 0, code: 'timeout' })
    const message = `Cannot reach Halfkey at ${address}: ${reasonOf(cause)}. ${advice()}`
    throw new HalfkeyError(message, { status: 0, code: 'network_error', cause })
  } finally {
    clearTimeout(timer)
    signal?.removeEventListener('abort', abort)
  }
  return envelopeOf(response, text, address)
}
