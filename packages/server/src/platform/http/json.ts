import { fail, invalid } from './errors.ts'

const DEPTH_MAX = 32
const FORBIDDEN_KEYS = new Set(['__proto__', 'constructor', 'prototype'])

const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: false })

function malformed(message: string) {
  return fail('malformed_json', [{ code: 'malformed_json', message }])
}

/** The index just past the string that opens at `start`. */
function stringEnd(text: string, start: number): number {
  let at = start + 1
  for (;;) {
    const quote = text.indexOf('"', at)
    if (quote === -1) return text.length
    let slashes = 0
    while (text.charCodeAt(quote - 1 - slashes) === 92) slashes += 1
    if (slashes % 2 === 0) return quote + 1
    at = quote + 1
  }
}

function decoded(token: string): string {
  if (!token.includes('\\')) return token.slice(1, -1)
  let value: string
  try {
    value = JSON.parse(token)
  } catch {
    throw malformed('A string contains an invalid escape.')
  }
  if (value.includes('\0'))
    throw invalid('', 'A string contains a NUL character, which cannot be stored.', 'nul_character')
  if (!value.isWellFormed())
    throw invalid('', 'A string contains half of a surrogate pair, which is not a character.', 'lone_surrogate')
  return value
}

/**
 * Rejects input that JSON.parse accepts: nesting past 32, a key twice in one object (parsers disagree on which counts),
 * keys that reach an object's prototype, NUL and lone surrogates. One pass, no recursion: 10 000 levels cost nothing.
 */
function scan(text: string): void {
  // One entry per open container: the keys seen so far for an object, null for an array.
  const open: (Set<string> | null)[] = []
  let keyNext = false
  for (let at = 0; at < text.length; ) {
    const char = text.charCodeAt(at)
    if (char === 34) {
      const end = stringEnd(text, at)
      const value = decoded(text.slice(at, end))
      const keys = open[open.length - 1]
      if (keyNext && keys) {
        if (FORBIDDEN_KEYS.has(value)) throw malformed(`The key "${value}" is not allowed.`)
        if (keys.has(value)) throw malformed('An object has the same key twice. Remove one.')
        keys.add(value)
        keyNext = false
      }
      at = end
      continue
    }
    if (char === 123 || char === 91) {
      if (open.length === DEPTH_MAX)
        throw malformed(`Objects and arrays must be nested at most ${DEPTH_MAX} levels deep.`)
      open.push(char === 123 ? new Set() : null)
      keyNext = char === 123
    } else if (char === 125 || char === 93) {
      open.pop()
      keyNext = false
    } else if (char === 44) {
      keyNext = open[open.length - 1] instanceof Set
    }
    at += 1
  }
}

/** Parses a request body. @throws malformed_json, validation_failed (both 400) */
export function parseJson(body: Buffer): unknown {
  let text: string
  try {
    text = decoder.decode(body)
  } catch {
    throw malformed('The body is not valid UTF-8.')
  }
  scan(text)
  try {
    return JSON.parse(text)
  } catch (error) {
    throw malformed((error as Error).message)
  }
}
