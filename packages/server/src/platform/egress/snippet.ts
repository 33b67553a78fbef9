// What is kept of an answer's body.

/** Longest stored piece of an answer, in bytes of UTF-8. */
export const SNIPPET_BYTES_MAX = 4096

const encoder = new TextEncoder()
const scratch = new Uint8Array(SNIPPET_BYTES_MAX)

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
