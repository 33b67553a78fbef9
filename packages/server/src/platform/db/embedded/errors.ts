/**
 * What can go wrong, by stable name.
 * - `data_dir_in_use`: another `all` process owns the folder
 * - `data_dir_mismatch`: the record and the folder speak of different clusters, or one of them is gone
 * - `data_dir_forbidden`: this user may not use the folder
 * - `major_version_mismatch`: written by another PostgreSQL major version
 * - `platform_unsupported`: no PostgreSQL binaries for this machine
 * - `start_failed`: PostgreSQL did not come up in the stated time
 */
export type EmbeddedErrorCode =
  | 'data_dir_in_use'
  | 'data_dir_mismatch'
  | 'data_dir_forbidden'
  | 'major_version_mismatch'
  | 'platform_unsupported'
  | 'start_failed'

/** The embedded database cannot be used; `message` says what is wrong and what to do, for people. */
export class EmbeddedDatabaseError extends Error {
  readonly code: EmbeddedErrorCode

  constructor(code: EmbeddedErrorCode, message: string, options?: { cause?: unknown }) {
    super(message, options)
    this.name = 'EmbeddedDatabaseError'
    this.code = code
  }
}

/** The `code` of a system or PostgreSQL error (`ENOENT`, `57P03`), or '' where there is none. */
export function errorCode(error: unknown): string {
  const code = (error as { code?: unknown } | null)?.code
  return typeof code === 'string' ? code : ''
}
