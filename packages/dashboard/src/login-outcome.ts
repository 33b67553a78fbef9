/** What came of a visit to the login of the member's organisation, by the code in the URL. */
const WORDS: Record<string, string> = {
  access_denied: 'The sign-in was cancelled.',
  not_connected:
    'This account is connected with no member. Sign in with a passkey or the link of your invitation, then connect the account in “Your account”.',
  email_mismatch:
    'The account does not have your address, or your address is not verified here. Ask an owner to mail you a link.',
  account_taken: 'This account is connected with another member.',
  session_invalid: 'Your session ended meanwhile. Sign in and try again.',
  rate_limited: 'Too many attempts. Wait a minute, then try again.',
  stale: 'This sign-in was already used, has expired, or began in another browser. Try again.',
}
const OTHER = 'The login of your organisation gave no valid answer. Try again, or use a passkey.'

/** Takes the outcome out of the URL. Null if there is none. */
export function takeLoginOutcome(): { connected: boolean; words: string } | null {
  const code = /^#login=([a-z_]+)$/.exec(location.hash)?.[1]
  if (code === undefined) return null
  history.replaceState(history.state, '', location.pathname + location.search)
  return { connected: code === 'connected', words: WORDS[code] ?? OTHER }
}
