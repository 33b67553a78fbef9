import { randomBytes } from 'node:crypto'
import type { Deps } from '../../platform/deps.ts'
import { invalid, notFoundField } from '../../platform/http/errors.ts'
import { limitAccount, networkOf } from '../../platform/http/rate-limits/limits.ts'
import type { MaybeUserCall } from '../../platform/http/route.ts'
import type { Id } from '../../platform/ids.ts'
import { CHALLENGE_MS, createChallenge } from '../../platform/security/challenges.ts'
import { listDomainOrigins } from '../../platform/security/domain-origins.ts'
import { isAllowedOrigin } from '../../platform/security/web-origin.ts'
import type { WalletType } from '../../tenancy/apps/external-wallets-schema.ts'
import { resolveApp, type SignInSettings, signInSettings } from '../../tenancy/apps/service.ts'
import { requireStepUp } from '../sessions/service.ts'
import { isSoundKey, readAddress } from './address.ts'
import { fail } from './errors.ts'
import { messageOf } from './message.ts'
import type { ExternalWalletChallenge, StartWallet } from './schema.ts'

/** 128 bits, as letters, digits and nothing else: EIP-4361 allows no other characters. */
const newNonce = () => randomBytes(16).toString('hex')

/** What a signature is held against. */
export interface AskedSignature {
  type: WalletType
  /** The address with its checksum, or the public key. */
  subject: string
  /** Signed to the byte: nothing of it comes back from the client. */
  message: string
  /** Of the page where the user signs. */
  origin: string
  /** Of a link: the session that asked; null for a server that acts for the user, and for a sign-in. */
  sessionId: Id<'ses'> | null
}

/** The app of a call. For a link it is the user's. @throws not_found (names `appId`), session_missing */
async function appOf(deps: Deps, { caller, user }: MaybeUserCall, input: StartWallet): Promise<Id<'app'>> {
  if (input.purpose !== 'link') return resolveApp(deps, caller, input.appId)
  if (user === null) throw fail('session_missing')
  if (input.appId !== undefined && input.appId !== user.appId) throw notFoundField('appId')
  return user.appId
}

/** Whether users of an app can sign in on pages of an origin at present. */
export async function isOriginOf(
  deps: Deps,
  tenantId: Id<'ten'>,
  app: Pick<SignInSettings, 'id' | 'allowedOrigins'>,
  origin: string,
): Promise<boolean> {
  const domainOrigins = await listDomainOrigins(deps.db, tenantId, app.id as Id<'app'>)
  return isAllowedOrigin(deps.config, { allowedOrigins: app.allowedOrigins, domainOrigins }, origin)
}

/** A browser says where it is, and cannot be made to say something else. @throws validation_failed (names `origin`) */
async function originOf(
  deps: Deps,
  { caller, origin: { webOrigin } }: MaybeUserCall,
  app: SignInSettings,
  named: string | undefined,
): Promise<string> {
  const browser = caller.keyType === 'publishable' ? webOrigin : null
  if (browser !== null && named !== undefined && named !== browser)
    throw invalid('origin', 'Must be the origin of the page that calls.', 'not_allowed')
  const origin = browser ?? named
  if (origin === undefined) throw invalid('origin', 'Required if no browser calls.', 'required')
  if (!(await isOriginOf(deps, caller.tenantId, app, origin)))
    throw invalid('origin', "Must be one of the app's allowedOrigins or verified domains.", 'not_allowed')
  return origin
}

/** Whose signature is asked for: the one spelling of an address or key. @throws validation_failed */
function subjectOf({ type, address, publicKey }: StartWallet): string {
  const [given, other] = type === 'eip4361' ? ['address', 'publicKey'] : ['publicKey', 'address']
  const text = type === 'eip4361' ? address : publicKey
  if (text === undefined) throw invalid(given as string, `Required for ${type}.`, 'required')
  if ((type === 'eip4361' ? publicKey : address) !== undefined)
    throw invalid(other as string, `Must not be sent for ${type}.`, 'not_allowed')
  if (type === 'eip4361') {
    const read = readAddress(text)
    if (read === undefined) throw invalid('address', 'The checksum (EIP-55) is wrong: the address is mistyped.')
    return read
  }
  if (!isSoundKey(text)) throw invalid('publicKey', 'Must be a canonical Ed25519 key of prime order (RFC 8032).')
  return text
}

/** @throws validation_failed (names `chainId`) */
function chainOf({ type, chainId }: StartWallet, { externalWallets }: SignInSettings): number | null {
  if (type === 'ed25519') {
    if (chainId !== undefined) throw invalid('chainId', 'Must not be sent for ed25519.', 'not_allowed')
    return null
  }
  const chain = chainId ?? (externalWallets.chainIds[0] as number)
  if (!externalWallets.chainIds.includes(chain))
    throw invalid('chainId', "Must be one of the app's externalWallets.chainIds.", 'not_allowed')
  return chain
}

/**
 * Makes the text that a wallet signs, for a sign-in or to link its key. Nobody is looked up: the answer is the same whether a user
 * has the key or not.
 * @throws validation_failed, not_found (names `appId`), external_wallets_disabled, rate_limited; for a link also session_missing
 * and the errors of `requireStepUp`
 */
export async function startWallet(
  deps: Deps,
  call: MaybeUserCall,
  input: StartWallet,
): Promise<ExternalWalletChallenge> {
  const { caller, user, origin: from } = call
  const { tenantId } = caller
  const { type, purpose = 'sign_in' } = input
  const appId = await appOf(deps, call, input)
  const app = await signInSettings(deps, tenantId, appId)
  if (!app.externalWallets.types.includes(type)) throw fail('external_wallets_disabled')
  const subject = subjectOf(input)
  const chainId = chainOf(input, app)
  const origin = await originOf(deps, call, app, input.origin)
  // A stranger can name an address: their calls must not keep its owner out.
  await limitAccount(deps, `wallet ${appId} ${subject} ${networkOf(from.address)}`)
  const linking = purpose === 'link' ? user : null
  if (linking !== null) await requireStepUp(deps, caller, linking)
  const now = deps.now()
  const nonce = newNonce()
  const message = messageOf({
    type,
    subject,
    chainId,
    origin,
    linkTo: linking?.id ?? null,
    nonce,
    issuedAt: now,
    expiresAt: new Date(now.getTime() + CHALLENGE_MS),
  })
  const data: AskedSignature = { type, subject, message, origin, sessionId: linking?.sessionId ?? null }
  const kind = linking === null ? 'wallet_sign_in' : 'wallet_link'
  const { id, expiresAt } = await createChallenge(deps.db, now, {
    tenantId,
    appId,
    kind,
    userId: linking?.id ?? null,
    data,
  })
  return { challengeId: id, type, nonce, message, expiresAt: expiresAt.toISOString() }
}
