// The undici handler of a send. It reads the response within its limits.
import type { Dispatcher } from 'undici'
import type { Connection } from './connections.ts'
import type { Send } from './send.ts'

const INTERIM_ANSWERS_MAX = 16
/** Longest stored piece of an answer, in bytes of UTF-8. */
export const SNIPPET_BYTES_MAX = 4096
const encoder = new TextEncoder()
const scratch = new Uint8Array(SNIPPET_BYTES_MAX)

/** One request on one connection, as undici reports on it. What it means for the send is the send's to decide. */
export class Attempt implements Dispatcher.DispatchHandler {
  readonly connection: Connection
  readonly #send: Send
  readonly #chunks: Buffer[] = []
  #bodyBytes = 0
  #interimAnswers = 0
  /** the request was written, so the connection stood */
  isStarted = false
  isReused = false
  /** a first byte of the answer came */
  isAnswered = false
  /** of the final status line */
  statusCode: number | null = null
  /** those that come once; only if the answer is kept */
  headers: Record<string, string> = {}

  constructor(send: Send, connection: Connection) {
    this.#send = send
    this.connection = connection
  }

  snippet(): string {
    return toSnippet(this.#chunks, this.#bodyBytes > SNIPPET_BYTES_MAX)
  }

  /** The body as far as it was read. */
  answer(): Buffer {
    return Buffer.concat(this.#chunks)
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    // Given up while it waited: it must not reach the receiver.
    if (!this.#send.isCurrent(this)) {
      controller.abort(new Error('given up'))
      return
    }
    this.isStarted = true
    this.isReused = this.connection.sends++ > 0
    this.#send.onStarted()
  }

  onResponseStarted(): void {
    this.isAnswered = true
  }

  onResponseStart(
    _controller: Dispatcher.DispatchController,
    statusCode: number,
    headers: Readonly<Record<string, string | string[] | undefined>>,
  ): void {
    if (!this.#send.isCurrent(this)) return
    if (statusCode >= 200) {
      this.statusCode = statusCode
      if (this.#send.keepsAnswer) this.headers = single(headers)
    } else if (statusCode === 101 || ++this.#interimAnswers > INTERIM_ANSWERS_MAX) {
      // After 101 another protocol follows, which is not supported.
      this.#send.finish(this, statusCode, null)
      this.#send.connections.discard(this.connection)
    }
  }

  onResponseData(_controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (!this.#send.isCurrent(this)) return
    if (this.#bodyBytes < SNIPPET_BYTES_MAX || this.#send.keepsAnswer) this.#chunks.push(chunk)
    this.#bodyBytes += chunk.length
    if (this.#bodyBytes > this.#send.answerBytesMax) {
      this.#send.finish(this, this.statusCode, null)
      this.#send.connections.discard(this.connection)
    }
  }

  onResponseEnd(): void {
    if (!this.#send.isCurrent(this)) return
    this.#send.connections.release(this.connection)
    this.#send.finish(this, this.statusCode, null)
  }

  onResponseError(_controller: Dispatcher.DispatchController | null, error: Error): void {
    if (this.#send.isCurrent(this)) this.#send.onAttemptFailed(this, error)
  }
}

/** Headers that came once. What came several times has no one value. */
function single(headers: Readonly<Record<string, string | string[] | undefined>>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(headers).flatMap(([name, value]) =>
      typeof value === 'string' ? [[name.toLowerCase(), value]] : [],
    ),
  )
}

/**
 * The head of a body as text PostgreSQL can store: at most 4 KiB of valid UTF-8, no NUL. What is not UTF-8 becomes U+FFFD.
 * `isCut`: more followed, so a character cut in half at the end is dropped instead of replaced.
 */
export function toSnippet(chunks: Buffer[], isCut: boolean): string {
  const first = chunks[0]
  if (!first) return ''
  const body = chunks.length === 1 ? first : Buffer.concat(chunks)
  const head = body.subarray(0, SNIPPET_BYTES_MAX)
  const text = decode(head, isCut || body.length > SNIPPET_BYTES_MAX)
  const clean = text.includes('\0') ? text.replaceAll('\0', '') : text
  // A UTF-16 unit takes at most 3 bytes.
  if (clean.length * 3 <= SNIPPET_BYTES_MAX) return clean
  // Replacement characters are longer than the bytes they stand for; encodeInto never splits a character.
  return clean.slice(0, encoder.encodeInto(clean, scratch).read)
}

function decode(head: Buffer, isCut: boolean): string {
  if (!isCut) return head.toString('utf8')
  return new TextDecoder('utf-8', { ignoreBOM: true }).decode(head, { stream: true })
}
