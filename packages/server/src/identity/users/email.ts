import { invalid } from '../../platform/http/errors.ts'

/**
 * A text in the form in which two of them are compared without regard to case: each part of a text gives the same part
 * of the result, so that it serves for search too.
 */
export function foldCase(text: string): string {
  // Down, up, down: only so ß, ẞ and SS, or K and the Kelvin sign fall together. ς is σ at the end of a word.
  return text.normalize('NFC').toLowerCase().toUpperCase().toLowerCase().replaceAll('ς', 'σ').normalize('NFC')
}

/** An email as it is shown, and the form in which two of them are compared. */
export interface Email {
  shown: string
  key: string
}

/**
 * Trims and normalises (NFC). Local parts may be Unicode (RFC 6531); the rules are those that keep an address an
 * address: one @ with something before it, a dotted or local host after it, no spaces or control characters.
 * @throws validation_failed
 */
export function parseEmail(text: string, field = 'email'): Email {
  const shown = text.trim().normalize('NFC')
  const at = shown.lastIndexOf('@')
  const local = shown.slice(0, at)
  const host = shown.slice(at + 1)
  const wellFormed =
    at > 0 && host !== '' && !/[\s\p{Cc}\p{Cf}@]/u.test(host) && !/[\s\p{Cc}"(),:;<>[\]\\@]/u.test(local)
  const dots = /^\.|\.$|\.\./
  if (
    !wellFormed ||
    dots.test(local) ||
    dots.test(host) ||
    Buffer.byteLength(local) > 64 ||
    Buffer.byteLength(host) > 255
  ) {
    throw invalid(field, 'Must be an email address, such as ada@example.com.', 'invalid_email')
  }
  return { shown, key: foldCase(shown) }
}
