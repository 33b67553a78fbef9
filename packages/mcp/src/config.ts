import type { DelegateKey } from '../../sdk/src/index.ts'

/** Where the agent's wallet is, and with what it acts. */
export interface Settings {
  /** The entrance for agents of the service, without a slash at its end. */
  baseUrl: string
  /** The delegated session's token. It is sent as a header to `baseUrl` and goes nowhere else. */
  token: string
  /** The key that the session is bound to; absent if its token is enough. */
  delegateKey?: Pick<DelegateKey, 'prove'> | undefined
}

/** The same as the environment says it. */
export interface NamedSettings extends Omit<Settings, 'delegateKey'> {
  keyFile: string | undefined
  /** Origins that `x402_fetch` may reach though they are not public, or by http. */
  x402Origins: ReadonlySet<string>
}

type Environment = Readonly<Record<string, string | undefined>>

/** The path of the key file; undefined for none. */
export const keyFileOf = ({ HALFKEY_KEY_FILE: path = '' }: Environment): string | undefined =>
  path === '' ? undefined : path

/** The listed origins. @throws Error for anything else than origins */
function originsOf({ HALFKEY_X402_ORIGINS: list = '' }: Environment): Set<string> {
  const origins = list.split(',').flatMap((each) => (each.trim() === '' ? [] : [each.trim()]))
  for (const each of origins)
    if (!URL.canParse(each) || new URL(each).origin !== each || !/^https?:/.test(each))
      throw new Error('HALFKEY_X402_ORIGINS must be origins with commas between them, such as http://127.0.0.1:3000')
  return new Set(origins)
}

/** 32 random bytes in base 62 and a checksum of six characters. */
const TOKEN = /^dst_[0-9A-Za-z]{49}$/
const LOOPBACK = /^(localhost|127(\.\d{1,3}){3}|\[::1\])$/

/**
 * Reads the settings from environment variables.
 * @throws Error whose message names the variable and never its value
 */
export function readSettings(env: Environment): NamedSettings {
  const { HALFKEY_URL: address = '', HALFKEY_TOKEN: token = '' } = env
  if (!TOKEN.test(token))
    throw new Error("HALFKEY_TOKEN must be the token of a delegated session, which begins with 'dst_'.")
  const url = URL.canParse(address) ? new URL(address) : undefined
  if (url === undefined || !/^https?:$/.test(url.protocol))
    throw new Error('HALFKEY_URL must be the address of a Halfkey service, such as https://wallets.example.com')
  if (`${url.username}${url.password}${url.search}${url.hash}` !== '')
    throw new Error('HALFKEY_URL must have no credentials, no query and no fragment.')
  if (url.protocol === 'http:' && !LOOPBACK.test(url.hostname) && env.HALFKEY_INSECURE_HTTP !== '1')
    throw new Error(
      'HALFKEY_URL must begin with https://, because the token could be read on the way. Set HALFKEY_INSECURE_HTTP=1 in a network that you trust.',
    )
  // With or without the version, as for the SDK.
  const path = url.pathname.replace(/\/+$/, '').replace(/\/v1$/, '')
  return { baseUrl: `${url.origin}${path}/agent/api`, token, keyFile: keyFileOf(env), x402Origins: originsOf(env) }
}
