import type { Deps } from '../../platform/deps.ts'
import { invalid, notFoundField } from '../../platform/http/errors.ts'
import { limitAccount, limitEmail, networkOf } from '../../platform/http/rate-limits/limits.ts'
import type { MaybeUserCall } from '../../platform/http/route.ts'
import { type Id, newId } from '../../platform/ids.ts'
import { isReturnUrl, resolveApp, type SignInSettings, signInSettings } from '../../tenancy/apps/service.ts'
import type { EmailPurpose } from '../emails/schema.ts'
import { CODE_MINUTES, queueEmail, requireMailer, sealEmail } from '../emails/service.ts'
import { requireStepUp } from '../sessions/service.ts'
import { findUserRecord, parseEmail } from '../users/service.ts'
import { mailboxOf, readAddress } from './address.ts'
import { codeHmac, newCode, testCodeOf } from './code.ts'
import { fail } from './errors.ts'
import { refuseExhausted } from './limits.ts'
import type { EmailChallenge, StartEmail } from './schema.ts'
import * as store from './store.ts'

/** The app of a call. For a link it is the user's. @throws not_found (names `appId`), session_missing */
async function appOf(deps: Deps, { caller, user }: MaybeUserCall, input: StartEmail, purpose: EmailPurpose) {
  if (purpose === 'sign_in') return resolveApp(deps, caller, input.appId)
  if (user === null) throw fail('session_missing')
  if (input.appId !== undefined && input.appId !== user.appId) throw notFoundField('appId')
  return user.appId
}

/**
 * The page that an email links to: one of the app's, or our hosted page for this app. What the page gets is the code, which
 * is of use only with the challenge that the asking browser has. @throws validation_failed
 */
async function linkOf(deps: Deps, tenantId: Id<'ten'>, app: SignInSettings, linkUrl: string | undefined, code: string) {
  if (linkUrl === undefined) return null
  if (URL.parse(linkUrl)?.href !== linkUrl) throw invalid('linkUrl', 'Must be written as browsers write it.')
  if (!(await isReturnUrl(deps, tenantId, app, linkUrl)))
    throw invalid('linkUrl', "Must be exactly one of the app's allowedRedirectUrls.")
  return `${linkUrl}#email_code=${code}`
}

/** Only an address that is the user's, or their first one. @throws validation_failed, and the errors of `requireStepUp` */
async function requireMayLink(deps: Deps, { caller, user }: MaybeUserCall, key: string): Promise<void> {
  if (user === null) throw fail('session_missing')
  await requireStepUp(deps, caller, user)
  const record = await findUserRecord(deps, caller.tenantId, user.id)
  if (record === undefined) throw fail('session_revoked')
  if (record.email !== null && parseEmail(record.email).key !== key)
    throw invalid('email', 'Must be the address of the user, if the user has one.', 'not_allowed')
}

/** Whether an email goes to an address: to the mailbox of its user or, if nobody has it, to one who may become a user. */
function isReached(
  app: SignInSettings,
  purpose: EmailPurpose,
  typed: string,
  holder: store.Known | undefined,
): boolean {
  if (purpose === 'link') return true
  return holder === undefined ? app.email.signUp : mailboxOf(holder.email) === mailboxOf(typed)
}

/**
 * Sends a code to an address. What is answered, stored and done is the same whether a user has the address or not.
 * @throws validation_failed, not_found (names `appId`), email_sign_in_disabled, email_not_configured, rate_limited,
 * email_locked; for a link also the errors of `requireStepUp`
 */
export async function startEmail(deps: Deps, call: MaybeUserCall, input: StartEmail): Promise<EmailChallenge> {
  const { caller, origin } = call
  const { tenantId } = caller
  const purpose = input.purpose ?? 'sign_in'
  const appId = await appOf(deps, call, input, purpose)
  const app = await signInSettings(deps, tenantId, appId)
  if (!app.email.enabled) throw fail('email_sign_in_disabled')
  requireMailer(deps, app)
  const { shown, key } = readAddress(input.email)
  await limitEmail(deps, appId, origin.address)
  await limitAccount(deps, `email ${appId} ${key} ${networkOf(origin.address)}`)
  if (purpose === 'link') await requireMayLink(deps, call, key)
  const fixed = testCodeOf(deps.config, app, key)
  const code = fixed ?? newCode()
  const id = newId('chl')
  const hmac = await codeHmac(deps, id, code)
  const sealed = await sealEmail(deps, tenantId, { code, link: await linkOf(deps, tenantId, app, input.linkUrl, code) })
  const now = deps.now()
  const expiresAt = new Date(now.getTime() + CODE_MINUTES * 60_000)
  const user = purpose === 'link' ? call.user : null
  const address: store.Address = { tenantId, appId, key, userId: user?.id ?? null }
  await deps.db.tx(async (tx) => {
    await store.lockAddress(tx, address)
    await refuseExhausted(tx, now, address, 'start')
    await store.endOthers(tx, address, purpose, now)
    const holder = await store.findHolder(tx, address)
    const isSent = isReached(app, purpose, shown, holder)
    await queueEmail(tx, deps, sealed, {
      tenantId,
      appId,
      userId: user?.id ?? (isSent ? (holder?.id ?? null) : null),
      address: shown,
      purpose,
      language: input.language ?? app.email.language,
      expiresAt,
      skipped: !isSent || fixed !== undefined,
    })
    await store.insertChallenge(tx, {
      tenant_id: tenantId,
      id,
      app_id: appId,
      purpose,
      email: shown,
      email_key: key,
      user_id: user?.id ?? null,
      session_id: user?.sessionId ?? null,
      code_hmac: isSent ? hmac : null,
      email_id: sealed.id,
      wrong_answers: 0,
      expires_at: expiresAt,
      ended_at: null,
      created_at: now,
      version: 0,
      mac: null,
    })
  })
  return { challengeId: id, expiresAt: expiresAt.toISOString() }
}
