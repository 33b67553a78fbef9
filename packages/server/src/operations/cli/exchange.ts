import { type IncomingMessage, request } from 'node:http'
import { request as requestSecurely } from 'node:https'

/** A request to the address that the user of the command line gives. Redirects are not followed. */
export interface Outgoing {
  method: 'GET' | 'POST' | 'PATCH' | 'DELETE'
  headers: Record<string, string>
  body?: string | undefined
  /** From the beginning to the answer's last byte. */
  timeoutMs: number
  /** More of the answer is not read. */
  bytesMax: number
  /** Uses a new connection: one kept from an earlier request may belong to a server that is gone. */
  connectsAnew?: boolean
  /** The status line alone is the answer, as for a delivery: what becomes of the body does not matter. */
  byStatus?: boolean
  signal?: AbortSignal | undefined
}

export interface Answered {
  status: number
  headers: IncomingMessage['headers']
  body: string
  /** There was more than `bytesMax`. */
  cut: boolean
}

/** No answer came in time, though the other side was there. */
export class NoAnswer extends Error {}

/** A message's body, at most so many bytes of it. */
export async function readBody(message: IncomingMessage, bytesMax: number): Promise<{ body: string; cut: boolean }> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of message as AsyncIterable<Buffer>) {
    bytes += chunk.length
    if (bytes > bytesMax) return { body: Buffer.concat(chunks).toString(), cut: true }
    chunks.push(chunk)
  }
  return { body: Buffer.concat(chunks).toString(), cut: false }
}

/**
 * One request and its answer. @throws NoAnswer, the connection's first error, and the signal's reason
 */
export function exchange(
  url: URL,
  { method, headers, body, timeoutMs, bytesMax, connectsAnew, byStatus, signal }: Outgoing,
): Promise<Answered> {
  return new Promise((resolve, reject) => {
    const length = body === undefined ? {} : { 'content-length': String(Buffer.byteLength(body)) }
    const send = url.protocol === 'https:' ? requestSecurely : request
    const sent = send(url, { method, headers: { ...headers, ...length }, ...(connectsAnew ? { agent: false } : {}) })
    const stop = () => sent.destroy(signal?.reason instanceof Error ? signal.reason : new Error('ended'))
    const timer = setTimeout(() => sent.destroy(new NoAnswer(`no answer within ${timeoutMs / 1_000} s`)), timeoutMs)
    const settle = (end: () => void) => {
      clearTimeout(timer)
      signal?.removeEventListener('abort', stop)
      end()
    }
    // Several addresses tried: the first one's error says more than that of them all.
    sent.once('error', (error) => settle(() => reject(error instanceof AggregateError ? error.errors[0] : error)))
    sent.once('response', (response) => {
      const answered = (found: Pick<Answered, 'body' | 'cut'>): Answered => ({
        status: response.statusCode ?? 0,
        headers: response.headers,
        ...found,
      })
      readBody(response, bytesMax).then(
        (found) => settle(() => resolve(answered(found))),
        (error: unknown) => settle(() => (byStatus ? resolve(answered({ body: '', cut: true })) : reject(error))),
      )
    })
    if (signal?.aborted) stop()
    else {
      signal?.addEventListener('abort', stop)
      sent.end(body)
    }
  })
}
