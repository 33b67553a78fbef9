import type { Deps } from '../../../platform/deps.ts'
import type { Call } from '../../../platform/http/route.ts'
import type { Id } from '../../../platform/ids.ts'
import { SessionNeedsPermit, SessionPermit } from '../../../platform/security/permits/session-permit.ts'
import { signInHookOf } from '../../../tenancy/apps/service.ts'
import { findSignIn } from '../store.ts'
import { askHook } from './ask.ts'
import { fail } from './errors.ts'

/** A session that is about to begin. */
export interface SessionToBe extends Call {
  tenantId: Id<'ten'>
  appId: Id<'app'>
  userId: Id<'usr'>
  amr: readonly string[]
  /** Null if a guest begins, or becomes a user. */
  method: string | null
  /** Whether this sign-in created the user, who is still unknown to others. */
  isNewUser?: boolean
}

/**
 * Requires that the app's server lets this session begin, if the app has one that decides (`signInHook`). Everything that begins a
 * session calls it, before the session is written. Without a hook it costs nothing but a look into a cache.
 * @throws SessionNeedsPermit, which `permitting` answers; user_suspended
 */
export async function requirePermit(deps: Deps, session: SessionToBe): Promise<void> {
  const { tenantId, appId, userId, amr, origin, isNewUser = false } = session
  const hook = await signInHookOf(deps, tenantId, appId)
  if (hook === null) return
  const method = session.method ?? (isNewUser ? 'guest' : 'guest_conversion')
  const subject = { tenantId, appId, userId: isNewUser ? null : userId, method }
  if (deps.permit?.covers(subject) === true) return
  const user = await findSignIn(deps.db, tenantId, userId)
  // A session would not begin either. Nobody else is told that they tried.
  if (user?.status !== 'active') throw fail('user_suspended')
  const data = {
    appId,
    method,
    methods: amr,
    isNewUser,
    user: {
      id: subject.userId,
      email: user.email,
      emailVerified: user.email_verified,
      name: user.name,
      externalId: user.external_id,
      metadata: user.metadata,
    },
    address: origin.address,
    userAgent: origin.userAgent,
  }
  throw new SessionNeedsPermit(async (outside) => {
    await askHook(outside, tenantId, hook, data)
    return new SessionPermit(subject)
  })
}
