import { type Dispatcher, request } from 'undici'

/** A request of the command line's: to the address that its user gives, redirects not followed. */
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
  headers: Dispatcher.ResponseData['headers']
  body: string
  /** There was more than `bytesMax`. */
  cut: boolean
}

/** No answer came in time, though the other side was there. */
export class NoAnswer extends Error {}

async function read(body: AsyncIterable<Buffer>, bytesMax: number): Promise<{ body: string; cut: boolean }> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of body) {
    bytes += chunk.length
    if (bytes > bytesMax) return { body: Buffer.concat(chunks).toString(), cut: true }
    chunks.push(chunk)
  }
  return { body: Buffer.concat(chunks).toString(), cut: false }
}

/** One request and its answer. @throws NoAnswer, the first error of the connection, and the signal's reason */
export async function exchange(url: URL, outgoing: Outgoing): Promise<Answered> {
  const { method, headers, body, timeoutMs, bytesMax, connectsAnew = false, byStatus = false, signal } = outgoing
  const timeout = AbortSignal.timeout(timeoutMs)
  const ended = signal === undefined ? timeout : AbortSignal.any([signal, timeout])
  // The signal alone decides how long it may take: undici's own limits are per phase.
  const limits = { headersTimeout: 0, bodyTimeout: 0, signal: ended }
  try {
    const response = await request(url, { method, headers, body: body ?? null, reset: connectsAnew, ...limits })
    const found = await read(response.body, bytesMax).catch((error: unknown) => {
      if (byStatus) return { body: '', cut: true }
      throw error
    })
    return { status: response.statusCode, headers: response.headers, ...found }
  } catch (error) {
    signal?.throwIfAborted()
    if (timeout.aborted) throw new NoAnswer(`no answer within ${timeoutMs / 1_000} s`)
    // Several addresses tried: the first one's error says more than that of them all.
    throw error instanceof AggregateError ? error.errors[0] : error
  }
}
