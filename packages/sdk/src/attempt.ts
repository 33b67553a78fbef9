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

/** The envelope of a success. @throws HalfkeyError for every other response */
function envelopeOf(response: Response, text: string): { data: unknown } {
  const { status, headers } = response
  const requestId = headers.get('x-request-id')
  const retryAfterSeconds = parseRetryAfter(headers.get('retry-after'), Date.now())
  if (response.type === 'opaqueredirect' || (status >= 300 && status < 400))
    throw new HalfkeyError('The server answered with a redirect. Check baseUrl.', {
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
  throw new HalfkeyError(`The server answered ${status}, but not as the Halfkey API does. Check baseUrl.`, {
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
    if (timedOut) throw new HalfkeyError(`No answer within ${timeoutMs} ms.`, { status: 0, code: 'timeout' })
    throw new HalfkeyError('The server could not be reached.', { status: 0, code: 'network_error', cause })
  } finally {
    clearTimeout(timer)
    signal?.removeEventListener('abort', abort)
  }
  return envelopeOf(response, text)
}
