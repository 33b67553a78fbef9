import type { Deps } from '../../../platform/deps.ts'
import type { Authenticator } from '../../../platform/security/authenticator.ts'
import { fail } from './errors.ts'

/**
 * Questions of one app about one way in that this process asks at once, for new users and for known ones: strangers who begin as
 * guests or sign up do not keep users out.
 */
const AT_ONCE_MAX = 50

const underway = new WeakMap<Authenticator, Map<string, number>>()

/** For a sign-in that cannot be asked about now. */
export const tooMany = () => fail('rate_limited', [], { 'retry-after': '1' })

/** Runs `work` if the app has not too many questions underway. @throws rate_limited, whatever the setting says */
export async function withinLimit<T>(
  { auth }: Pick<Deps, 'auth'>,
  { appId, method, isNewUser }: { appId: string; method: string; isNewUser: boolean },
  work: () => Promise<T>,
): Promise<T> {
  const counts = underway.get(auth) ?? new Map<string, number>()
  underway.set(auth, counts)
  const key = `${appId} ${method} ${isNewUser}`
  const count = counts.get(key) ?? 0
  if (count >= AT_ONCE_MAX) throw tooMany()
  counts.set(key, count + 1)
  try {
    return await work()
  } finally {
    const left = (counts.get(key) ?? 1) - 1
    if (left === 0) counts.delete(key)
    else counts.set(key, left)
  }
}
