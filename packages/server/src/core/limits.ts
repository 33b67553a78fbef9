import type { Rate } from './config.ts'
import type { Deps } from './deps.ts'
import { fail } from './errors.ts'
import type { Caller } from './http.ts'

/** `RateLimit-Policy` and `RateLimit` (draft-ietf-httpapi-ratelimit-headers): q and w are the burst and the time in which it refills. */
export type RateHeaders = Record<string, string>

function take(deps: Deps, name: string, policy: Rate, entry: string): RateHeaders {
  if (!deps.config.rateLimits) return {}
  const verdict = deps.limiter.take(`${name} ${entry}`, { name, ...policy })
  const headers = {
    'ratelimit-policy': `"${name}";q=${policy.burst};w=${Math.ceil(policy.burst / policy.perSecond)}`,
    ratelimit: `"${name}";r=${verdict.remaining};t=${verdict.resetSeconds}`,
  }
  if (verdict.allowed) return headers
  deps.metrics.rateLimited.inc({ policy: name })
  throw fail('rate_limited', [], { ...headers, 'retry-after': String(verdict.retryAfterSeconds) })
}

/** Counts a call of a key: for a secret one alone, for a publishable one together with the client's address. @throws rate_limited */
export function limitKey(deps: Deps, caller: Caller, address: string): RateHeaders {
  return caller.keyType === 'secret'
    ? take(deps, 'secret', deps.config.rateLimitSecret, caller.keyId)
    : take(deps, 'publishable', deps.config.rateLimitPublishable, `${caller.keyId} ${address}`)
}

/** Counts a call at which secrets could be guessed, for the client's address. @throws rate_limited */
export function limitSignIn(deps: Deps, address: string): RateHeaders {
  return take(deps, 'sign_in', deps.config.rateLimitSignIn, address)
}

/** The same for the account that it is about, by whatever names it: an id or an email's key. @throws rate_limited */
export function limitAccount(deps: Deps, account: string): void {
  take(deps, 'account', deps.config.rateLimitAccount, account)
}
