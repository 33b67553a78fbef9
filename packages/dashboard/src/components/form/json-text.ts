/** What is typed into a field for a JSON object; null if that is nothing. @throws SyntaxError */
export function parsedJson(text: string): Record<string, unknown> | null {
  return text.trim() === '' ? null : (JSON.parse(text) as Record<string, unknown>)
}

/** What is wrong with a text that is to be a JSON object or nothing. `example` is one, as JSON. */
export function problemOfJson(text: string, example: string): string | undefined {
  try {
    if (text.trim() === '') return undefined
    const value: unknown = JSON.parse(text)
    const isObject = typeof value === 'object' && value !== null && !Array.isArray(value)
    return isObject ? undefined : `Must be a JSON object, for example ${example}.`
  } catch (error) {
    return `This is not valid JSON: ${error instanceof Error ? error.message : String(error)}`
  }
}
