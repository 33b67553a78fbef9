// The way out of a network that has one door: a forward proxy, and a tunnel through it for each connection.
import { request } from 'node:http'
import type { Socket } from 'node:net'

/** The operator's forward proxy, spoken to over http. */
export interface ForwardProxy {
  /** Without brackets. */
  host: string
  port: number
  /** `Basic …`, or null for a proxy that asks for none. */
  authorization: string | null
}

/** There is no way through the proxy. The message is the public text: nothing of what the proxy answered is in it. */
export class ProxyFailure extends Error {
  override name = 'ProxyFailure'
}

/** What can be given up. */
interface Abandonable {
  destroy(error: Error): unknown
}

/**
 * Opens a tunnel to `authority`, an address (or in brackets an IPv6 one) and a port: CONNECT of RFC 9110, section 9.3.6.
 * Calls back once.
 */
export function openTunnel(
  { host, port, authorization }: ForwardProxy,
  authority: string,
  callback: (error: Error | null, socket: Socket | null) => void,
): Abandonable {
  const headers = { host: authority, ...(authorization === null ? {} : { 'proxy-authorization': authorization }) }
  const asking = request({ host, port, method: 'CONNECT', path: authority, headers, agent: false })
  asking.once('connect', ({ statusCode = 0 }, socket: Socket, head) => {
    if (statusCode < 200 || statusCode >= 300) {
      socket.destroy()
      return callback(new ProxyFailure('the proxy refused'), null)
    }
    if (head.length > 0) socket.unshift(head)
    callback(null, socket)
  })
  asking.once('error', () => callback(new ProxyFailure('the proxy is unreachable'), null))
  asking.end()
  return asking
}

/** `address:port`, as CONNECT names a target. */
export function authorityOf(origin: string, address: string): string {
  const { protocol, port } = new URL(origin)
  return `${address.includes(':') ? `[${address}]` : address}:${port || (protocol === 'https:' ? 443 : 80)}`
}
