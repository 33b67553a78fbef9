import type { Deps } from '../../../platform/deps.ts'
import { TIMEOUT } from '../../../platform/egress/failure.ts'
import type { OAuthClient } from './options.ts'

const TIMEOUT_MS = 10_000
/** A token is not used in its last seconds: it could expire on the way. */
const MARGIN_SECONDS = 30
const LIFETIME_SECONDS_MAX = 86_400
/** Where the answer does not say how long the token is valid (RFC 6749, section 5.1 only recommends it). */
const LIFETIME_SECONDS_UNKNOWN = 300
const NUMBER = /^-?\d+(\.\d+)?$/
const TOKEN = /^[\x21-\x7e]{1,16384}$/

const errorOf = (cause: string | null) => `oauth token: ${cause}`

/** The error of an attempt whose token did not come in time. */
export const TOKEN_TIMEOUT = errorOf(TIMEOUT)

/** A token, or why there is none: public text for the record of the attempt. */
export type Fetched = { token: string; lifetimeSeconds: number } | { error: string }

/** `application/x-www-form-urlencoded`, as RFC 6749, section 2.3.1 wants it before base64. */
const formEncode = (text: string) => new URLSearchParams([['', text]]).toString().slice(1)

const basic = ({ clientId, clientSecret }: OAuthClient) =>
  `Basic ${Buffer.from(`${formEncode(clientId)}:${formEncode(clientSecret)}`).toString('base64')}`

/** RFC 6749, section 4.4.2. `audience` is not of the RFC, but several providers ask for it. */
function formOf({ scope, audience }: OAuthClient): string {
  const form = new URLSearchParams({ grant_type: 'client_credentials' })
  if (scope !== null) form.set('scope', scope)
  if (audience !== null) form.set('audience', audience)
  return form.toString()
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return null
  }
}

/** Seconds; null for what is no number. Some providers send the number as text. */
function readLifetime(expiresIn: unknown): number | null {
  const isNumber = typeof expiresIn === 'number' || (typeof expiresIn === 'string' && NUMBER.test(expiresIn))
  return isNumber ? Math.min(Math.max(0, Number(expiresIn)), LIFETIME_SECONDS_MAX) : null
}

/** RFC 6749, section 5.1. Nothing of the answer is repeated in an error. */
function readAnswer(answer: Buffer | undefined): Fetched {
  const parsed = parseJson(answer?.toString() ?? '')
  const { access_token, token_type, expires_in } = (parsed ?? {}) as Record<string, unknown>
  if (typeof access_token !== 'string' || !TOKEN.test(access_token))
    return { error: errorOf('the response has no access token') }
  const isBearer = typeof token_type === 'string' && token_type.toLowerCase() === 'bearer'
  if (token_type !== undefined && !isBearer) return { error: errorOf('only bearer tokens are supported') }
  const lifetimeSeconds = readLifetime(expires_in ?? LIFETIME_SECONDS_UNKNOWN)
  if (lifetimeSeconds === null) return { error: errorOf('`expires_in` of the response is not a number') }
  return { token: access_token, lifetimeSeconds }
}

async function fetchToken({ egress, config }: Pick<Deps, 'egress' | 'config'>, client: OAuthClient): Promise<Fetched> {
  const result = await egress.post({
    url: client.tokenUrl,
    headers: {
      accept: 'application/json',
      'content-type': 'application/x-www-form-urlencoded',
      authorization: basic(client),
    },
    body: formOf(client),
    timeoutMs: Math.min(TIMEOUT_MS, config.webhookTimeoutMs),
    keepsAnswer: true,
  })
  return result.ok ? readAnswer(result.answer) : { error: errorOf(result.error) }
}

interface Known {
  /** At most one call at a time for one client. */
  fetching: Promise<Fetched> | null
  token: string | null
  /** On the monotonic clock, milliseconds. */
  expiresAt: number
}

/**
 * Access tokens of webhooks' OAuth clients, kept until shortly before they expire. They are kept with the opened options:
 * changed options have new ones.
 */
export function createTokens(deps: Pick<Deps, 'egress' | 'config'>) {
  const known = new WeakMap<OAuthClient, Known>()

  async function fetchOnce(client: OAuthClient, entry: Known): Promise<Fetched> {
    try {
      const fetched = await fetchToken(deps, client)
      if ('error' in fetched) return fetched
      const seconds = fetched.lifetimeSeconds - Math.min(MARGIN_SECONDS, fetched.lifetimeSeconds / 2)
      entry.token = fetched.token
      entry.expiresAt = performance.now() + seconds * 1_000
      return fetched
    } finally {
      entry.fetching = null
    }
  }

  return {
    /** The token to send now. */
    async of(client: OAuthClient): Promise<{ token: string } | { error: string }> {
      const entry = known.get(client) ?? { fetching: null, token: null, expiresAt: 0 }
      known.set(client, entry)
      if (entry.token !== null && entry.expiresAt > performance.now()) return { token: entry.token }
      entry.fetching ??= fetchOnce(client, entry)
      return entry.fetching
    },
    /** Forgets a token that the receiver refused: the next attempt gets a new one. */
    drop(client: OAuthClient, token: string): void {
      const entry = known.get(client)
      // A newer one, which another attempt has fetched meanwhile, stays.
      if (entry?.token === token) entry.token = null
    },
  }
}
