import { publicUrl } from '../../platform/config.ts'
import type { Db } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import { failures, invalid } from '../../platform/http/errors.ts'
import type { Call } from '../../platform/http/route.ts'
import type { Id } from '../../platform/ids.ts'
import { open } from '../../platform/security/crypto.ts'
import { permitting } from '../../platform/security/permits/session-permit.ts'
import { resolveApp, signInSettings } from '../../tenancy/apps/service.ts'
import { type Account, addIdentity, findUserOf, lockAccount } from '../identities/service.ts'
import type { SignedIn } from '../users/schema.ts'
import { addUser, signIn } from '../users/service.ts'
import { fingerprintOf, isSigned, type Payload, type Person, readInitData, readWidget } from './payload.ts'
import type { MessengerWidget, VerifyMessenger, WidgetConfig } from './schema.ts'
import * as store from './store.ts'

export { deleteOldPayloads } from './store.ts'

export const MESSENGER_ERRORS = {
  messenger_not_configured: [404, 'This app has no bot. Set its messenger.botToken first.'],
  messenger_signature_invalid: [401, 'This sign-in is not signed by the messenger, is too old, or was already used.'],
} as const

const fail = failures(MESSENGER_ERRORS)

const AGE_MS_MAX = 24 * 3_600_000
/** How far the messenger's clock may be ahead of ours. */
const AHEAD_MS_MAX = 60_000
/** A used payload is kept this much longer than it is accepted, because the database's clock may differ. */
const MARGIN_MS = 3_600_000

/** Parses the body by its form. @throws validation_failed */
function readPayload({ appId: _, initData, ...fields }: VerifyMessenger): Payload {
  if (initData === undefined) return readWidget(fields)
  const [other] = Object.keys(fields)
  if (other !== undefined) throw invalid(other, `"${other}" must not be sent together with initData.`, 'unknown_field')
  return readInitData(initData)
}

async function botTokenOf(deps: Deps, tenantId: Id<'ten'>, appId: Id<'app'>): Promise<string> {
  const { botTokenSealed } = await signInSettings(deps, tenantId, appId)
  if (botTokenSealed === null) throw fail('messenger_not_configured')
  return (await open(deps.keys, botTokenSealed, ['bot token', tenantId, appId])).toString()
}

/** The user who signs in. Only the account id identifies them, never the name or username. */
async function userOf(
  tx: Db,
  deps: Deps,
  call: Call,
  appId: Id<'app'>,
  { subject, username, name }: Person,
): Promise<{ userId: Id<'usr'>; isNewUser: boolean }> {
  const { tenantId } = call.caller
  const account: Account = { tenantId, appId, provider: 'telegram', issuer: '', subject }
  const known = await findUserOf(tx, account, username)
  if (known !== undefined) return { userId: known, isNewUser: false }
  await lockAccount(tx, account)
  // Another transaction that held the lock has created the user.
  const madeMeanwhile = await findUserOf(tx, account, username)
  if (madeMeanwhile !== undefined) return { userId: madeMeanwhile, isNewUser: false }
  const userId = (await addUser({ ...deps, db: tx }, call, { appId, name })).id as Id<'usr'>
  await addIdentity(tx, deps, account, userId, username)
  return { userId, isNewUser: true }
}

async function verify(deps: Deps, call: Call, input: VerifyMessenger): Promise<SignedIn> {
  const { tenantId } = call.caller
  const payload = readPayload(input)
  const appId = await resolveApp(deps, call.caller, input.appId)
  const signed = isSigned(payload, await botTokenOf(deps, tenantId, appId))
  const ageMs = deps.now().getTime() - payload.signedAtMs
  if (!signed || ageMs > AGE_MS_MAX || ageMs < -AHEAD_MS_MAX || payload.person.isBot)
    throw fail('messenger_signature_invalid')
  return deps.db.tx(async (tx) => {
    const expiresAt = new Date(payload.signedAtMs + AGE_MS_MAX + MARGIN_MS)
    const isFirst = await store.usePayload(tx, { tenantId, hash: fingerprintOf(payload), expiresAt })
    if (!isFirst) throw fail('messenger_signature_invalid')
    const { userId, isNewUser } = await userOf(tx, deps, call, appId, payload.person)
    const method = 'messenger'
    return signIn({ ...deps, db: tx }, { tenantId, appId, userId, amr: [method], method, ...call }, isNewUser)
  })
}

/**
 * Signs a user in with the login widget's fields or a Mini App's `initData`. Only a successful sign-in uses up the payload.
 * @throws validation_failed, not_found (names `appId`), messenger_not_configured,
 * messenger_signature_invalid, user_suspended, sign_in_refused, sign_in_hook_failed
 */
export function verifyMessenger(deps: Deps, call: Call, input: VerifyMessenger): Promise<SignedIn> {
  return permitting(deps, (permitted) => verify(permitted, call, input))
}

/** The URL where Telegram asks its user to sign in to a bot's site. The calling page appends `&return_to=`. */
export function loginUrl(botId: string, webOrigin: string): string {
  return `https://oauth.telegram.org/auth?bot_id=${botId}&origin=${encodeURIComponent(webOrigin)}&embed=0&request_access=write`
}

/** The data that a page needs to offer the sign-in with a messenger. @throws not_found (names `app_id`), messenger_not_configured */
export async function widgetConfig(
  deps: Deps,
  { caller, origin }: Call,
  query: WidgetConfig,
): Promise<MessengerWidget> {
  const appId = await resolveApp(deps, caller, query.app_id, 'app_id')
  const { provider, botUsername, botId, configured } = (await signInSettings(deps, caller.tenantId, appId, 'app_id'))
    .messenger
  if (!configured || botId === null) throw fail('messenger_not_configured')
  // Telegram returns only to this origin. A browser sends its own; the hosted page and servers use the service's.
  const own = new URL(publicUrl(deps.config)).origin
  const webOrigin = caller.keyType === 'publishable' ? (origin.webOrigin ?? own) : own
  return { provider, botUsername, botId, requestAccess: 'write', authUrl: loginUrl(botId, webOrigin) }
}
