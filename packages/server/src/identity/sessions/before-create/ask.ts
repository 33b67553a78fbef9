import type { Deps } from '../../../platform/deps.ts'
import { isOwnFailure, type SendResult } from '../../../platform/egress/egress.ts'
import { EVENT_API_VERSION } from '../../../platform/events/events.ts'
import { type Id, newId } from '../../../platform/ids.ts'
import { open } from '../../../platform/security/crypto.ts'
import { signatureHeaders, signingKey } from '../../../platform/security/webhook-signature.ts'
import type { SignInHook } from '../../../tenancy/apps/service.ts'
import { readDecision } from './decision.ts'
import { fail } from './errors.ts'
import { tooMany, withinLimit } from './limit.ts'

/** For everything, from the resolution of the name to the end of the answer. */
const TIMEOUT_MS = 2_000
const ANSWER_BYTES_MAX = 4 * 1024
/** The question cannot be signed, so it is not asked. */
const UNSIGNED = 'the secret is missing'
const USER_AGENT = 'Halfkey-Webhooks/1'

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

/** The question as it is sent. It is no event: neither the pull feed nor the audit log nor a webhook has it. */
async function send(
  deps: Deps,
  tenantId: Id<'ten'>,
  { url, secretSealed }: SignInHook,
  data: AskedSignIn,
): Promise<Pick<SendResult, 'ok' | 'error' | 'answer'>> {
  if (secretSealed === null) return { ok: false, error: UNSIGNED }
  const secret = (await open(deps.keys, secretSealed, ['sign-in hook secret', tenantId, data.appId])).toString()
  const now = deps.now()
  const id = newId('evt')
  const type = 'session.before_create'
  const body = JSON.stringify({ id, type, created_at: now.toISOString(), api_version: EVENT_API_VERSION, data })
  const signed = signatureHeaders(id, body, signingKey(secret), null, Math.floor(now.getTime() / 1000))
  return deps.egress.post({
    url,
    headers: { ...signed, accept: 'application/json', 'user-agent': USER_AGENT },
    body,
    timeoutMs: Math.min(TIMEOUT_MS, deps.config.webhookTimeoutMs),
    keepsAnswer: true,
    answerBytesMax: ANSWER_BYTES_MAX,
  })
}

/**
 * Asks the app's server whether a session may begin. Returns if it may. Call it outside of any transaction. What this process could not
 * ask is refused whatever the setting says: a flood must not turn a failing question into a permission.
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
    if (!ok && isOwnFailure(error)) throw tooMany()
    if (hook.onFailure === 'allow' && error !== UNSIGNED) return
    throw fail('sign_in_hook_failed')
  }
  if (decision.allowed) return
  const { reason } = decision
  throw fail('sign_in_refused', [
    { code: 'sign_in_refused', message: "The app's server refused this sign-in.", reason },
  ])
}
