import type { Db } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import { invalid, notFoundField } from '../../platform/http/errors.ts'
import { limitAccount, limitEmail, networkOf } from '../../platform/http/rate-limits/limits.ts'
import type { CurrentUser, MaybeUserCall } from '../../platform/http/route.ts'
import { type Id, newId } from '../../platform/ids.ts'
import { isReturnUrl, resolveApp, type SignInSettings, signInSettings } from '../../tenancy/apps/service.ts'
import type { CodePurpose, EmailLanguage } from '../emails/schema.ts'
import { CODE_MINUTES, queueEmail, requireMailer, type SealedEmail, sealEmail } from '../emails/service.ts'
import { requireStepUp } from '../sessions/service.ts'
import { type Email, findUserRecord, parseEmail } from '../users/service.ts'
import { mailboxOf, readAddress } from './address.ts'
import { codeHmac, newCode, testCodeOf } from './code.ts'
import { fail } from './errors.ts'
import { refuseExhausted } from './limits.ts'
import type { EmailChallenge, StartEmail } from './schema.ts'
import * as store from './store.ts'

/** Whether a code is for somebody who is not signed in. */
const isAnonymous = (purpose: CodePurpose) => purpose === 'sign_in' || purpose === 'recovery'

/** The app of a call. For a link it is the user's. @throws not_found (names `appId`), session_missing */
async function appOf(deps: Deps, { caller, user }: MaybeUserCall, input: StartEmail, purpose: CodePurpose) {
  if (isAnonymous(purpose)) return resolveApp(deps, caller, input.appId)
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

/**
 * The code that a change needs beside that of the new address: to the address that the user has, if they have confirmed it. A
 * mistyped one that is nobody's must not keep them from it. @throws validation_failed, and the errors of `requireStepUp`
 */
async function askCurrent(deps: Deps, { caller, user }: MaybeUserCall, asked: Asked): Promise<Asked[]> {
  if (user === null) throw fail('session_missing')
  await requireStepUp(deps, caller, user)
  // Both codes are typed where the change was asked for.
  if (asked.linkUrl !== undefined) throw invalid('linkUrl', 'A change of address has no links.', 'not_allowed')
  const record = await findUserRecord(deps, caller.tenantId, user.id)
  if (record === undefined) throw fail('session_revoked')
  if (record.email === null) throw invalid('email', 'The user has no address yet. Use the purpose link.', 'not_allowed')
  if (parseEmail(record.email).key === asked.address.key)
    throw invalid('email', 'Must be another address than the one that the user has.', 'not_allowed')
  return record.emailVerified ? [{ ...asked, purpose: 'change_current', address: readAddress(record.email) }] : []
}

/**
 * Whether an email goes to an address: to the mailbox of its user or, if nobody has it, to one who may become a user. An account
 * is recovered by an address that its user has confirmed here, and never by a fixed code.
 */
function isReached(
  { app, purpose, isFixed, address: { shown: typed } }: PreparedCode,
  holder: store.Known | undefined,
): boolean {
  if (!isAnonymous(purpose)) return true
  if (purpose === 'recovery')
    return holder?.confirmed === true && !isFixed && mailboxOf(holder.email) === mailboxOf(typed)
  return holder === undefined ? app.email.signUp : mailboxOf(holder.email) === mailboxOf(typed)
}

/** A code that is asked for. */
interface Asked {
  tenantId: Id<'ten'>
  app: SignInSettings
  purpose: CodePurpose
  address: Email
  /** Who asks, of all purposes but a sign-in. */
  user: CurrentUser | null
  language: EmailLanguage
  linkUrl: string | undefined
}

/** The same with what was sealed for it, before its transaction: the key provider may be on the network. */
interface PreparedCode extends Asked {
  id: Id<'chl'>
  hmac: Buffer
  sealed: SealedEmail
  isFixed: boolean
  expiresAt: Date
}

const addressOf = ({ tenantId, app, address, user }: Asked): store.Address => ({
  tenantId,
  appId: app.id as Id<'app'>,
  key: address.key,
  userId: user?.id ?? null,
})

/** Counts an email for whom sends it and where it goes, and makes its code. @throws validation_failed, rate_limited */
async function prepareCode(deps: Deps, { origin }: MaybeUserCall, asked: Asked): Promise<PreparedCode> {
  const { tenantId, app, address, linkUrl } = asked
  await limitEmail(deps, app.id, origin.address)
  await limitAccount(deps, `email ${app.id} ${address.key} ${networkOf(origin.address)}`)
  const fixed = testCodeOf(deps.config, app, address.key)
  const code = fixed ?? newCode()
  const id = newId('chl')
  return {
    ...asked,
    id,
    hmac: await codeHmac(deps, id, code),
    sealed: await sealEmail(deps, tenantId, { code, link: await linkOf(deps, tenantId, app, linkUrl, code) }),
    isFixed: fixed !== undefined,
    expiresAt: new Date(deps.now().getTime() + CODE_MINUTES * 60_000),
  }
}

/**
 * Stores a code and queues its email. It replaces a live one of the address and purpose. The address is locked.
 * @throws rate_limited, email_locked
 */
async function issueCode(tx: Db, deps: Deps, prepared: PreparedCode): Promise<void> {
  const { tenantId, purpose, user, id, hmac, sealed, isFixed, expiresAt } = prepared
  const { shown, key } = prepared.address
  const now = deps.now()
  const address = addressOf(prepared)
  const { appId } = address
  await refuseExhausted(tx, now, address, 'start')
  await store.endOthers(tx, address, purpose, now)
  const holder = await store.findHolder(tx, address)
  const isSent = isReached(prepared, holder)
  await queueEmail(tx, deps, sealed, {
    tenantId,
    appId,
    userId: user?.id ?? (isSent ? (holder?.id ?? null) : null),
    address: shown,
    purpose,
    language: prepared.language,
    expiresAt,
    skipped: !isSent || isFixed,
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
}

/** @throws email_sign_in_disabled, email_recovery_disabled */
export function requireRecoverable({ email, emailRecovery }: SignInSettings): void {
  if (!email.enabled) throw fail('email_sign_in_disabled')
  if (!emailRecovery.enabled) throw fail('email_recovery_disabled')
}

/**
 * Sends a code to an address. What is answered, stored and done is the same whether a user has the address or not. Of a change
 * of address, another code goes to the address that the user has.
 * @throws validation_failed, not_found (names `appId`), email_sign_in_disabled, email_recovery_disabled, email_not_configured, rate_limited,
 * email_locked; for a link and a change also the errors of `requireStepUp`
 */
export async function startEmail(deps: Deps, call: MaybeUserCall, input: StartEmail): Promise<EmailChallenge> {
  const { tenantId } = call.caller
  const purpose = input.purpose ?? 'sign_in'
  const appId = await appOf(deps, call, input, purpose)
  const app = await signInSettings(deps, tenantId, appId)
  if (!app.email.enabled) throw fail('email_sign_in_disabled')
  if (purpose === 'recovery') requireRecoverable(app)
  requireMailer(deps, app)
  const user = isAnonymous(purpose) ? null : call.user
  const language = input.language ?? app.email.language
  const address = readAddress(input.email)
  const asked: Asked = { tenantId, app, purpose, address, user, language, linkUrl: input.linkUrl }
  // A link would carry the code past the words that say what it is for.
  if (purpose === 'recovery' && input.linkUrl !== undefined)
    throw invalid('linkUrl', 'A recovery has no links.', 'not_allowed')
  if (purpose === 'link') await requireMayLink(deps, call, address.key)
  const others = purpose === 'change' ? await askCurrent(deps, call, asked) : []
  const prepared = [await prepareCode(deps, call, asked)]
  for (const other of others) prepared.push(await prepareCode(deps, call, other))
  await deps.db.tx(async (tx) => {
    await store.lockAddresses(tx, prepared.map(addressOf))
    for (const each of prepared) await issueCode(tx, deps, each)
  })
  const [{ id, expiresAt }, current] = prepared as [PreparedCode, PreparedCode?]
  return { challengeId: id, currentChallengeId: current?.id ?? null, expiresAt: expiresAt.toISOString() }
}
