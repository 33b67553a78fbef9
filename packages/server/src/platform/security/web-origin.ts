import { type Config, publicUrl } from '../config.ts'

const LOOPBACK_ORIGIN = /^https?:\/\/(localhost|127(?:\.\d+){3}|\[::1\])(:\d+)?$/

const LOOPBACK_HOST = /^(?:localhost|127(?:\.\d+){3}|\[::1\])$/

/** Whether a URL's host is a loopback address. */
export const isLoopback = ({ hostname }: URL): boolean => LOOPBACK_HOST.test(hostname)

/** What keeps a URL from being one that browsers are sent to, or null: https only, in development also http on loopback. */
export function webUrlProblem(url: URL, development: boolean): string | null {
  if (url.protocol !== 'https:' && !(url.protocol === 'http:' && isLoopback(url))) return 'Must start with https://.'
  if (url.protocol === 'http:' && !development)
    return 'Must start with https://. http: on loopback is allowed in development only.'
  return url.username === '' && url.password === '' ? null : 'Must not contain a user name or password.'
}

/** Without wildcards and unusual characters that the URL parser accepts in a host. */
const HOST = /^(?:\[[0-9a-f:.]+\]|[a-z0-9_.-]+)$/

/** The same for a URL whose host must be spelled as one. */
export function hostUrlProblem(url: URL, development: boolean): string | null {
  const problem = webUrlProblem(url, development)
  return problem === null && !HOST.test(url.hostname) ? 'Must name one host, without a wildcard.' : problem
}

/** Why a text is not a valid origin, or null. Valid: an origin as browsers send it (RFC 6454, section 6.2). */
export function originProblem(text: string, development: boolean): string | null {
  const url = URL.parse(text)
  if (url === null) return 'Must be an origin, such as https://shop.example.com.'
  const problem = hostUrlProblem(url, development)
  if (problem !== null) return problem
  return url.origin === text ? null : `Must be an origin as browsers send it: ${url.origin}`
}

/** From where an app may be used. */
export interface AppOrigins {
  /** As the app names them. */
  allowedOrigins: readonly string[]
  /** Those of its verified custom domains. */
  domainOrigins?: readonly string[]
}

/**
 * Whether browsers may use an app from this origin: one of its `allowedOrigins` or custom domains, the service's own, or,
 * in development and where the app names none, any on loopback.
 */
export function isAllowedOrigin(config: Config, app: AppOrigins, origin: string): boolean {
  if (app.allowedOrigins.includes(origin) || app.domainOrigins?.includes(origin) === true) return true
  if (origin === new URL(publicUrl(config)).origin) return true
  return config.env === 'development' && app.allowedOrigins.length === 0 && LOOPBACK_ORIGIN.test(origin)
}
