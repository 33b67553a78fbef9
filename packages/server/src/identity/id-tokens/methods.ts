import { FACTOR_METHODS, type HowSignedIn, PASSKEY_METHODS } from '../sessions/service.ts'

/** Ways in that somebody else controls. */
const WEAK_METHODS: ReadonlySet<string> = new Set(['email', 'exchange', 'provider', 'wallet'])

/**
 * The methods of a session that an ID token may name. The session's `amr` has no MAC, so a method counts only where a column
 * that has one says that such a method was shown. `guest` is none: nobody signed in. Without a way in there are no methods at
 * all: a second factor alone is one factor, which whoever holds the session may have set up, and `mfa` (RFC 8176) says two.
 */
export function shownMethods({ amr, weak, passkey_at, mfa_at }: HowSignedIn): string[] {
  const isWayIn = (method: string) =>
    (passkey_at !== null && PASSKEY_METHODS.has(method)) || (weak ? WEAK_METHODS.has(method) : method === 'messenger')
  if (!amr.some(isWayIn)) return []
  return amr.filter((method) => isWayIn(method) || (mfa_at !== null && FACTOR_METHODS.has(method)))
}
