import { type Config, publicUrl } from '../config.ts'

const PLAIN_LOOPBACK = /^(localhost|127\.0\.0\.1)(:\d+)?$/
const LOOPBACK = /^(localhost|.+\.localhost|127(\.\d{1,3}){3}|\[::1\])$/

/** A host as in a URL, without the port: lower case, IPv6 in brackets, no trailing dot. Null if it is not valid. */
export const hostName = (host: string): string | null =>
  URL.parse(`http://${host}`)?.hostname.replace(/\.$/, '') ?? null

/** Whether a host's name, in the form of `hostName`, can only mean this machine. */
export const isLoopbackName = (name: string): boolean => LOOPBACK.test(name)

/**
 * Checks whether a request's Host belongs to this server. Development listens on loopback without TLS: without the check,
 * a page whose name resolves to 127.0.0.1 (DNS rebinding) could read the server as its own origin.
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

/** A valid Host, for messages about a wrong one. */
export const rightHost = (config: Config): string => new URL(publicUrl(config)).host
