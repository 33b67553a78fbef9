/** What a second factor adds to the `amr` of a session (RFC 8176). */
const FACTOR_METHODS: ReadonlySet<string> = new Set(['otp', 'kba', 'mfa'])
/** What a passkey adds. */
const PASSKEY_METHODS: ReadonlySet<string> = new Set(['hwk', 'user'])

/**
 * The methods of a session that an access token may name. `amr` has no MAC, so a second factor counts only where the time at which
 * it was shown has one; so does a passkey, in a session that began without. Rows that Halfkey wrote keep theirs, except that a
 * second factor that was deleted since counts no more.
 */
export function shownMethods(row: {
  amr: readonly string[]
  weak: boolean
  mfa_at: Date | null
  passkey_at: Date | null
}): string[] {
  const { amr, weak, mfa_at, passkey_at } = row
  return amr.filter(
    (method) =>
      (mfa_at !== null || !FACTOR_METHODS.has(method)) &&
      (!weak || passkey_at !== null || !PASSKEY_METHODS.has(method)),
  )
}
