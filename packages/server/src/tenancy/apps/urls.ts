import { webUrlProblem } from '../../platform/security/web-origin.ts'

/** Without wildcards and unusual characters that the URL parser accepts in a host. */
const HOST = /^(?:\[[0-9a-f:.]+\]|[a-z0-9_.-]+)$/
/** RFC 8252, section 7.1: the scheme of a native app is a domain of its vendor in reverse order. */
const PRIVATE_USE = /^[a-z][a-z0-9+-]*(?:\.[a-z0-9+-]+)+:$/

function urlProblem(url: URL, development: boolean): string | null {
  const problem = webUrlProblem(url, development)
  return problem === null && !HOST.test(url.hostname) ? 'Must name one host, without a wildcard.' : problem
}

/** Why a text is not a valid origin, or null. Valid: an origin as browsers send it (RFC 6454, section 6.2). */
export function originProblem(text: string, development: boolean): string | null {
  const url = URL.parse(text)
  if (url === null) return 'Must be an origin, such as https://shop.example.com.'
  const problem = urlProblem(url, development)
  if (problem !== null) return problem
  return url.origin === text ? null : `Must be an origin as browsers send it: ${url.origin}`
}

/** Why a text is not a valid redirect URL, or null. It must be spelled as browsers do, because it is compared as text. */
export function redirectUrlProblem(text: string, development: boolean): string | null {
  const url = URL.parse(text)
  if (url === null) return 'Must be an absolute URL, such as https://shop.example.com/signed-in.'
  if (text.includes('#')) return 'Must not have a fragment.'
  if (PRIVATE_USE.test(url.protocol)) {
    if (url.username !== '' || url.password !== '') return 'Must not contain a user name or password.'
    if (!/^[^:]+:\//.test(text)) return 'Must have a path after the scheme, such as com.example.shop:/signed-in.'
  } else {
    const problem = urlProblem(url, development)
    if (problem !== null) return problem
  }
  return url.href === text || url.href === `${text}/` ? null : `Must be written as browsers write it: ${url.href}`
}
