/** An export or import cannot be carried out. The message says what to do. */
export class TransferError extends Error {
  /** @param message may quote a file: control characters, which a terminal would obey, are replaced */
  constructor(message: string, options?: ErrorOptions) {
    // biome-ignore lint/suspicious/noControlCharactersInRegex: those are what is looked for
    super(message.replace(/[\x00-\x09\x0b-\x1f\x7f-\x9f]/g, '?'), options)
  }
}

/** The value that a file's text says, or undefined where it is not JSON. */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
