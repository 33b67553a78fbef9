import type { Db } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import type { Call } from '../../platform/http/route.ts'
import type { Id } from '../../platform/ids.ts'
import { deleteChallengesOfUser } from '../../platform/security/challenges.ts'
import type { SignInSettings } from '../../tenancy/apps/service.ts'
import { type Account, addIdentity, findUserOf, removeAccount, tell } from '../identities/service.ts'
import { addUser, confirmEmail, releaseEmail } from '../users/service.ts'
import { mailboxOf } from './address.ts'
import { fail } from './errors.ts'
import * as store from './store.ts'

/** The address as an identity of its user: the proof that they have shown it here. */
const accountOf = ({ tenant_id, app_id, email_key }: store.ChallengeRow): Account => ({
  tenantId: tenant_id,
  appId: app_id,
  provider: 'email',
  issuer: '',
  subject: email_key,
})

const addressOf = ({ tenant_id, app_id, email_key }: store.ChallengeRow): store.Address => ({
  tenantId: tenant_id,
  appId: app_id,
  key: email_key,
  userId: null,
})

/** Makes the shown address a way in of a user, whose email it is from then on. An identity of who had it before ends. */
export async function giveAddress(
  tx: Db,
  deps: Deps,
  call: Call,
  challenge: store.ChallengeRow,
  userId: Id<'usr'>,
): Promise<void> {
  const account = accountOf(challenge)
  await removeAccount(tx, account)
  await confirmEmail(tx, deps, call, userId, challenge.email)
  await tell(tx, deps, call, await addIdentity(tx, deps, account, userId, null), 'identity.linked')
}

async function create(tx: Db, deps: Deps, call: Call, app: SignInSettings, challenge: store.ChallengeRow) {
  if (!app.email.signUp) throw fail('sign_up_disabled')
  const account = accountOf(challenge)
  await removeAccount(tx, account)
  const appId = challenge.app_id
  const user = await addUser({ ...deps, db: tx }, call, { appId, email: challenge.email, emailVerified: true })
  const userId = user.id as Id<'usr'>
  await tell(tx, deps, call, await addIdentity(tx, deps, account, userId, null), 'identity.linked')
  return { userId, isNewUser: true }
}

/**
 * The user who has confirmed an address here, which the challenge's answer has just shown again; locked. That a record has the
 * same verified address is no proof.
 */
export async function confirmedOwner(tx: Db, challenge: store.ChallengeRow): Promise<Id<'usr'> | undefined> {
  const holder = await store.lockHolder(tx, addressOf(challenge))
  return holder !== undefined && (await isConfirmed(tx, challenge, holder)) ? holder.id : undefined
}

async function isConfirmed(tx: Db, challenge: store.ChallengeRow, holder: store.Holder): Promise<boolean> {
  if (!holder.email_verified || mailboxOf(holder.email) !== mailboxOf(challenge.email)) return false
  return (await findUserOf(tx, accountOf(challenge), null)) === holder.id
}

/**
 * Who signs in with an address that they have just shown to be theirs.
 * - The user who has shown it before: by the identity. That the user's record has the same verified address is no proof.
 * - A user in whose account nobody has ever been, such as one that a server created: the account is theirs, and whatever
 *   somebody else began for it ends.
 * - Any other user who has the address: somebody was in that account, perhaps to wait for the owner of the address. It is
 *   never taken over. With `newAccount`, an account that named the address without confirming it loses it.
 * - Nobody: a new user, if the app lets users sign up.
 * @throws email_not_linked, sign_up_disabled, quota_exceeded
 */
export async function settleOwner(
  tx: Db,
  deps: Deps,
  call: Call,
  app: SignInSettings,
  challenge: store.ChallengeRow,
  newAccount: boolean,
): Promise<{ userId: Id<'usr'>; isNewUser: boolean }> {
  const holder = await store.lockHolder(tx, addressOf(challenge))
  if (holder === undefined) return create(tx, deps, call, app, challenge)
  const isSameMailbox = mailboxOf(holder.email) === mailboxOf(challenge.email)
  if (await isConfirmed(tx, challenge, holder)) return { userId: holder.id, isNewUser: false }
  if (isSameMailbox && (await store.isUntouched(tx, challenge.tenant_id, holder.id))) {
    await deleteChallengesOfUser(tx, challenge.tenant_id, holder.id)
    await giveAddress(tx, deps, call, challenge, holder.id)
    return { userId: holder.id, isNewUser: false }
  }
  const canStartNew = isSameMailbox && !holder.email_verified && app.email.signUp
  if (!newAccount || !canStartNew)
    throw fail('email_not_linked', [
      { code: 'email_not_linked', message: 'Sign in to the account as before, then link the address.', canStartNew },
    ])
  await releaseEmail(tx, deps, call, holder.id)
  return create(tx, deps, call, app, challenge)
}
