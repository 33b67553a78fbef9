import { sha256 } from '@noble/hashes/sha2.js'
import { concatBytes } from '@noble/hashes/utils.js'
import { fromHex, toHex } from '../bytes.ts'
import { ShareError } from '../errors.ts'
import type { Holder } from '../protocol.ts'
import { isShareOf, type Share, type Sharing } from '../sharing.ts'

/** A share with all that its holder needs to use it, for a device or a recovery sheet. Secret. */
export interface HeldShare {
  walletId: string
  /** The wallet's public key, hex. */
  publicKey: string
  /** The wallet's tenant. Absent in shares that were made before it was kept. */
  tenantId?: string
  generation: number
  holder: Holder
  share: Share
  sharing: Sharing
}

/** The purpose of public keys in Canton's fingerprints. */
const FINGERPRINT_PURPOSE = Uint8Array.of(0, 0, 0, 12)

/** The part of a party's name behind `::` that belongs to this key. */
export const namespaceOf = (publicKey: Uint8Array): string =>
  `1220${toHex(sha256(concatBytes(FINGERPRINT_PURPOSE, publicKey)))}`

const VERSION = 'halfkey/held-share/v1'

/** Writes a share as one line of JSON, for a file or a recovery sheet. Secret. */
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

/** Reads a result of `writeHeldShare`, and checks that it is a share of its key. @throws ShareError share_invalid */
export function readHeldShare(text: string): HeldShare {
  let held: HeldShare
  try {
    const { version, index, scalar, threshold, total, commitments, ...rest } = JSON.parse(text)
    if (version !== VERSION) throw new Error(`the version must be ${VERSION}`)
    const { walletId, publicKey, tenantId, generation, holder } = rest
    held = {
      walletId,
      publicKey,
      ...(tenantId === undefined ? {} : { tenantId }),
      generation,
      holder,
      share: { index, scalar: fromHex(scalar) },
      sharing: { threshold, total, commitments: commitments.map((point: string) => fromHex(point)) },
    }
  } catch (error) {
    throw new ShareError('share_invalid', `This is not a result of writeHeldShare: ${(error as Error).message}.`)
  }
  if (toHex(held.sharing.commitments[0] ?? new Uint8Array()) !== held.publicKey || !isShareOf(held.sharing, held.share))
    throw new ShareError('share_invalid', 'This text was changed: the share does not match its key.', [
      held.share.index,
    ])
  return held
}
