import { fromHex, toHex } from '../bytes.ts'
import { ShareError } from '../errors.ts'
import type { Holder } from '../protocol.ts'
import { isShareOf, type Share, type Sharing } from '../sharing.ts'

/** A share with all that its holder needs to use it: what a device keeps, or a recovery sheet says. Secret. */
export interface HeldShare {
  walletId: string
  /** Hex: the wallet's key. */
  publicKey: string
  generation: number
  holder: Holder
  share: Share
  sharing: Sharing
}

const VERSION = 'halfkey/held-share/v1'

/** Writes a share down, as one line of JSON: for a file, a sheet, or to be sealed by `protectShare`. Secret. */
export function writeHeldShare({ share, sharing, ...rest }: HeldShare): string {
  const { threshold, total, commitments } = sharing
  return JSON.stringify({
    version: VERSION,
    ...rest,
    index: share.index,
    scalar: toHex(share.scalar),
    threshold,
    total,
    commitments: commitments.map(toHex),
  })
}

/** Reads it again, and checks that it is a share of its key. @throws ShareError share_invalid */
export function readHeldShare(text: string): HeldShare {
  let held: HeldShare
  try {
    const { version, index, scalar, threshold, total, commitments, ...rest } = JSON.parse(text)
    if (version !== VERSION) throw new Error('another version')
    const { walletId, publicKey, generation, holder } = rest
    held = {
      walletId,
      publicKey,
      generation,
      holder,
      share: { index, scalar: fromHex(scalar) },
      sharing: { threshold, total, commitments: commitments.map((point: string) => fromHex(point)) },
    }
  } catch (error) {
    throw new ShareError('share_invalid', `This is no share that was written down: ${(error as Error).message}.`)
  }
  if (toHex(held.sharing.commitments[0] ?? new Uint8Array()) !== held.publicKey || !isShareOf(held.sharing, held.share))
    throw new ShareError('share_invalid', 'This share was written down wrongly.', [held.share.index])
  return held
}
