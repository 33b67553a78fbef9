/**
 * The parameters of a request, or what is wrong with them: none is given twice (RFC 6749, section 3.1), and none has a NUL, which cannot be
 * stored. Empty ones count as absent.
 */
export function readParameters(text: string): ReadonlyMap<string, string> | { problem: string } {
  const parameters = new Map<string, string>()
  const seen = new Set<string>()
  for (const [name, value] of new URLSearchParams(text)) {
    if (`${name}${value}`.includes('\0')) return { problem: 'A parameter has a NUL character.' }
    if (seen.has(name)) return { problem: `The parameter ${name.slice(0, 100)} is given twice.` }
    seen.add(name)
    if (value !== '') parameters.set(name, value)
  }
  return parameters
}
