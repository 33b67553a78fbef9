import { hostUrlProblem } from '../../platform/security/web-origin.ts'

/** RFC 8252, section 7.1: the scheme of a native app is a domain of its vendor in reverse order. */
const PRIVATE_USE = /^[a-z][a-z0-9+-]*(?:\.[a-z0-9+-]+)+:$/

/** Why a text is not a valid redirect URL, or null. It must be spelled as browsers do, because it is compared as text. */
export function redirectUrlProblem(text: string, development: boolean): string | null {
  const url = URL.parse(text)
  if (url === null) return 'Must be an absolute URL, such as https://shop.example.com/signed-in.'
  if (text.includes('#')) return 'Must not have a fragment.'
  if (PRIVATE_USE.test(url.protocol)) {
    if (url.username !== '' || url.password !== '') return 'Must not contain a user name or password.'
    if (!/^[^:]+:\//.test(text)) return 'Must have a path after the scheme, such as com.example.shop:/signed-in.'
  } else {
    const problem = hostUrlProblem(url, development)
    if (problem !== null) return problem
  }
  return url.href === text || url.href === `${text}/` ? null : `Must be written as browsers write it: ${url.href}`
}
