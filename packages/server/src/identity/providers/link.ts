import type { Deps } from '../../platform/deps.ts'
import { failures, invalid } from '../../platform/http/errors.ts'
import { limitAccount } from '../../platform/http/rate-limits/limits.ts'
import type { UserCall } from '../../platform/http/route.ts'
import { isId } from '../../platform/ids.ts'
import { takeChallenge } from '../../platform/security/challenges.ts'
import { equalSecrets, sha256 } from '../../platform/security/crypto.ts'
import { tokenInvalid, useToken } from '../foreign-tokens/service.ts'
import type { Identity } from '../identities/schema.ts'
import { attachAccount } from '../identities/service.ts'
import { requireStepUp, requireUpheld } from '../sessions/service.ts'
import { SIGN_IN_ERRORS } from '../sign-in/service.ts'
import type { ShownForLink } from './callback.ts'
import { requireProvider } from './flow.ts'
import type { LinkProvider } from './schema.ts'
import { accountOfToken, prepareToken, type SentIdToken } from './token.ts'

const fail = failures(SIGN_IN_ERRORS)

type Call = Omit<UserCall, 'origin'>

const appOf = ({ caller, user }: Call) => ({ tenantId: caller.tenantId, appId: user.appId })

/** What of the two ways was sent. @throws validation_failed for anything but exactly one of them, whole */
function wayOf(input: LinkProvider): { code: string; codeVerifier: string } | SentIdToken {
  const { code, codeVerifier, idToken, nonce } = input
  const isCode = code !== undefined && codeVerifier !== undefined && idToken === undefined && nonce === undefined
  if (isCode) return { code, codeVerifier }
  const isToken = idToken !== undefined && nonce !== undefined && code === undefined && codeVerifier === undefined
  if (isToken) return { idToken, nonce }
  throw invalid('code', 'Send either code and codeVerifier, or idToken and nonce.', 'one_of')
}

/** The step before the transaction: the keys for an ID token. @throws validation_failed, not_found, token_invalid, issuer_unavailable */
export async function prepareProviderLink(deps: Deps, call: Call, id: string, input: LinkProvider): Promise<void> {
  const way = wayOf(input)
  if ('idToken' in way) await prepareToken(deps, appOf(call), id, way)
}

const isHashOf = (hash: string, text: string) =>
  equalSecrets(Buffer.from(sha256(text).toString('base64url')), Buffer.from(hash))

/** The account that a code stands for. The code is used up, also by a wrong verifier. @throws code_invalid, code_expired */
async function accountOfCode(
  deps: Deps,
  { caller, user }: Call,
  id: string,
  { code, codeVerifier }: { code: string; codeVerifier: string },
): Promise<ShownForLink> {
  const [kept = '', secret = ''] = code.split('.')
  if (!isId('chl', kept)) throw fail('code_invalid')
  const of = { tenantId: caller.tenantId, appId: user.appId, kind: 'provider_link', id: kept } as const
  const found = await takeChallenge<ShownForLink>(deps.db, deps.now(), of)
  if (found === undefined || !isHashOf(found.data.codeHash, secret)) throw fail('code_invalid')
  const { data } = found
  if (data.providerId !== id || found.userId !== user.id || data.sessionId !== user.sessionId)
    throw fail('code_invalid')
  if (!isHashOf(data.codeChallenge, codeVerifier)) throw fail('code_invalid')
  if (found.used) throw fail('code_invalid')
  if (found.over) throw fail('code_expired')
  return data
}

/**
 * Makes an account at a provider an identity of the current user: by the code of a flow that this very session started, or by
 * an ID token.
 * @throws validation_failed, not_found, code_invalid, code_expired, token_invalid, issuer_unavailable, already_exists (it is
 * somebody's identity), identity_limit, session_revoked, guest_expired, and the errors of `requireStepUp`
 */
export async function linkProvider(deps: Deps, call: UserCall, id: string, input: LinkProvider): Promise<Identity> {
  const { caller, user } = call
  await limitAccount(deps, `link ${user.id}`)
  const way = wayOf(input)
  if ('idToken' in way) {
    await requireStepUp(deps, caller, user)
    const { shown, use } = await accountOfToken(deps, appOf(call), id, way)
    return attachAccount(deps, call, { ...shown, field: 'idToken' }, async (tx) => {
      // The account may have got a passkey since the first check.
      await requireStepUp({ ...deps, db: tx }, caller, user)
      if (!(await useToken(tx, use))) throw tokenInvalid('used')
    })
  }
  // It may have been turned off or removed since.
  await requireProvider(deps, appOf(call), id)
  const shown = await accountOfCode(deps, call, id, way)
  return attachAccount(deps, call, { ...shown, field: 'code' }, async (tx) => {
    // The start required the step-up, and the person was away at the provider since.
    const inTx = { ...deps, db: tx }
    if (shown.sessionId === null) await requireStepUp(inTx, caller, user)
    else await requireUpheld(inTx, caller, { userId: user.id, appId: user.appId, sessionId: shown.sessionId })
  })
}
