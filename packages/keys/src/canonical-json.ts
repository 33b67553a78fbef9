/**
 * JSON in the form of RFC 8785, so that values that mean the same have the same bytes. Names are ordered by UTF-16 code
 * units, and `JSON.stringify` writes strings and numbers as the RFC asks (sections 3.2.2 and 3.2.3). What JSON cannot
 * hold counts as null.
 */
export function canonicalJson(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join(',')}]`
  if (typeof value !== 'object' || value === null) return JSON.stringify(value) ?? 'null'
  const entries = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1))
  return `{${entries.map(([key, entry]) => `${JSON.stringify(key)}:${canonicalJson(entry)}`).join(',')}}`
}
