import { ShareError } from '../../platform/security/threshold/threshold.ts'
import { asRefusal, shareInvalid } from '../../wallets/custody/service.ts'

/** What proofs are held against. */
interface Proofs {
  needed: number
  /** By index − 1. */
  verifyingShares: readonly Buffer[]
  isRight(of: { index: number; proof: string; key: Buffer }): boolean
}

/** That proofs are of known shares, each once, and enough. @throws share_invalid, shares_insufficient (name `proofs`) */
export function requireProofs(
  { needed, verifyingShares, isRight }: Proofs,
  proofs: readonly { index: number; proof: string }[],
): void {
  const wrong = proofs.filter(({ index, proof }, at) => {
    const key = verifyingShares[index - 1]
    const again = proofs.findIndex((other) => other.index === index) !== at
    return again || key === undefined || !isRight({ index, proof, key })
  })
  if (wrong.length > 0)
    throw shareInvalid(
      'proofs',
      'These do not show that the shares are known, each once.',
      wrong.map(({ index }) => index),
    )
  if (proofs.length >= needed) return
  const message = `Here are proofs of ${proofs.length}, and it takes ${needed}.`
  throw asRefusal(new ShareError('shares_insufficient', message), 'proofs')
}
