import { redirectUrlProblem } from '../../tenancy/apps/service.ts'

const URL_CHARS_MAX = 2_048

/** RFC 8252, section 7.3; and `localhost`, which clients use although section 8.3 advises against it. */
const LOOPBACK = /^http:\/\/(127\.0\.0\.1|\[::1\]|localhost)(?::\d{1,5})?(?=[/?]|$)/

/** Whether a redirect leads to a program on the user's own device. */
const isLoopbackRedirect = (uri: string): boolean => LOOPBACK.test(uri)

/** Where a redirect leads, as its user reads it. Of an app's address only the scheme says which app it opens. */
export function destinationOf(uri: string): { kind: 'website' | 'app' | 'device'; name: string } {
  const { protocol, host, hostname } = new URL(uri)
  if (isLoopbackRedirect(uri)) return { kind: 'device', name: hostname }
  return protocol === 'https:' ? { kind: 'website', name: host } : { kind: 'app', name: protocol.slice(0, -1) }
}

/**
 * Why nobody may be sent to a redirect URI, or null: it is neither `https:` nor a private-use scheme in reverse-domain form (RFC
 * 8252, section 7.1) nor on loopback, or it is not spelled as browsers spell it.
 */
export function redirectProblem(uri: string): string | null {
  if (uri.length > URL_CHARS_MAX) return `Must have at most ${URL_CHARS_MAX} characters.`
  if (!isLoopbackRedirect(uri)) return redirectUrlProblem(uri, false)
  const url = URL.parse(uri)
  if (url === null || uri.includes('#')) return 'Must not have a fragment.'
  return url.href === uri || url.href === `${uri}/` ? null : `Must be written as browsers write it: ${url.href}`
}

const withoutPort = (uri: string) => uri.replace(LOOPBACK, 'http://$1')

/** Whether a client names this redirect URI: to the letter, and on loopback with any port (RFC 8252, section 7.3). */
export const namesRedirect = (named: readonly string[], uri: string): boolean =>
  named.includes(uri) ||
  (isLoopbackRedirect(uri) && named.some((one) => isLoopbackRedirect(one) && withoutPort(one) === withoutPort(uri)))

/** A redirect with the answer added to its query, the rest of it unchanged to the letter. */
export function answeredAt(uri: string, answer: Readonly<Record<string, string | null>>): string {
  const added = new URLSearchParams(Object.entries(answer).filter((one): one is [string, string] => one[1] !== null))
  const joint = uri.includes('?') ? (/[?&]$/.test(uri) ? '' : '&') : '?'
  return `${uri}${joint}${added}`
}
