import type { Deps } from '../../../platform/deps.ts'
import { EVENT_API_VERSION } from '../../../platform/events/events.ts'
import { type Id, newId } from '../../../platform/ids.ts'
import type { Authenticator } from '../../../platform/security/authenticator.ts'
import { open } from '../../../platform/security/crypto.ts'
import { signatureHeaders, signingKey } from '../../../platform/security/webhook-signature.ts'
import type { SignInHook } from '../../../tenancy/apps/service.ts'
import { readDecision } from './decision.ts'
import { fail } from './errors.ts'

/** For everything, from the resolution of the name to the end of the answer. */
const TIMEOUT_MS = 2_000
const ANSWER_BYTES_MAX = 4 * 1024
const USER_AGENT = 'Halfkey-Webhooks/1'
/** Questions of one app about one way in that this process asks at once: strangers who begin as guests do not keep users out. */
const AT_ONCE_MAX = 50

/** What an app's server is told of a sign-in: `data` of `session.before_create`. */
export interface AskedSignIn {
  appId: Id<'app'>
  method: string
  /** As in the session. */
  methods: readonly string[]
  isNewUser: boolean
  user: {
    /** Null if the sign-in creates the user. */
    id: Id<'usr'> | null
    email: string | null
    emailVerified: boolean
    name: string | null
    externalId: string | null
    metadata: Readonly<Record<string, string>>
  }
  address: string
  userAgent: string | null
}

const underway = new WeakMap<Authenticator, Map<string, number>>()

/**
 * Runs `work` if the app has not too many questions underway. What is too much is refused whatever the setting says: a flood must not turn
 * a failing question into a permission. @throws rate_limited
 */
async function withinLimit<T>(
  { auth }: Pick<Deps, 'auth'>,
  { appId, method }: AskedSignIn,
  work: () => Promise<T>,
): Promise<T> {
  const counts = underway.get(auth) ?? new Map<string, number>()
  underway.set(auth, counts)
  const key = `${appId} ${method}`
  const count = counts.get(key) ?? 0
  if (count >= AT_ONCE_MAX) throw fail('rate_limited', [], { 'retry-after': '1' })
  counts.set(key, count + 1)
  try {
    return await work()
  } finally {
    const left = (counts.get(key) ?? 1) - 1
    if (left === 0) counts.delete(key)
    else counts.set(key, left)
  }
}

/** The question as it is sent. It is no event: neither the pull feed nor the audit log nor a webhook has it. */
async function send(deps: Deps, tenantId: Id<'ten'>, hook: SignInHook, data: AskedSignIn) {
  const secret = (await open(deps.keys, hook.secretSealed, ['sign-in hook secret', tenantId, data.appId])).toString()
  const now = deps.now()
  const id = newId('evt')
  const type = 'session.before_create'
  const body = JSON.stringify({ id, type, created_at: now.toISOString(), api_version: EVENT_API_VERSION, data })
  const signed = signatureHeaders(id, body, signingKey(secret), null, Math.floor(now.getTime() / 1000))
  return deps.egress.post({
    url: hook.url,
    headers: { ...signed, accept: 'application/json', 'user-agent': USER_AGENT },
    body,
    timeoutMs: Math.min(TIMEOUT_MS, deps.config.webhookTimeoutMs),
    keepsAnswer: true,
    answerBytesMax: ANSWER_BYTES_MAX,
  })
}

/**
 * Asks the app's server whether a session may begin. Returns if it may. Call it outside of any transaction.
 * @throws sign_in_refused (its detail has the server's `reason`), sign_in_hook_failed, rate_limited
 */
export async function askHook(deps: Deps, tenantId: Id<'ten'>, hook: SignInHook, data: AskedSignIn): Promise<void> {
  const { ok, error, answer } = await withinLimit(deps, data, () => send(deps, tenantId, hook, data))
  // What is longer was cut, and may still be JSON.
  const isWhole = answer !== undefined && answer.length <= ANSWER_BYTES_MAX
  const decision = ok && isWhole ? readDecision(answer) : null
  const outcome = decision === null ? 'failed' : decision.allowed ? 'allowed' : 'refused'
  deps.metrics.signInHookCalls.labels(outcome).inc()
  if (decision === null) {
    const problem = ok ? 'the answer is not a decision' : error
    deps.log.warn(
      { appId: data.appId, method: data.method, problem, onFailure: hook.onFailure },
      'a sign-in hook failed',
    )
    if (hook.onFailure === 'allow') return
    throw fail('sign_in_hook_failed')
  }
  if (decision.allowed) return
  const { reason } = decision
  throw fail('sign_in_refused', [
    { code: 'sign_in_refused', message: "The app's server refused this sign-in.", reason },
  ])
}
