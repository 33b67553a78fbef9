import { invalid } from '../../platform/http/errors.ts'

/**
 * A text in the form for comparing without regard to case. A part of a text becomes a part of the result, so that it works
 * for search too.
 */
export function foldCase(text: string): string {
  // Down, up, down: otherwise ß, ẞ and SS, or K and the Kelvin sign, would differ. ς is σ at the end of a word.
  return text.normalize('NFC').toLowerCase().toUpperCase().toLowerCase().replaceAll('ς', 'σ').normalize('NFC')
}

/** An email: the form that is shown, and the form that is compared. */
export interface Email {
  shown: string
  key: string
}

/**
 * Trims and normalises (NFC). Local parts may be Unicode (RFC 6531). The rules are minimal: one @ with something before it,
 * a dotted or local host after it, no spaces or control characters.
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
    throw invalid(field, 'Must be an email address, for example ada@example.com.', 'invalid_email')
  }
  return { shown, key: foldCase(shown) }
}
