import { readFileSync } from 'node:fs'
import { Agent as HttpAgent, type IncomingMessage, request as requestHttp } from 'node:http'
import { Agent as HttpsAgent, request as requestHttps } from 'node:https'
import { LedgerSettingsError } from '../../../platform/ports/ledger-settings-error.ts'
import type { CantonSettings } from './settings.ts'

const CONNECTIONS_MAX = 32
const ANSWER_BYTES_MAX = 16 << 20

/** A request to an address that the operator has set. */
interface HttpRequest {
  method: 'GET' | 'POST'
  url: string
  headers: Record<string, string>
  body?: string
  /** How long the answer may take, where that is less than the settings say. */
  maxMs?: number
}

export interface HttpAnswer {
  status: number
  body: string
}

/** There is an answer that cannot be read: as large, or as slow, as it is. */
export class UnreadAnswer extends Error {
  readonly why: 'oversize' | 'timeout'

  constructor(why: 'oversize' | 'timeout', message: string) {
    super(message)
    this.why = why
  }
}

/** Sends a request. @throws UnreadAnswer, Error without an answer */
export type Send = (request: HttpRequest) => Promise<HttpAnswer>

async function readBody(message: IncomingMessage): Promise<string> {
  const parts: Buffer[] = []
  let bytes = 0
  for await (const part of message as AsyncIterable<Buffer>) {
    bytes += part.length
    if (bytes > ANSWER_BYTES_MAX) {
      message.destroy()
      throw new UnreadAnswer('oversize', `the answer has more than ${ANSWER_BYTES_MAX} bytes`)
    }
    parts.push(part)
  }
  return Buffer.concat(parts).toString('utf8')
}

function readFiles({ tls: { caFile, certFile, keyFile } }: CantonSettings) {
  const read = (file: string | undefined) => {
    try {
      return file === undefined ? undefined : readFileSync(file)
    } catch (error) {
      throw new LedgerSettingsError(`${file} cannot be read (${(error as NodeJS.ErrnoException).code}).`)
    }
  }
  const [ca, cert, key] = [read(caFile), read(certFile), read(keyFile)]
  return { ...(ca && { ca }), ...(cert && { cert }), ...(key && { key }) }
}

/**
 * Connections to a participant. Redirects are not followed: they could lead a token elsewhere.
 * @throws LedgerSettingsError if a certificate cannot be read
 */
export function createSend(settings: CantonSettings): Send {
  const options = { keepAlive: true, maxSockets: CONNECTIONS_MAX }
  const agents = { http: new HttpAgent(options), https: new HttpsAgent({ ...options, ...readFiles(settings) }) }
  return ({ method, url, headers, body, maxMs = settings.timeoutMs }) =>
    new Promise((answer, fail) => {
      const signal = AbortSignal.timeout(Math.max(1, Math.min(maxMs, settings.timeoutMs)))
      // Who is cut off while it reads an answer only sees that the connection ends.
      const failed = (error: unknown) =>
        fail(signal.aborted ? new UnreadAnswer('timeout', 'the answer takes too long') : error)
      const isTls = url.startsWith('https:')
      const ask = isTls ? requestHttps : requestHttp
      const sent = ask(
        url,
        {
          method,
          agent: isTls ? agents.https : agents.http,
          signal,
          headers: { ...headers, ...(body === undefined ? {} : { 'content-length': Buffer.byteLength(body) }) },
        },
        (message) => {
          readBody(message).then((text) => answer({ status: message.statusCode ?? 0, body: text }), failed)
        },
      )
      sent.on('error', failed)
      sent.end(body)
    })
}
