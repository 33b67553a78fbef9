import ipaddr from 'ipaddr.js'
import type { ForwardProxy } from './egress/proxy.ts'

/** A mail server (SMTP). */
export interface MailServer {
  host: string
  port: number
  /** TLS from the start; otherwise by STARTTLS. */
  tls: boolean
  /** Empty: without a log-in. */
  user: string
  password: string
}

/** One environment variable: how it is read, its default, and its purpose. */
export interface Setting<T> {
  env: string
  doc: string
  /** The default, as you would type it. Without it, an empty text is read. */
  default?: string
  /** Whether its value is hidden wherever settings are shown. */
  secret?: boolean
  /** @throws Error whose message completes "NAME must be …" */
  parse(text: string): T
}

const DURATION_UNITS_MS = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const

/** `90`, `90s`, `5m`, `2h`, `1d`, `250ms`: a bare number is seconds. */
function durationMs(text: string): number {
  const match = /^(\d+(?:\.\d+)?)(ms|s|m|h|d)?$/.exec(text.trim())
  if (match === null) throw new Error('a duration such as 30s, 5m, 2h or 1d')
  return Math.round(Number(match[1]) * DURATION_UNITS_MS[(match[2] ?? 's') as keyof typeof DURATION_UNITS_MS])
}

function words(text: string): string[] {
  return text
    .split(',')
    .map((word) => word.trim())
    .filter((word) => word !== '')
}

function percentDecoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    throw new Error('an address whose user name and password are percent-encoded')
  }
}

const HOST = /^(?=.{1,253}$)[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?)*$/i
const isRange = (entry: string) => (entry.includes('/') ? ipaddr.isValidCIDR(entry) : ipaddr.isValid(entry))

export const kinds = {
  text: (text: string) => text,
  /** Null for an empty text. */
  orNull:
    <T>(parse: (text: string) => T) =>
    (text: string): T | null =>
      text === '' ? null : parse(text),
  oneOf:
    <T extends string>(...values: T[]) =>
    (text: string): T => {
      if (!values.includes(text as T)) throw new Error(`one of ${values.join(', ')}`)
      return text as T
    },
  whole: (min: number, max: number) => (text: string) => {
    const value = Number(text)
    if (!/^\d+$/.test(text) || value < min || value > max) throw new Error(`a whole number from ${min} to ${max}`)
    return value
  },
  flag: (text: string) => {
    if (!['0', '1', 'true', 'false', 'on', 'off'].includes(text)) throw new Error('on or off')
    return text === '1' || text === 'true' || text === 'on'
  },
  url: (text: string) => {
    const url = URL.parse(text)
    if (url === null || !/^https?:$/.test(url.protocol) || url.username !== '')
      throw new Error('an http(s) URL without a user name')
    return text.replace(/\/+$/, '')
  },
  /** A mail server: `smtp://user:password@host:port`, or `smtps://` for TLS from the start. */
  mailServer: (text: string): MailServer => {
    const url = URL.parse(text)
    if (
      url === null ||
      !/^smtps?:$/.test(url.protocol) ||
      url.hostname === '' ||
      url.pathname.length > 1 ||
      url.search !== '' ||
      url.hash !== ''
    )
      throw new Error('an address such as smtp://user:password@mail.example.com:587')
    const isTls = url.protocol === 'smtps:'
    return {
      host: url.hostname.replace(/^\[(.*)\]$/, '$1'),
      port: Number(url.port || (isTls ? 465 : 587)),
      tls: isTls,
      user: percentDecoded(url.username),
      password: percentDecoded(url.password),
    }
  },
  /** The bare address of a sender, in ASCII. */
  mailAddress: (text: string) => {
    if (!/^[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)*$/.test(text))
      throw new Error('an address such as no-reply@example.com, without a name')
    return text
  },
  duration: (minMs: number, maxMs: number) => (text: string) => {
    const ms = durationMs(text)
    if (ms < minMs || ms > maxMs) throw new Error(`a duration from ${minMs / 1000} s to ${maxMs / 1000} s`)
    return ms
  },
  durations: (text: string) => {
    const all = text.split(',').map(durationMs)
    if (all.length > 20) throw new Error('at most 20 durations')
    return all
  },
  /** Ledgers: `embedded`, or `canton:` and the path of a file. */
  ledgers: (text: string) => {
    const all = words(text)
    if (all.length === 0 || all.length > 20 || !all.every((entry) => /^(?:embedded|canton:.+)$/.test(entry)))
      throw new Error('embedded and canton:<path of a settings file>, separated by commas')
    if (new Set(all).size < all.length) throw new Error('a list without repeats')
    return all
  },
  /** Addresses and CIDRs, separated by commas. */
  ranges: (text: string) => {
    const all = words(text)
    if (!all.every(isRange)) throw new Error('addresses or CIDRs such as 10.0.0.0/8, separated by commas')
    return all
  },
  /** CIDRs and host names, separated by commas. */
  rangesOrHosts: (text: string) => {
    const all = words(text)
    if (!all.every((entry) => isRange(entry) || (!entry.includes('/') && HOST.test(entry)))) {
      throw new Error('CIDRs or host names, separated by commas')
    }
    return all
  },
  /** A host name, in lower case and without a trailing dot. */
  host: (text: string) => {
    const host = text.trim().toLowerCase().replace(/\.$/, '')
    if (!HOST.test(host) || ipaddr.isValid(host)) throw new Error('a host name such as edge.example.com, not a URL')
    return host
  },
  /** A forward proxy as `http://user:password@host:port`. */
  proxy: (text: string): ForwardProxy => {
    const url = URL.parse(text)
    if (url?.protocol !== 'http:' || url.pathname !== '/' || url.search !== '' || url.hash !== '')
      throw new Error('an address such as http://user:password@proxy.internal:3128')
    const credentials = `${percentDecoded(url.username)}:${percentDecoded(url.password)}`
    return {
      host: url.hostname.replace(/^\[(.*)\]$/, '$1'),
      port: Number(url.port || 80),
      authorization: credentials === ':' ? null : `Basic ${Buffer.from(credentials).toString('base64')}`,
    }
  },
  /** DNS servers as `address` or `address:port`. */
  servers: (text: string) => {
    const all = words(text)
    const plain = (entry: string) => entry.replace(/^\[(.*)\](:\d+)?$/, '$1').replace(/^([\d.]+):\d+$/, '$1')
    if (!all.every((entry) => ipaddr.isValid(plain(entry))))
      throw new Error('addresses such as 127.0.0.1:5353, separated by commas')
    return all
  },
  /** `a=b,c=d`. */
  pairs: (text: string): ReadonlyMap<string, string> => {
    const all = words(text).map((word) => /^([\w-]{1,50})=(\S{1,200})$/.exec(word))
    if (all.includes(null)) throw new Error('NAME=VALUE pairs, separated by commas')
    return new Map(all.map((match) => [match?.[1] as string, match?.[2] as string]))
  },
  /** A fraction. */
  ratio: (text: string) => {
    const value = Number(text)
    if (text.trim() === '' || !(value >= 0 && value <= 1)) throw new Error('a number from 0 to 1')
    return value
  },
  /** `1000/2000`: per second, and at once. */
  rate: (text: string) => {
    const match = /^(\d{1,7})\/(\d{1,7})$/.exec(text)
    const [perSecond, burst] = [Number(match?.[1]), Number(match?.[2])]
    if (!(perSecond > 0 && burst > 0))
      throw new Error('RATE/BURST, such as 1000/2000 (requests per second, requests at once)')
    return { perSecond, burst }
  },
}
