import { FACTOR_METHODS, type HowSignedIn } from '../sessions/service.ts'

/** What a passkey adds to `amr` (RFC 8176). */
const PASSKEY_METHODS: ReadonlySet<string> = new Set(['hwk', 'user'])
/** Ways in that somebody else controls. */
const WEAK_METHODS: ReadonlySet<string> = new Set(['email', 'exchange', 'provider', 'wallet'])

/**
 * The methods of a session that an ID token may name. The session's `amr` has no MAC, so a method counts only where a column
 * that has one says that such a method was shown. `guest` is none: nobody signed in.
 */
export function shownMethods({ amr, weak, passkey_at, mfa_at }: HowSignedIn): string[] {
  const isShown = (method: string) =>
    (passkey_at !== null && PASSKEY_METHODS.has(method)) ||
    (mfa_at !== null && FACTOR_METHODS.has(method)) ||
    (weak ? WEAK_METHODS.has(method) : method === 'messenger')
  return amr.filter(isShown)
}
