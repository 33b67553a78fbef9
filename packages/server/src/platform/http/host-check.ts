import { type Config, publicUrl } from '../config.ts'

const PLAIN_LOOPBACK = /^(localhost|127\.0\.0\.1)(:\d+)?$/
const LOOPBACK = /^(localhost|.+\.localhost|127(\.\d{1,3}){3}|\[::1\])$/

/** As URLs spell it, without the port: lower case, IPv6 in brackets, no trailing dot. Null for what is none. */
export const hostName = (host: string): string | null =>
  URL.parse(`http://${host}`)?.hostname.replace(/\.$/, '') ?? null

/** Whether a host's name, as `hostName` spells it, stands for this machine alone. */
export const isLoopbackName = (name: string): boolean => LOOPBACK.test(name)

/**
 * Tells whether a request's Host is one that this server goes by. Development listens on loopback without TLS: a page whose
 * name is made to resolve to 127.0.0.1 (DNS rebinding) would read it as its own origin, were it not for its Host.
 * @returns always true in production, and with HALFKEY_INSECURE_DEV
 */
export function createHostCheck(config: Config): (host: string) => boolean {
  if (config.env === 'production' || config.insecureDev) return () => true
  const own = hostName(config.host.includes(':') ? `[${config.host}]` : config.host)
  const shown = config.publicUrl === null ? null : new URL(config.publicUrl).hostname
  return (host) => {
    if (PLAIN_LOOPBACK.test(host)) return true
    const name = hostName(host)
    return name !== null && (isLoopbackName(name) || name === own || name === shown)
  }
}

/** A Host that the service answers to: for messages about a wrong one. */
export const rightHost = (config: Config): string => new URL(publicUrl(config)).host
