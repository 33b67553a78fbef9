/**
 * Canonical JSON (RFC 8785): equal values have equal bytes. Names are sorted by UTF-16 code units. `JSON.stringify`
 * writes strings and numbers as sections 3.2.2 and 3.2.3 require. Values that JSON has no form for are written as null.
 */
export function canonicalJson(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join(',')}]`
  if (typeof value !== 'object' || value === null) return JSON.stringify(value) ?? 'null'
  const entries = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1))
  return `{${entries.map(([key, entry]) => `${JSON.stringify(key)}:${canonicalJson(entry)}`).join(',')}}`
}
