import type { Config } from '../../platform/config.ts'
import type { EntranceRequest } from '../../platform/http/route.ts'
import { isId } from '../../platform/ids.ts'
import type { CodeBinding } from '../members/sign-in/codes.ts'
import { isSecure } from './request-checks.ts'

const COOKIE = 'halfkey_dashboard_code'
const CODE_SECONDS = 600

/** `Set-Cookie` for the browser that asked for a code, which alone can use it. */
export function codeCookie(config: Config, { tenantId, secret }: CodeBinding): string {
  const secure = isSecure(config) ? '; Secure' : ''
  return `${COOKIE}=${tenantId}.${secret}; Path=/dashboard; HttpOnly; SameSite=Strict; Max-Age=${CODE_SECONDS}${secure}`
}

/** What the browser has of the code that it asked for. Of two cookies neither counts: one of them is not what this service set. */
export function codeBindingOf({ cookie = '' }: EntranceRequest['headers']): CodeBinding | undefined {
  const [found, ...more] = String(cookie)
    .split(';')
    .map((pair) => pair.trim())
    .filter((pair) => pair.startsWith(`${COOKIE}=`))
  const [tenantId = '', secret = ''] = (found ?? '').slice(COOKIE.length + 1).split('.')
  return more.length === 0 && isId('ten', tenantId) && secret !== '' ? { tenantId, secret } : undefined
}
