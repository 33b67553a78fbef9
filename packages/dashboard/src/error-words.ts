import { isHalfkeyError } from '@halfkey/sdk'

const UNREACHABLE = 'The server cannot be reached. Check your connection and that Halfkey is running, then try again.'

/** The message of an error, for people. */
export function messageOf(error: unknown): string {
  if (isHalfkeyError(error, 'network_error')) return UNREACHABLE
  if (isHalfkeyError(error)) return error.message
  return error instanceof Error ? error.message : String(error)
}

/** The first message for each field, by its name in the API. */
export function fieldErrors(error: unknown): Record<string, string> {
  if (!isHalfkeyError(error)) return {}
  const found: Record<string, string> = {}
  for (const { field, message } of error.details) if (field !== undefined) found[field] ??= message
  return found
}
