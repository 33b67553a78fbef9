import type { Deps } from '../../platform/deps.ts'
import { failures } from '../../platform/http/errors.ts'
import { type SignIn, startSession } from '../sessions/service.ts'
import type { SignedIn } from './schema.ts'
import * as store from './store.ts'

const fail = failures({})

/** Signs a user in and answers the record with the tokens. @throws user_suspended */
export async function signIn(deps: Deps, input: SignIn, isNewUser: boolean): Promise<SignedIn> {
  const tokens = await startSession(deps, { ...input, isNewUser })
  const row = await store.findAnyUser(deps.db, input.tenantId, input.userId)
  if (row === undefined) throw fail('user_suspended')
  return { user: store.toUser(row), isNewUser, ...tokens }
}
