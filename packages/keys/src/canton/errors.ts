/** Why bytes of a Canton participant were refused. */
export type CantonErrorCode =
  /** The bytes are not what they should be: no strict protobuf, a required field is missing, a reference leads nowhere. */
  | 'malformed'
  /** They hold something that this release does not know, and therefore neither shows nor hashes. */
  | 'unsupported'
  /** They are larger, deeper or have more parts than anything that is read here. */
  | 'too_large'
  /** An envelope or a hash does not fit what it is around. */
  | 'changed'
  /** A topology says something else than what the wallet's owner is to sign. */
  | 'topology_mismatch'
  /** A transaction does something else than what was asked for. */
  | 'not_asked'
  /** The service names another hash than that of the bytes. */
  | 'hash_mismatch'

/** A refusal. Nothing of what was refused may be signed. */
export class CantonError extends Error {
  readonly code: CantonErrorCode

  constructor(code: CantonErrorCode, message: string) {
    super(message)
    this.name = 'CantonError'
    this.code = code
  }
}

/** @throws CantonError `malformed` */
export function malformed(message: string): never {
  throw new CantonError('malformed', message)
}

/** @throws CantonError `unsupported` */
export function unsupported(message: string): never {
  throw new CantonError('unsupported', message)
}
