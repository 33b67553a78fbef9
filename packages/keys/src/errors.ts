/** Why something about shares is refused. */
export type ShareErrorCode =
  /** Threshold, total, index or the number of commitments can't be. */
  | 'sharing_invalid'
  /** A share, sub-share, proof or signature share is not what the commitments say. */
  | 'share_invalid'
  /** Fewer shares than the threshold. */
  | 'shares_insufficient'
  /** What was sealed does not open: no key at hand, another key or context, or it was changed. */
  | 'seal_invalid'
  /** The other side's messages don't fit each other, or not what was agreed. */
  | 'protocol_violated'

/** A refusal. `indices` names the holders whose part is at fault, where that is known. */
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
