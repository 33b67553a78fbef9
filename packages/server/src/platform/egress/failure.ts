// The public texts for a failed send. They are stored with the attempt and shown to the customer, so they
// are few, stable, and hold no address, no stack and no text of a library.
import { EgressRefused } from './policy.ts'
import { ProxyFailure } from './proxy.ts'

/** A name could not be resolved. The message is the public text. */
export class DnsFailure extends Error {
  override name = 'DnsFailure'
}

/** The deadline passed before a status line came. */
export const TIMEOUT = 'timeout'

/** This process has too many sends underway, or no descriptors left. */
export const OVERLOADED = 'sender overloaded'

/** This process ends. */
export const SHUTTING_DOWN = 'shutting down'

/** Whether a send failed by this process's own doing, and says nothing about the receiver. */
export const isOwnFailure = (error: string | null): boolean => error === OVERLOADED || error === SHUTTING_DOWN

const TEXT_BY_CODE: Record<string, string> = {
  ECONNREFUSED: 'connection refused',
  ECONNRESET: 'reset',
  EPIPE: 'reset',
  EHOSTUNREACH: 'unreachable',
  ENETUNREACH: 'unreachable',
  EADDRNOTAVAIL: 'unreachable',
  EACCES: 'unreachable',
  EPERM: 'unreachable',
  EINVAL: 'unreachable',
  ETIMEDOUT: TIMEOUT,
  UND_ERR_CONNECT_TIMEOUT: TIMEOUT,
  UND_ERR_HEADERS_OVERFLOW: 'headers too large',
  UND_ERR_INVALID_ARG: 'invalid request',
  EMFILE: OVERLOADED,
  ENFILE: OVERLOADED,
  ENOBUFS: OVERLOADED,
  CERT_HAS_EXPIRED: 'tls: certificate expired',
  CERT_NOT_YET_VALID: 'tls: certificate not yet valid',
  CERT_REVOKED: 'tls: certificate revoked',
  DEPTH_ZERO_SELF_SIGNED_CERT: 'tls: certificate self-signed',
  SELF_SIGNED_CERT_IN_CHAIN: 'tls: certificate from an unknown authority',
  UNABLE_TO_GET_ISSUER_CERT: 'tls: certificate from an unknown authority',
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: 'tls: certificate from an unknown authority',
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: 'tls: certificate from an unknown authority',
  ERR_TLS_CERT_ALTNAME_INVALID: 'tls: certificate for another host',
  EPROTO: 'tls: handshake failed',
}

/** Turns an error of a connection or of undici into a short public text. Unknown errors become `failed`. */
export function describeFailure(error: unknown): string {
  if (error instanceof EgressRefused) return `blocked: ${error.message}`
  if (error instanceof DnsFailure || error instanceof ProxyFailure) return error.message
  const code = codeOf(error)
  const text = TEXT_BY_CODE[code]
  if (text !== undefined) return text
  if (code === 'UND_ERR_SOCKET') return 'reset'
  // Its code is no help: undici fills it from a table that is keyed the other way round.
  if (error instanceof Error && error.name === 'HTTPParserError') return 'not an HTTP/1.1 answer'
  if (code.startsWith('ERR_SSL_') || code.startsWith('ERR_TLS_')) return 'tls: handshake failed'
  // Every remaining X.509 verification code of OpenSSL (X509_V_ERR_*, as node names them).
  if (/CERT|CRL|ISSUER|CHAIN|PURPOSE|SIGNATURE/.test(code)) return 'tls: certificate rejected'
  return 'failed'
}

/** True when the peer closed the connection, as opposed to refusing it or breaking a protocol on it. */
export function isConnectionClosed(error: unknown): boolean {
  const code = codeOf(error)
  return code === 'UND_ERR_SOCKET' || code === 'ECONNRESET' || code === 'EPIPE'
}

/**
 * The status of an interim answer that undici cuts the connection for: 101 nobody asked for, and 100. Null for other
 * errors. undici tells the two apart by message alone (lib/dispatcher/client-h1.js, onHeadersComplete).
 */
export function interimStatusOf(error: unknown): number | null {
  if (codeOf(error) !== 'UND_ERR_SOCKET' || !(error instanceof Error)) return null
  if (error.message === 'bad upgrade') return 101
  return error.message === 'bad response' ? 100 : null
}

function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : ''
}
