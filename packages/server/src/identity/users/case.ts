/**
 * A text in the form in which two of them are compared without regard to case: each part of a text gives the same part
 * of the result, so that it serves for search too.
 */
export function foldCase(text: string): string {
  // Down, up, down: only so ß, ẞ and SS, or K and the Kelvin sign fall together. ς is σ at the end of a word.
  return text.normalize('NFC').toLowerCase().toUpperCase().toLowerCase().replaceAll('ς', 'σ').normalize('NFC')
}
