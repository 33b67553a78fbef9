import type { Db } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import { notFoundField } from '../../platform/http/errors.ts'
import { limitAccount, networkOf } from '../../platform/http/rate-limits/limits.ts'
import type { Call, UserCall } from '../../platform/http/route.ts'
import { type Id, isId } from '../../platform/ids.ts'
import { type Challenge, challengeOnce, findChallenge, takeChallenge } from '../../platform/security/challenges.ts'
import { type SignInSettings, signInSettings } from '../../tenancy/apps/service.ts'
import type { Identity } from '../identities/schema.ts'
import { type Account, attachAccount, signInVouched } from '../identities/service.ts'
import { requireStepUp, requireUpheld } from '../sessions/service.ts'
import type { SignedIn } from '../users/schema.ts'
import { fail } from './errors.ts'
import { isSignedBy } from './proof.ts'
import type { LinkWallet, VerifyWallet } from './schema.ts'
import { type AskedSignature, isOriginOf } from './start.ts'

export { EXTERNAL_WALLET_ERRORS } from './errors.ts'
export { startWallet } from './start.ts'

type Kind = 'wallet_sign_in' | 'wallet_link'
type Asked = Challenge<AskedSignature>

/** @throws not_found (names `challengeId`) */
async function find(deps: Deps, { caller }: Call, kind: Kind, challengeId: string): Promise<Asked> {
  const { tenantId, appId } = caller
  const found = isId('chl', challengeId)
    ? await findChallenge<AskedSignature>(deps.db, deps.now(), { tenantId, appId, kind, id: challengeId })
    : undefined
  if (found === undefined) throw notFoundField('challengeId')
  return found
}

/** Whether the app still takes such keys, on that page, counts as it is now. @throws external_wallets_disabled, challenge_expired */
async function requireStillAllowed(deps: Deps, tenantId: Id<'ten'>, { appId, data }: Asked): Promise<SignInSettings> {
  const app = await signInSettings(deps, tenantId, appId)
  if (!app.externalWallets.types.includes(data.type)) throw fail('external_wallets_disabled')
  if (!(await isOriginOf(deps, tenantId, app, data.origin))) throw fail('challenge_expired')
  return app
}

/** Requires that the key has signed what it was asked to. A wrong signature uses the challenge up. @throws challenge_expired, wallet_signature_invalid */
async function requireSigned(deps: Deps, { caller }: Call, kind: Kind, asked: Asked, signature: string): Promise<void> {
  if (asked.over) throw fail('challenge_expired')
  if (isSignedBy(asked.data, asked.data.message, signature)) return
  const of = { tenantId: caller.tenantId, appId: asked.appId, kind, id: asked.id }
  const taken = await takeChallenge(deps.db, deps.now(), of)
  // Another answer took the challenge first.
  if (taken?.over !== false) throw fail('challenge_expired').commitOnThrow()
  throw fail('wallet_signature_invalid').about('signature', 'Could not be verified.').commitOnThrow()
}

const accountOf = (tenantId: Id<'ten'>, { appId, data }: Asked): Account => ({
  tenantId,
  appId,
  provider: data.type,
  issuer: '',
  subject: data.subject,
})

/**
 * Signs in the user whose identity a key is, and creates them if the app lets it. The statement that begins the session uses up the
 * challenge. The session is weak.
 * @throws not_found (names `challengeId`), challenge_expired, wallet_signature_invalid, external_wallets_disabled, identity_unknown,
 * user_suspended, guest_expired, quota_exceeded, rate_limited
 */
export async function verifyWallet(deps: Deps, call: Call, input: VerifyWallet): Promise<SignedIn> {
  const { tenantId } = call.caller
  const asked = await find(deps, call, 'wallet_sign_in', input.challengeId)
  const { appId, data } = asked
  await limitAccount(deps, `wallet ${appId} ${data.subject} ${networkOf(call.origin.address)}`)
  await requireSigned(deps, call, 'wallet_sign_in', asked, input.signature)
  const { externalWallets } = await requireStillAllowed(deps, tenantId, asked)
  return signInVouched(deps, call, {
    account: accountOf(tenantId, asked),
    username: null,
    email: null,
    name: null,
    mfaAt: null,
    use: {
      once: challengeOnce({ tenantId, challengeId: asked.id }, deps.now()),
      spent: () => fail('challenge_expired'),
    },
    creates: externalWallets.signUp,
    method: 'wallet',
  })
}

/** The step-up was at the start, and the person was at their wallet since. @throws the errors of `requireUpheld` and `requireStepUp` */
async function requireStillSteppedUp(tx: Db, deps: Deps, { caller, user }: UserCall): Promise<void> {
  const { id: userId, appId, sessionId } = user
  const inTx = { ...deps, db: tx }
  if (sessionId === null) await requireStepUp(inTx, caller, user)
  else await requireUpheld(inTx, caller, { userId, appId, sessionId })
}

/**
 * Makes a key an identity of the current user: by a signature that this very session asked for.
 * @throws not_found (names `challengeId`), challenge_expired, wallet_signature_invalid, external_wallets_disabled, already_exists (it
 * is somebody's identity), identity_limit, session_revoked, guest_expired, and the errors of `requireStepUp`
 */
export async function linkWallet(deps: Deps, call: UserCall, input: LinkWallet): Promise<Identity> {
  const { caller, user } = call
  const { tenantId } = caller
  await limitAccount(deps, `link ${user.id}`)
  const asked = await find(deps, call, 'wallet_link', input.challengeId)
  if (asked.userId !== user.id || asked.data.sessionId !== user.sessionId) throw notFoundField('challengeId')
  await requireSigned(deps, call, 'wallet_link', asked, input.signature)
  await requireStillAllowed(deps, tenantId, asked)
  const shown = { account: accountOf(tenantId, asked), username: null, field: 'signature' }
  return attachAccount(deps, call, shown, async (tx) => {
    const of = { tenantId, appId: asked.appId, kind: 'wallet_link', id: asked.id } as const
    const taken = await takeChallenge(tx, deps.now(), of)
    if (taken?.over !== false) throw fail('challenge_expired')
    await requireStillSteppedUp(tx, deps, call)
  })
}
