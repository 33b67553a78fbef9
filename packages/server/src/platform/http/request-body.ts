import type { Readable } from 'node:stream'
import { fail } from './errors.ts'

const BODY_BYTES_MAX = 1024 * 1024
/** How much of a body that is too large is still read, so that its sender can read the response. */
export const DISCARDED_BYTES_MAX = 16 * BODY_BYTES_MAX

const tooLarge = (headers: Record<string, string> = {}) =>
  fail(
    'payload_too_large',
    [{ field: 'body', code: 'payload_too_large', message: `Must be at most ${BODY_BYTES_MAX} bytes.` }],
    headers,
  )

/** Reads a body, even past the limit, but then discards it. @throws payload_too_large; closes the connection if the body is far too large */
export async function readBody(stream: Readable, declaredBytes: number): Promise<Buffer> {
  if (declaredBytes > DISCARDED_BYTES_MAX) throw tooLarge({ connection: 'close' })
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of stream as AsyncIterable<Buffer>) {
    bytes += chunk.length
    if (bytes <= BODY_BYTES_MAX) chunks.push(chunk)
    if (bytes > DISCARDED_BYTES_MAX) throw tooLarge({ connection: 'close' })
  }
  if (bytes > BODY_BYTES_MAX) throw tooLarge()
  return Buffer.concat(chunks)
}
