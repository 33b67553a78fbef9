import ipaddr from 'ipaddr.js'
import type { Rate } from '../../config.ts'
import type { Deps } from '../../deps.ts'
import { fail } from '../errors.ts'
import type { Caller, Entrance } from '../route.ts'
import type { RateVerdict } from './rate-limit.ts'

/** `RateLimit-Policy` and `RateLimit` (draft-ietf-httpapi-ratelimit-headers): q and w are the burst and the time in which it refills. */
export type RateHeaders = Record<string, string>

/** At once where the limits are this process's own, and a promise where they are shared. */
type Counted = RateHeaders | Promise<RateHeaders>

function enforce(deps: Deps, name: string, policy: Rate, verdict: RateVerdict): RateHeaders {
  const headers = {
    'ratelimit-policy': `"${name}";q=${policy.burst};w=${Math.ceil(policy.burst / policy.perSecond)}`,
    ratelimit: `"${name}";r=${verdict.remaining};t=${verdict.resetSeconds}`,
  }
  if (verdict.allowed) return headers
  deps.metrics.rateLimited.inc({ policy: name })
  throw fail('rate_limited', [], { ...headers, 'retry-after': String(verdict.retryAfterSeconds) })
}

function take(deps: Deps, name: string, policy: Rate, entry: string): Counted {
  if (!deps.config.rateLimits) return {}
  const verdict = deps.limiter.take(`${name} ${entry}`, { name, ...policy })
  return verdict instanceof Promise
    ? verdict.then((known) => enforce(deps, name, policy, known))
    : enforce(deps, name, policy, verdict)
}

/** Who an address stands for: of IPv6 one household has a /64 (RFC 6177), of which each call may come from another. */
export function networkOf(address: string): string {
  if (!ipaddr.isValid(address)) return address
  const parsed = ipaddr.process(address)
  if (!(parsed instanceof ipaddr.IPv6)) return parsed.toString()
  return parsed.parts.slice(0, 4).join(':')
}

/** Counts a call of a key: for a secret one alone, for a publishable one together with the client's address. @throws rate_limited */
export function limitKey(deps: Deps, caller: Caller, address: string): Counted {
  return caller.keyType === 'secret'
    ? take(deps, 'secret', deps.config.rateLimitSecret, caller.keyId)
    : take(deps, 'publishable', deps.config.rateLimitPublishable, `${caller.keyId} ${networkOf(address)}`)
}

/** Counts a call of one of Halfkey's pages, before the database is queried for it. @throws rate_limited */
export function limitPage(deps: Deps, { base, limit }: Pick<Entrance, 'base' | 'limit'>, address: string): Counted {
  const policy = limit === 'secret' ? deps.config.rateLimitSecret : deps.config.rateLimitPublishable
  return take(deps, limit, policy, `${base} ${networkOf(address)}`)
}

/** Counts a call from a subscriber's portal, for the subscriber: neither more links nor more addresses give them more. @throws rate_limited */
export async function limitSubscriber(deps: Deps, subscriberId: string): Promise<void> {
  await take(deps, 'publishable', deps.config.rateLimitPublishable, subscriberId)
}

/** Counts a call at which secrets could be guessed, for the client's address. @throws rate_limited */
export function limitSignIn(deps: Deps, address: string): Counted {
  return take(deps, 'sign_in', deps.config.rateLimitSignIn, networkOf(address))
}

/** Emails to strangers' addresses that one network can have an app send, and that an app can have sent. */
const EMAILS_OF_NETWORK: Rate = { perSecond: 100 / 3_600, burst: 50 }
const EMAILS_OF_APP: Rate = { perSecond: 20, burst: 2_000 }

/** Emails to members that one mailbox can be sent. */
const EMAILS_TO_MEMBER: Rate = { perSecond: 5 / 3_600, burst: 5 }

/** Counts an email to a member for the mailbox that it goes to, whoever of any tenant asks for it. @throws rate_limited */
export async function limitMemberMailbox(deps: Deps, emailKey: string): Promise<void> {
  await take(deps, 'email', EMAILS_TO_MEMBER, `member ${emailKey}`)
}

/** Counts an email that a call sends, for the client's address in the app and for the app. @throws rate_limited */
export async function limitEmail(deps: Deps, appId: string, address: string): Promise<void> {
  await take(deps, 'email', EMAILS_OF_NETWORK, `${appId} ${networkOf(address)}`)
  await take(deps, 'email_app', EMAILS_OF_APP, appId)
}

/**
 * Counts a call at which secrets could be guessed, for the account that it is about, by whatever names it. Where a stranger can name one, the stranger's address
 * belongs into `account`: nobody else's calls are to keep its owner out. @throws rate_limited
 */
export async function limitAccount(deps: Deps, account: string): Promise<void> {
  await take(deps, 'account', deps.config.rateLimitAccount, account)
}
