import { randomBytes } from 'node:crypto'
import type { Deps } from '../../platform/deps.ts'
import { failures, invalid } from '../../platform/http/errors.ts'
import type { Call, UserCall } from '../../platform/http/route.ts'
import { equalSecrets, sha256 } from '../../platform/security/crypto.ts'
import { signInSettings } from '../../tenancy/apps/service.ts'
import { renewSession, requireRecentSignIn, revokeSessions, stillCounts } from '../sessions/service.ts'
import type { SignedIn } from '../users/schema.ts'
import { findUserRecord } from '../users/service.ts'
import type { CreateCode, Exchange, SignInCode } from './schema.ts'
import * as store from './store.ts'

export { pageCaller, refusal } from './serve-page.ts'
export { deleteOldCodes } from './store.ts'

export const SIGN_IN_ERRORS = {
  code_invalid: [400, 'This code is unknown, was already used, or was created for another redirect or code challenge.'],
  code_expired: [410, 'This code has expired: it is valid for 60 seconds. Start the sign-in again.'],
} as const

const fail = failures(SIGN_IN_ERRORS)

const CODE_MS = 60_000
/** Random, and the id of the key that signed when it was made. Earlier releases made codes without the id. */
const CODE = /^hk_sc_[\w-]{43}([\w-]{16})$/

/**
 * Creates the one-time code with which the hosted page hands its session over to the app. It is bound to the app, the
 * redirect and the PKCE challenge (RFC 7636, S256 only), and valid for 60 seconds. A user with a second factor must verify it.
 * @throws validation_failed, mfa_required, mfa_enrollment_required, reauthentication_required
 */
export async function createCode(
  deps: Deps,
  { caller, user }: Omit<UserCall, 'origin'>,
  input: CreateCode,
): Promise<SignInCode> {
  const app = await signInSettings(deps, caller.tenantId, user.appId)
  if (!app.allowedRedirectUrls.includes(input.redirectUri))
    throw invalid('redirectUri', "Must be exactly one of the app's allowedRedirectUrls.")
  if (user.sessionId === null)
    throw fail('session_missing').about('authorization', 'This call needs an access token: `x-user-id` is not enough.')
  await requireRecentSignIn(deps, caller, user)
  return handOver(deps, {
    tenant_id: caller.tenantId,
    app_id: user.appId,
    session_id: user.sessionId,
    redirect_uri: input.redirectUri,
    code_challenge: input.codeChallenge,
  })
}

/**
 * Creates the code that hands a session that has just begun over to who asked for it: as `createCode`, for a sign-in that ends
 * at another place than the hosted page. The redirect is checked.
 */
export async function handOver(deps: Deps, session: Omit<store.CodeRow, 'hash' | 'expires_at' | 'used_at' | 'mac'>) {
  const { id: keyId } = await deps.signingKeys.current()
  const code = `hk_sc_${randomBytes(32).toString('base64url')}${keyId}`
  const expiresAt = new Date(deps.now().getTime() + CODE_MS)
  await store.insertCode(deps.db, { ...session, hash: sha256(code), expires_at: expiresAt })
  return { code, expiresAt: expiresAt.toISOString() }
}

const isAnswered = (row: store.CodeRow, input: Exchange) =>
  row.redirect_uri === input.redirectUri &&
  equalSecrets(Buffer.from(sha256(input.codeVerifier).toString('base64url')), Buffer.from(row.code_challenge))

/**
 * Exchanges a code for its session with new tokens. The page's tokens stop working. If a code is used twice, the session
 * ends: one of the two uses was not the app's. A code ends with the signing key of its time: somebody who had stolen that one could
 * have made it. @throws code_invalid, code_expired
 */
export async function exchange(deps: Deps, call: Call, input: Exchange): Promise<SignedIn> {
  const { tenantId } = call.caller
  return deps.db.tx(async (tx) => {
    const inTx = { ...deps, db: tx }
    const row = await store.lockCode(tx, call.caller, sha256(input.code))
    if (row === undefined) throw fail('code_invalid')
    if (row.used_at !== null) {
      const userId = await store.findSessionUser(tx, tenantId, row.session_id)
      if (userId !== undefined) await revokeSessions(inTx, call, userId, row.session_id)
      throw fail('code_invalid').commitOnThrow()
    }
    if (row.expires_at <= deps.now()) throw fail('code_expired')
    await store.useCode(tx, tenantId, row.hash, deps.now())
    // A wrong verifier uses up the code too, so that somebody with only the code has one try.
    if (!isAnswered(row, input)) throw fail('code_invalid').commitOnThrow()
    const renewed = await renewSession(inTx, tenantId, row.session_id)
    if (renewed === undefined) throw fail('session_revoked')
    const { tokens, userId, isNewUser } = renewed
    const user = await findUserRecord(inTx, tenantId, userId)
    if (user === undefined) throw fail('session_revoked')
    const keyId = CODE.exec(input.code)?.[1]
    if (keyId !== undefined && !(await stillCounts(deps, keyId))) throw fail('code_invalid')
    return { user, isNewUser, ...tokens }
  })
}
