/** The parameters of a request, or the name of one that is given twice (RFC 6749, section 3.1). Empty ones count as absent. */
export function readParameters(text: string): ReadonlyMap<string, string> | { repeated: string } {
  const parameters = new Map<string, string>()
  const seen = new Set<string>()
  for (const [name, value] of new URLSearchParams(text)) {
    if (seen.has(name)) return { repeated: name.slice(0, 100) }
    seen.add(name)
    if (value !== '') parameters.set(name, value)
  }
  return parameters
}
