import type { LoginVerify } from '../../identity/passkeys/schema.ts'
import type { Deps } from '../../platform/deps.ts'
import { invalid } from '../../platform/http/errors.ts'
import { addressIn } from '../../platform/http/request.ts'
import type { EntranceRequest, Origin } from '../../platform/http/route.ts'
import { apiKeyHash } from '../../platform/security/api-key.ts'
import type { KeyHolder } from '../../platform/security/authenticator.ts'
import { sha256 } from '../../platform/security/crypto.ts'
import { deleteCodes } from '../members/sign-in/store.ts'
import { fail } from './errors.ts'
import { begin, describe, enter, type Grant, NOBODY, noteAct, timesOf } from './known.ts'
import { beginAsMember, beginByCode, beginByPasskey } from './member-sessions.ts'
import type { Session, SignIn } from './schema.ts'
import * as store from './store.ts'

/**
 * Who calls from the dashboard: the holder of the cookie's session, never an API key that is sent with it.
 * @throws origin_not_allowed, session_missing, session_invalid, csrf_token_invalid, not_found, ip_not_allowed
 */
export async function enterDashboard(deps: Deps, request: EntranceRequest): Promise<KeyHolder> {
  return (await enter(deps, request)).holder
}

/** The session that a request comes with. @throws as `enterDashboard` */
export async function getSession(deps: Deps, request: EntranceRequest): Promise<Session> {
  return describe(deps, await enter(deps, request))
}

/** @throws api_key_invalid, key_type_not_allowed, ip_not_allowed */
async function grantOfKey(deps: Deps, key: string, address: string): Promise<Grant> {
  const holder = await deps.auth.authenticate(key)
  if (holder === null) throw fail('api_key_invalid')
  if (holder.keyType !== 'secret') throw fail('key_type_not_allowed')
  if (holder.allowedIps.length > 0 && !addressIn(address, holder.allowedIps)) throw fail('ip_not_allowed')
  return { ...NOBODY, tenant_id: holder.tenantId, key_id: holder.keyId, key_hash: apiKeyHash(key) }
}

type Way =
  | { link: string }
  | { key: string }
  | { passkey: LoginVerify }
  | { emailCode: NonNullable<SignIn['emailCode']> }

/** The chosen way to sign in. @throws validation_failed */
function readSignIn({ link, key, passkey, emailCode }: SignIn): Way {
  const ways = [
    ...(link === undefined ? [] : [{ link }]),
    ...(key === undefined ? [] : [{ key }]),
    ...(passkey === undefined ? [] : [{ passkey }]),
    ...(emailCode === undefined ? [] : [{ emailCode }]),
  ]
  const [way, ...more] = ways
  if (way === undefined || more.length > 0)
    throw invalid('link', 'Send either link, key, passkey or emailCode.', 'required')
  return way
}

/**
 * Begins a session by a link, which it uses up, by a secret key, or by a member's passkey or email code. `token` is for the cookie and shown only here.
 * @throws origin_not_allowed, validation_failed, dashboard_link_invalid, api_key_invalid, key_type_not_allowed,
 * ip_not_allowed, passkey_invalid, passkey_challenge_over, challenge_expired, invalid_code, email_locked, rate_limited, not_found (the tenant that was asked for)
 */
export async function signIn(
  deps: Deps,
  request: EntranceRequest,
  origin: Origin,
  input: SignIn,
): Promise<{ token: string; session: Session }> {
  const by = readSignIn(input)
  if ('passkey' in by || 'emailCode' in by) {
    const known =
      'passkey' in by
        ? await beginByPasskey(deps, request, origin, by.passkey)
        : await beginByCode(deps, request, origin, by.emailCode)
    return { token: known.token, session: await describe(deps, known) }
  }
  const ofKey = 'key' in by ? await grantOfKey(deps, by.key, request.address) : undefined
  const known = await deps.db.tx(async (tx) => {
    if ('key' in by) return begin(tx, deps, ofKey as Grant, request, origin)
    const link = await store.claimLink(tx, sha256(by.link), deps.now())
    if (link === undefined) throw fail('dashboard_link_invalid')
    if (link.member_id !== null) return beginAsMember(tx, deps, link, request, origin)
    return begin(tx, deps, { ...NOBODY, tenant_id: link.tenant_id }, request, origin)
  })
  return { token: known.token, session: await describe(deps, known) }
}

/** Ends the session that a request comes with. @throws as `enterDashboard` */
export async function signOut(deps: Deps, request: EntranceRequest, origin: Origin): Promise<void> {
  const known = await enter(deps, request)
  await deps.db.tx(async (tx) => {
    // If two calls run at once, one of them ends it.
    if (!(await store.deleteSession(tx, known.row.hash))) throw fail('session_invalid')
    await noteAct(tx, deps, known, origin, 'dashboard.signed_out')
  })
}

/** Ends every session, and every link and code that could begin one: for the command line, which has the database. */
export function signOutEveryone(deps: Deps): Promise<{ sessions: number; links: number }> {
  return deps.db.tx(async (tx) => {
    await deleteCodes(tx)
    return store.deleteAll(tx, deps.now())
  })
}

/** Deletes a batch of expired rows. @returns whether there may be more */
export function deleteOldSessions(deps: Pick<Deps, 'db' | 'now'>): Promise<boolean> {
  return store.deleteOld(deps.db, timesOf(deps))
}
