import { createHmac } from 'node:crypto'
import { type Config, publicUrl } from '../../platform/config.ts'
import { hostName, isLoopbackName } from '../../platform/http/host-check.ts'
import type { EntranceRequest } from '../../platform/http/route.ts'
import { equalSecrets } from '../../platform/security/crypto.ts'
import { fail } from './errors.ts'

const COOKIE = 'halfkey_dashboard'
/** 32 bytes in base64url. */
const TOKEN = /^[A-Za-z0-9_-]{43}$/
const SESSION_SECONDS = 43_200

type Headers = EntranceRequest['headers']

const one = (value: string | string[] | undefined): string | undefined =>
  Array.isArray(value) ? value.join(', ') : value

/** In development the page may stand under any loopback name and port that leads here, such as a development server's. */
function isOwnOrigin(config: Config, headers: Headers, origin: string): boolean {
  if (origin === new URL(publicUrl(config)).origin) return true
  const host = one(headers.host) ?? ''
  if (config.env !== 'development' || origin !== `http://${host}`) return false
  const name = hostName(host)
  return name !== null && isLoopbackName(name)
}

/**
 * Lets through what the dashboard's own page sends, and what is no browser's. A cookie goes along with the calls of every
 * page on the same site, which other ports and subdomains are too. @throws origin_not_allowed
 */
export function checkOrigin(config: Config, { method, headers }: Pick<EntranceRequest, 'method' | 'headers'>): void {
  const site = one(headers['sec-fetch-site'])
  const isTyped = site === 'none' && method === 'GET' && one(headers['sec-fetch-mode']) === 'navigate'
  if (site !== undefined && site !== 'same-origin' && !isTyped) throw fail('origin_not_allowed')
  const origin = one(headers.origin)
  if (origin !== undefined && !isOwnOrigin(config, headers, origin)) throw fail('origin_not_allowed')
}

function cookies(headers: Headers): string[] {
  return (one(headers.cookie) ?? '')
    .split(';')
    .map((pair) => pair.trim())
    .filter((pair) => pair.startsWith(`${COOKIE}=`))
    .map((pair) => pair.slice(COOKIE.length + 1))
}

/**
 * The session's token. Of two neither counts: one of them is not what this service set for this path.
 * @throws session_missing, session_invalid
 */
export function tokenOf(headers: Headers): string {
  const [token, ...more] = cookies(headers)
  if (token === undefined || token === '') throw fail('session_missing')
  if (more.length > 0 || !TOKEN.test(token)) throw fail('session_invalid')
  return token
}

/** The tokens that a browser sends, valid or not. At most a few. */
export function tokensSent(headers: Headers): string[] {
  return cookies(headers)
    .filter((token) => TOKEN.test(token))
    .slice(0, 4)
}

/** The token that a page must send with the cookie. Only a page that may read our responses knows it. */
export function csrfTokenOf(token: string): string {
  return createHmac('sha256', token).update('halfkey dashboard csrf').digest('base64url')
}

/** @throws csrf_token_invalid */
export function checkCsrf({ method, headers }: Pick<EntranceRequest, 'method' | 'headers'>, token: string): void {
  if (method === 'GET' || method === 'HEAD') return
  const sent = one(headers['x-halfkey-csrf']) ?? ''
  if (!equalSecrets(Buffer.from(sent), Buffer.from(csrfTokenOf(token)))) throw fail('csrf_token_invalid')
}

/** Over plain http a browser would not send back what is `Secure`; on loopback nobody listens in. */
export function isSecure(config: Config): boolean {
  const url = new URL(publicUrl(config))
  return !(url.protocol === 'http:' && isLoopbackName(url.hostname))
}

function cookie(config: Config, value: string, seconds: number): string {
  const secure = isSecure(config) ? '; Secure' : ''
  return `${COOKIE}=${value}; Path=/dashboard; HttpOnly; SameSite=Strict; Max-Age=${seconds}${secure}`
}

/** `Set-Cookie` for a new session. */
export const sessionCookie = (config: Config, token: string): string => cookie(config, token, SESSION_SECONDS)

/** `Set-Cookie` for a session that has ended. */
export const noCookie = (config: Config): string => cookie(config, '', 0)

/** How long a session lasts at most. */
export const SESSION_MS = SESSION_SECONDS * 1000
