import { publicUrl } from '../../platform/config.ts'
import type { Deps } from '../../platform/deps.ts'
import { type Id, isId } from '../../platform/ids.ts'
import { RETURN_MS } from './flow.ts'

/** 32 bytes in base64url. */
const SECRET = /^[A-Za-z0-9_-]{43}$/

/** The flows of which a browser keeps a cookie: more than anybody has open, and too few to make its requests too long. */
const FLOWS_MAX = 10

type Headers = Readonly<Record<string, string | string[] | undefined>>

const isSecure = ({ config }: Pick<Deps, 'config'>) => publicUrl(config).startsWith('https:')

/**
 * Each flow has a separate cookie, so that several tabs can sign in at once. `__Host-` keeps other hosts of the domain from
 * setting one; only development has no https.
 */
const prefixOf = (deps: Pick<Deps, 'config'>) => `${isSecure(deps) ? '__Host-' : ''}halfkey_provider_`

const nameOf = (deps: Pick<Deps, 'config'>, flowId: Id<'chl'>) => `${prefixOf(deps)}${flowId.slice(4)}`

const cookie = (deps: Pick<Deps, 'config'>, name: string, value: string, seconds: number) =>
  // Lax: the provider's redirect brings it along, a request that another site makes by itself does not.
  `${name}=${value}; Path=/; HttpOnly; SameSite=Lax; Max-Age=${seconds}${isSecure(deps) ? '; Secure' : ''}`

/** The cookies of a request, in the browser's order: the oldest first. */
const cookiesOf = (headers: Headers): string[] =>
  String(headers.cookie ?? '')
    .split(';')
    // Not `trim`: a name that begins with another kind of space is no `__Host-` name, and any host of the domain can set it.
    .map((each) => each.replace(/^[ \t]+/, ''))

/**
 * The headers that give a browser the secret of its flow. They take away those of its oldest flows: a page that begins flow after
 * flow in somebody's browser must not make that browser's requests too long for any server.
 */
export function bindingCookies(
  deps: Pick<Deps, 'config'>,
  headers: Headers,
  flowId: Id<'chl'>,
  secret: string,
): string[] {
  const known = cookiesOf(headers)
    .map((each) => each.slice(0, Math.max(0, each.indexOf('='))))
    .filter((name) => name.startsWith(prefixOf(deps)) && isId('chl', `chl_${name.slice(prefixOf(deps).length)}`))
  const ended = known.slice(0, 1 - FLOWS_MAX).map((name) => cookie(deps, name, '', 0))
  return [...ended, cookie(deps, nameOf(deps, flowId), secret, RETURN_MS / 1000)]
}

/** The header that takes it away. */
export const endedCookie = (deps: Pick<Deps, 'config'>, flowId: Id<'chl'>): string =>
  cookie(deps, nameOf(deps, flowId), '', 0)

/** The secret that a browser has of a flow. Undefined if it has none, or several. */
export function secretOf(deps: Pick<Deps, 'config'>, headers: Headers, flowId: Id<'chl'>): string | undefined {
  const name = `${nameOf(deps, flowId)}=`
  const [found, ...more] = cookiesOf(headers).filter((each) => each.startsWith(name))
  const secret = found?.slice(name.length) ?? ''
  return more.length === 0 && SECRET.test(secret) ? secret : undefined
}
