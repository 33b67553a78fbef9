/** Why an operation on shares was refused. */
export type ShareErrorCode =
  /** The threshold, total, index or number of commitments is not possible. */
  | 'sharing_invalid'
  /** A share, sub-share, proof or signature share does not match the commitments. */
  | 'share_invalid'
  /** There are fewer shares than the threshold. */
  | 'shares_insufficient'
  /** A sealed value cannot be opened: the key is missing, the key or context is another one, or it was changed. */
  | 'seal_invalid'
  /** The messages of the other side contradict each other, or what was agreed. */
  | 'protocol_violated'

/** A refused operation. `indices` names the holders at fault, if they are known. */
export class ShareError extends Error {
  readonly code: ShareErrorCode
  readonly indices: readonly number[]

  constructor(code: ShareErrorCode, message: string, indices: readonly number[] = []) {
    super(message)
    this.name = 'ShareError'
    this.code = code
    this.indices = indices
  }
}
