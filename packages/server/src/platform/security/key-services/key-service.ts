/**
 * A key outside this process that wraps the key-encryption keys of a key file: a cloud's key management service, Vault, or
 * a hardware module. It is called when a key file is read and when a lifetime ends, never while a request waits.
 */
export interface KeyService {
  /**
   * Encrypts a key-encryption key (32 bytes).
   * @param context bound to it: what is wrapped under one context does not open under another
   * @throws KeyServiceError
   */
  wrap(key: Buffer, context: string): Promise<Buffer>
  /** Undoes `wrap`. @throws KeyServiceError */
  unwrap(wrapped: Buffer, context: string): Promise<Buffer>
  close(): Promise<void>
}

/**
 * Why a key service gave no key: it does not answer or is overloaded (`unavailable`), refuses us (`denied`), no longer has
 * the key or has disabled it (`gone`), or what it was to open is not what it once wrapped (`corrupt`).
 */
export type KeyServiceFailure = 'unavailable' | 'denied' | 'gone' | 'corrupt'

export class KeyServiceError extends Error {
  readonly failure: KeyServiceFailure
  constructor(failure: KeyServiceFailure, message: string, options?: ErrorOptions) {
    super(message, options)
    this.failure = failure
  }
}

/** The address of a key service is not one. The message says what it must look like. */
export class KeyServiceAddressError extends Error {}

/** Whether a text could be the address of a key service, which a plain key never is. */
export const isServiceAddress = (text: string): boolean => /^[a-z][a-z0-9]*:/.test(text)
