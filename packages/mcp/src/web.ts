import { lookup } from 'node:dns/promises'
import { type RequestOptions, request as requestHttp } from 'node:http'
import { request as requestHttps } from 'node:https'
import { BlockList, isIP } from 'node:net'
import type { Web, WebAnswer, WebRequest } from '../../sdk/src/x402/buy.ts'
import { X402Error } from '../../sdk/src/x402/read-terms.ts'

const TIMEOUT_MS = 10_000

/** Addresses that are not on the public internet, or stand for another address (RFC 6890, and metadata services of clouds). */
const NOT_PUBLIC: readonly [network: string, prefix: number, family: 'ipv4' | 'ipv6'][] = [
  ['0.0.0.0', 8, 'ipv4'],
  ['10.0.0.0', 8, 'ipv4'],
  ['100.64.0.0', 10, 'ipv4'],
  ['127.0.0.0', 8, 'ipv4'],
  ['168.63.129.16', 32, 'ipv4'],
  ['169.254.0.0', 16, 'ipv4'],
  ['172.16.0.0', 12, 'ipv4'],
  ['192.0.0.0', 24, 'ipv4'],
  ['192.0.2.0', 24, 'ipv4'],
  ['192.88.99.0', 24, 'ipv4'],
  ['192.168.0.0', 16, 'ipv4'],
  ['198.18.0.0', 15, 'ipv4'],
  ['198.51.100.0', 24, 'ipv4'],
  ['203.0.113.0', 24, 'ipv4'],
  ['224.0.0.0', 3, 'ipv4'],
  ['2001::', 23, 'ipv6'],
  ['2001:db8::', 32, 'ipv6'],
  ['2002::', 16, 'ipv6'],
  ['3fff::', 20, 'ipv6'],
]

const notPublic = new BlockList()
for (const [network, prefix, family] of NOT_PUBLIC) notPublic.addSubnet(network, prefix, family)
/** IANA has assigned no other unicast addresses of version 6. */
const unicast6 = new BlockList()
unicast6.addSubnet('2000::', 3, 'ipv6')

/** Whether an address is on the public internet. */
export function isPublic(address: string): boolean {
  const version = isIP(address)
  if (version === 4) return !notPublic.check(address, 'ipv4')
  return version === 6 && !address.includes('%') && unicast6.check(address, 'ipv6') && !notPublic.check(address, 'ipv6')
}

const unreachable = (message: string) => new X402Error('x402_unreachable', message)

interface Address {
  address: string
  family: number
}

/** The addresses of a host, each of them public unless its origin is listed: a name with one other address is refused. */
async function addressesOf({ hostname, origin, protocol }: URL, listed: ReadonlySet<string>): Promise<Address[]> {
  const isListed = listed.has(origin)
  if (protocol !== 'https:' && !isListed) throw unreachable('The address must begin with https://.')
  const host = hostname.replace(/^\[(.*)\]$/, '$1')
  const family = isIP(host)
  const found = family === 0 ? await lookup(host, { all: true }).catch(() => []) : [{ address: host, family }]
  if (found.length === 0) throw unreachable('There is no such host.')
  if (!isListed && !found.every(({ address }) => isPublic(address)))
    throw unreachable('The host is not on the public internet.')
  return found
}

/** Connects to what was checked: a name could have other addresses at the next look. */
function lookupOf(addresses: readonly Address[]): NonNullable<RequestOptions['lookup']> {
  const [first] = addresses as [Address]
  return (_, options, done) => {
    if (options.all) done(null, [...addresses])
    else done(null, first.address, first.family)
  }
}

function send(
  { method, headers, body }: WebRequest,
  url: URL,
  addresses: Address[],
  bytesMax: number,
): Promise<WebAnswer> {
  return new Promise((resolve, reject) => {
    const request = url.protocol === 'https:' ? requestHttps : requestHttp
    const sent = { ...headers, 'accept-encoding': 'identity' }
    const signal = AbortSignal.timeout(TIMEOUT_MS)
    let isAnswered = false
    const fail = () => reject(unreachable('There was no response.'))
    const outgoing = request(
      url,
      { method, headers: sent, lookup: lookupOf(addresses), signal, agent: false },
      (answer) => {
        isAnswered = true
        const chunks: Buffer[] = []
        let bytes = 0
        const settle = (isCut: boolean) => {
          const fields = Object.entries(answer.headers).flatMap(([name, value]): [string, string][] =>
            typeof value === 'string' ? [[name, value]] : [],
          )
          const read = Buffer.concat(chunks).subarray(0, bytesMax)
          resolve({ status: answer.statusCode ?? 0, headers: new Headers(fields), body: read, isCut })
        }
        answer.on('data', (chunk: Buffer) => {
          chunks.push(chunk)
          bytes += chunk.length
          if (bytes <= bytesMax) return
          settle(true)
          outgoing.destroy()
        })
        answer.on('end', () => settle(false))
        answer.on('error', fail)
        answer.on('close', fail)
      },
    )
    outgoing.on('error', fail)
    // A 101 is no response here, and Node would say nothing more of it.
    outgoing.on('upgrade', (_, socket) => {
      socket.destroy()
      fail()
    })
    outgoing.on('close', () => {
      if (!isAnswered) fail()
    })
    outgoing.end(body)
  })
}

/**
 * Requests from this machine, to the public internet by https only, without a proxy, cookies or credentials. `listed`: origins that
 * may be anywhere, and by http too.
 */
export function createWeb(listed: ReadonlySet<string>, bodyBytesMax: number): Web {
  return async (request) => {
    const url = new URL(request.url)
    if (`${url.username}${url.password}` !== '') throw unreachable('The address must have no credentials.')
    return send(request, url, await addressesOf(url, listed), bodyBytesMax)
  }
}
