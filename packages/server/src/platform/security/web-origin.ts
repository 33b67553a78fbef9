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
