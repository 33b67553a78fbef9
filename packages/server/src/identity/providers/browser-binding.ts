import { publicUrl } from '../../platform/config.ts'
import type { Deps } from '../../platform/deps.ts'
import type { Id } from '../../platform/ids.ts'
import { RETURN_MS } from './flow.ts'

/** 32 bytes in base64url. */
const SECRET = /^[A-Za-z0-9_-]{43}$/

const isSecure = ({ config }: Pick<Deps, 'config'>) => publicUrl(config).startsWith('https:')

/**
 * Each flow has a cookie of its own, so that several tabs can sign in at once. `__Host-` keeps other hosts of the domain from
 * setting one; only development has no https.
 */
const nameOf = (deps: Pick<Deps, 'config'>, flowId: Id<'chl'>) =>
  `${isSecure(deps) ? '__Host-' : ''}halfkey_provider_${flowId.slice(4)}`

const cookie = (deps: Pick<Deps, 'config'>, flowId: Id<'chl'>, value: string, seconds: number) =>
  // Lax: the provider's redirect brings it along, a request that another site makes by itself does not.
  `${nameOf(deps, flowId)}=${value}; Path=/; HttpOnly; SameSite=Lax; Max-Age=${seconds}${isSecure(deps) ? '; Secure' : ''}`

/** The header that gives a browser the secret of its flow. */
export const bindingCookie = (deps: Pick<Deps, 'config'>, flowId: Id<'chl'>, secret: string): string =>
  cookie(deps, flowId, secret, RETURN_MS / 1000)

/** The header that takes it away. */
export const endedCookie = (deps: Pick<Deps, 'config'>, flowId: Id<'chl'>): string => cookie(deps, flowId, '', 0)

/** The secret that a browser has of a flow. Undefined if it has none, or several. */
export function secretOf(
  deps: Pick<Deps, 'config'>,
  headers: Readonly<Record<string, string | string[] | undefined>>,
  flowId: Id<'chl'>,
): string | undefined {
  const name = `${nameOf(deps, flowId)}=`
  const [found, ...more] = String(headers.cookie ?? '')
    .split(';')
    .map((each) => each.trim())
    .filter((each) => each.startsWith(name))
  const secret = found?.slice(name.length) ?? ''
  return more.length === 0 && SECRET.test(secret) ? secret : undefined
}
