import type { Db, Sql } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import { HttpError } from '../../platform/http/errors.ts'
import { limitAccount } from '../../platform/http/rate-limits/limits.ts'
import type { Call } from '../../platform/http/route.ts'
import type { Id } from '../../platform/ids.ts'
import { permitting } from '../../platform/security/permits/session-permit.ts'
import { type TokenUse, tokenInvalid, tokenUsed } from '../foreign-tokens/service.ts'
import { startSessionWith } from '../sessions/service.ts'
import type { SignedIn } from '../users/schema.ts'
import { addUser, findUserByEmail } from '../users/service.ts'
import { addIdentity, tell } from './add.ts'
import { fail } from './errors.ts'
import * as store from './store.ts'

/** What a sign-in uses up, in the statement that begins its session. */
export interface OnceOnly {
  once: { writes: Sql; holds: Sql }
  /** The refusal if it was used up before. */
  spent(): HttpError
}

/** The same for a token. */
export const tokenOnce = (use: TokenUse): OnceOnly => ({ once: tokenUsed(use), spent: () => tokenInvalid('used') })

/** An account elsewhere that has just been shown, and what is said of its owner. */
export interface Vouched {
  account: store.Account
  /** Shown only. */
  username: string | null
  /** Only one that was verified elsewhere. */
  email: string | null
  name: string | null
  /** When a second factor was verified elsewhere; null if nobody says so. */
  mfaAt: Date | null
  /** What is used up by this sign-in; null if nothing is. */
  use: OnceOnly | null
  /** Whether an account that is nobody's makes a user. */
  creates: boolean
  method: 'exchange' | 'provider' | 'wallet'
}

/** Begins the session of a known user. @throws user_suspended, guest_expired, and the refusal of `use` */
async function begin(
  deps: Deps,
  call: Call,
  { account, mfaAt, use, method }: Vouched,
  { user, endsAt }: store.Known,
  isNewUser: boolean,
): Promise<SignedIn> {
  const now = deps.now()
  if (user.status !== 'active') throw fail('user_suspended')
  if (endsAt !== null && endsAt <= now) throw fail('guest_expired')
  const session = {
    tenantId: account.tenantId,
    appId: account.appId,
    userId: user.id as Id<'usr'>,
    amr: [method],
    method,
    vouched: { mfaAt },
    endsAt,
    isNewUser,
    ...call,
  }
  // The statement that begins the session uses up the token: of parallel calls with one token, one has a session.
  const using = use === null ? undefined : { first: use.once }
  const begun = await startSessionWith({ ...deps, now: () => now }, session, using)
  if (begun.tokens === null) throw begun.firstHeld || use === null ? fail('user_suspended') : use.spent()
  return { user: { ...user, lastSeenAt: now.toISOString() }, isNewUser, ...begun.tokens }
}

/**
 * The email of a new user: one that was verified elsewhere and nobody in the app has. A user who has it is somebody else,
 * who must not be found by it: an address says nothing about who may use an account.
 */
async function freeEmail(deps: Deps, { tenantId, appId }: store.Account, email: string | null): Promise<string | null> {
  if (email === null) return null
  try {
    const { id } = await findUserByEmail(deps, tenantId, appId, email)
    return id === undefined ? email : null
  } catch (error) {
    // What is no address by our rules is none.
    if (error instanceof HttpError && error.code === 'validation_failed') return null
    throw error
  }
}

/** The user of an account that had none: with the identity and the session, in one transaction. @throws quota_exceeded, already_exists */
async function create(tx: Db, deps: Deps, call: Call, shown: Vouched): Promise<SignedIn> {
  const { account, name, username } = shown
  const inTx = { ...deps, db: tx }
  await store.lockAccount(tx, account)
  // Another transaction that held the lock has created the user.
  const known = await store.findKnown(tx, account)
  if (known !== undefined) return begin(inTx, call, shown, known, false)
  const email = await freeEmail(inTx, account, shown.email)
  const user = await addUser(inTx, call, { appId: account.appId, email, emailVerified: true, name })
  const row = await addIdentity(tx, deps, account, user.id as Id<'usr'>, username)
  await tell(tx, deps, call, row, 'identity.linked')
  return begin(inTx, call, shown, { user, endsAt: null }, true)
}

/**
 * Signs in the user whose identity an account is. Users are found by the account, and by nothing else. The session is weak.
 * @throws identity_unknown, user_suspended, guest_expired, quota_exceeded, already_exists (another user took the
 * email at this moment), rate_limited, sign_in_refused, sign_in_hook_failed, and the refusal of `use` if it was used up before
 */
export async function signInVouched(deps: Deps, call: Call, shown: Vouched): Promise<SignedIn> {
  const { account, method, creates } = shown
  // Nobody else can name the account: they would need to show it.
  await limitAccount(deps, `${method} ${account.appId} ${account.issuer} ${account.subject}`)
  return permitting(deps, async (permitted) => {
    const known = await store.findKnown(permitted.db, account)
    if (known !== undefined) return begin(permitted, call, shown, known, false)
    if (!creates) throw fail('identity_unknown')
    return permitted.db.tx((tx) => create(tx, permitted, call, shown))
  })
}
