import type { CustomFetch } from 'openid-client'
import type { Deps } from '../../../platform/deps.ts'
import type { SendResult } from '../../../platform/egress/egress.ts'

const TIMEOUT_MS = 5_000
/** The guard cuts what is longer. */
const BYTES_MAX = 64 * 1024

/** What a request to a provider needs of the process. */
export type Fetcher = Pick<Deps, 'egress' | 'config' | 'log'>

/** A provider could not be reached, or its answer is none. */
export class ProviderFailed extends Error {}

/** What a fetch may take. */
export const timeoutOf = ({ config }: Fetcher): number => Math.min(TIMEOUT_MS, config.webhookTimeoutMs)

/** The whole answer. @throws ProviderFailed if there is none, or it was cut */
export function wholeAnswer({ statusCode, error, answer }: SendResult): { status: number; body: Buffer } {
  if (statusCode === null || answer === undefined) throw new ProviderFailed(error ?? 'failed')
  if (answer.length > BYTES_MAX) throw new ProviderFailed(`more than ${BYTES_MAX} bytes`)
  // A redirect would lead to an address that nobody has checked.
  if (statusCode >= 300 && statusCode < 400) throw new ProviderFailed(error ?? 'redirects are not followed')
  return { status: statusCode, body: answer }
}

/**
 * The requests of the OpenID Connect library, through the guard. The guard keeps no headers of answers: the body is taken for
 * the JSON that was asked for, and is refused as any other text if it is none.
 */
export function guardedFetch(deps: Fetcher): CustomFetch {
  return async (url, { method, headers, body }) => {
    const request = { url, headers: { ...headers }, timeoutMs: timeoutOf(deps), keepsAnswer: true }
    const sent = method === 'POST' ? deps.egress.post({ ...request, body: bytesOf(body) }) : deps.egress.get(request)
    const answer = wholeAnswer(await sent)
    return new Response(new Uint8Array(answer.body), {
      status: answer.status,
      headers: { 'content-type': 'application/json' },
    })
  }
}

/** A form as it is sent. The library sends no other bodies. */
function bytesOf(body: unknown): string {
  if (body instanceof URLSearchParams || typeof body === 'string') return String(body)
  throw new Error('a request to a provider has a body of an unknown kind')
}
