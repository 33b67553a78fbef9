import type { Db } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import { failures, HttpError } from '../../platform/http/errors.ts'
import { limitAccount } from '../../platform/http/rate-limits/limits.ts'
import type { Call, Caller } from '../../platform/http/route.ts'
import type { Id } from '../../platform/ids.ts'
import { resolveApp } from '../../tenancy/apps/service.ts'
import {
  type ForeignToken,
  prepareForeignToken,
  tokenInvalid,
  tokenUsed,
  verifyForeignToken,
} from '../foreign-tokens/service.ts'
import { startSessionWith } from '../sessions/service.ts'
import type { SignedIn } from '../users/schema.ts'
import { addUser, findUserByEmail } from '../users/service.ts'
import type { ExchangeToken } from './schema.ts'
import { addIdentity, IDENTITY_ERRORS, tell } from './service.ts'
import * as store from './store.ts'

const fail = failures(IDENTITY_ERRORS)

/** The account that a token is about. Another issuer's same subject is another account. */
export const accountOf = (tenantId: Id<'ten'>, appId: Id<'app'>, { issuer, subject }: ForeignToken): store.Account => ({
  tenantId,
  appId,
  provider: 'issuer',
  issuer: issuer.issuer,
  subject,
})

/** Fetches the issuer's keys where they are needed: no transaction waits for a network. @throws not_found, token_invalid */
export async function prepareExchange(deps: Deps, caller: Caller, input: ExchangeToken): Promise<void> {
  const appId = await resolveApp(deps, caller, input.appId)
  await prepareForeignToken(deps, { tenantId: caller.tenantId, appId }, input)
}

/**
 * Begins the session of a known user. @throws user_suspended, guest_expired, token_invalid (used already)
 */
async function begin(
  deps: Deps,
  call: Call,
  account: store.Account,
  { user, endsAt }: store.Known,
  token: ForeignToken,
  isNewUser: boolean,
): Promise<SignedIn> {
  const now = deps.now()
  if (user.status !== 'active') throw fail('user_suspended')
  if (endsAt !== null && endsAt <= now) throw fail('guest_expired')
  const session = {
    tenantId: account.tenantId,
    appId: account.appId,
    userId: user.id as Id<'usr'>,
    amr: ['exchange'],
    method: 'exchange' as const,
    vouched: { mfaAt: token.mfaAt },
    endsAt,
    isNewUser,
    ...call,
  }
  // The statement that begins the session uses up the token: of parallel calls with one token, one has a session.
  const using = token.use === null ? undefined : { first: tokenUsed(token.use) }
  const begun = await startSessionWith({ ...deps, now: () => now }, session, using)
  if (begun.tokens === null) throw begun.firstHeld ? fail('user_suspended') : tokenInvalid('used')
  return { user: { ...user, lastSeenAt: now.toISOString() }, isNewUser, ...begun.tokens }
}

/**
 * The email of a new user: one that the issuer has verified and nobody in the app has. A user who has it is somebody else,
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
async function create(tx: Db, deps: Deps, call: Call, account: store.Account, token: ForeignToken): Promise<SignedIn> {
  const inTx = { ...deps, db: tx }
  await store.lockAccount(tx, account)
  // Another transaction that held the lock has created the user.
  const known = await store.findKnown(tx, account)
  if (known !== undefined) return begin(inTx, call, account, known, token, false)
  const email = await freeEmail(inTx, account, token.email)
  const { appId } = account
  const user = await addUser(inTx, call, { appId, email, emailVerified: true, name: token.name })
  const row = await addIdentity(tx, deps, account, user.id as Id<'usr'>, null)
  await tell(tx, deps, call, row, 'identity.linked')
  return begin(inTx, call, account, { user, endsAt: null }, token, true)
}

/**
 * Signs in the user whose identity a token of a trusted issuer shows, and creates them if the issuer may. Users are found by
 * issuer and subject, and by nothing else. For a known user: one statement that reads, and one that uses up the token and
 * begins the session.
 * @throws not_found (names `appId`), token_invalid, issuer_unavailable, identity_unknown, user_suspended, guest_expired,
 * quota_exceeded, already_exists (another user took the email at this moment), rate_limited
 */
export async function exchangeToken(deps: Deps, call: Call, input: ExchangeToken): Promise<SignedIn> {
  const { tenantId } = call.caller
  const appId = await resolveApp(deps, call.caller, input.appId)
  const token = await verifyForeignToken(deps, { tenantId, appId }, input)
  const account = accountOf(tenantId, appId, token)
  // Nobody else can name the account: they would need a token of it.
  await limitAccount(deps, `exchange ${appId} ${account.issuer} ${account.subject}`)
  const known = await store.findKnown(deps.db, account)
  if (known !== undefined) return begin(deps, call, account, known, token, false)
  if (token.issuer.jit !== 'create') throw fail('identity_unknown')
  return deps.db.tx((tx) => create(tx, deps, call, account, token))
}
