import { toSnippet } from '../../../platform/egress/attempt.ts'

/** Shorter values are not secrets. They would be found in every response. */
const SECRET_CHARS_MIN = 4
const REDACTED = '[redacted]'
/** A character of JSON text, or its escape (RFC 8259, section 7). Secrets are visible ASCII: other escapes are none of theirs. */
const JSON_CHARACTER = /\\u00([0-9a-f]{2})|\\(["\\/])|[\s\S]/gi
/** An escape that the end of the text cuts. */
const CUT_ESCAPE = /\\(?:u[0-9a-f]{0,3})?$/i

/** What a text says, and where in it each character begins. */
interface Reading {
  characters: string
  starts: number[]
}

function readAsJson(text: string): Reading {
  const starts: number[] = []
  let characters = ''
  for (const { 0: all, 1: hex, 2: escaped, index } of text.replace(CUT_ESCAPE, '').matchAll(JSON_CHARACTER)) {
    starts.push(index)
    characters += hex === undefined ? (escaped ?? all) : String.fromCharCode(Number.parseInt(hex, 16))
  }
  return { characters, starts: [...starts, text.length] }
}

const readAsIs = (text: string): Reading => ({
  characters: text,
  starts: Array.from({ length: text.length + 1 }, (_, at) => at),
})

/** How many characters at the end begin the secret, but are not all of it. */
function begunAtEnd(characters: string, secret: string): number {
  for (let length = Math.min(secret.length - 1, characters.length); length >= SECRET_CHARS_MIN; length -= 1)
    if (characters.endsWith(secret.slice(0, length))) return length
  return 0
}

/**
 * Removes secrets from a response that repeats the request, as they are or escaped in JSON. A snippet is only the start of
 * a response, so the beginning of a secret at its end is removed too.
 */
export function redact(snippet: string, values: readonly string[]): string {
  const secrets = values.filter((value) => value.length >= SECRET_CHARS_MIN)
  const isSecret = new Uint8Array(snippet.length)
  let end = snippet.length
  for (const { characters, starts } of [readAsIs(snippet), ...(snippet.includes('\\') ? [readAsJson(snippet)] : [])])
    for (const secret of secrets) {
      for (let at = characters.indexOf(secret); at >= 0; at = characters.indexOf(secret, at + secret.length))
        isSecret.fill(1, starts[at], starts[at + secret.length])
      end = Math.min(end, starts[characters.length - begunAtEnd(characters, secret)] ?? end)
    }
  let clean = ''
  for (let at = 0; at < end; at += 1) {
    if (isSecret[at] === 0) clean += snippet[at]
    else if (at === 0 || isSecret[at - 1] === 0) clean += REDACTED
  }
  // It can be longer than the secret.
  return toSnippet([Buffer.from(clean)], false)
}
