import { fromHex, toHex } from '../bytes.ts'
import { ShareError } from '../errors.ts'
import type { ClientCiphertext, ProtectionContext } from '../protect.ts'
import { fingerprintOf, type Holder, prove, SCHEME } from '../protocol.ts'
import { isShareOf, type Share } from '../sharing.ts'
import type { ServiceConfig } from './api.ts'
import type { HeldShare } from './held-share.ts'
import { type ServiceTrust, serviceKey } from './pin.ts'

/** A share as the API returns it. */
interface WireShare {
  index: number
  holder: Holder
  generation: number
  threshold: number
  total: number
  commitments: string[]
  clientCiphertext: unknown
}

/** The calls that store and read protected shares. */
export interface ShareApi {
  mpc: {
    readonly trust?: ServiceTrust | undefined
    config(): Promise<ServiceConfig>
    storeShare(body: {
      walletId: string
      holder: Holder
      index: number
      threshold: number
      total: number
      generation: number
      scheme: typeof SCHEME
      curve: 'ed25519'
      commitments: string[]
      clientCiphertext: ClientCiphertext
      proof: string
    }): Promise<unknown>
    getShares(walletId: string): Promise<{ walletId: string; shares: WireShare[] }>
  }
}

/** What the protection of a held share is bound to, for `protectShare` and `openProtected`. */
export function protectionContext({ walletId, generation, publicKey, share }: HeldShare): ProtectionContext {
  return { walletId, generation, publicKey, index: share.index }
}

/**
 * Stores a result of `protectShare` at the service, with a proof that this side knows the share. The service cannot
 * open it, and returns it to its user on any device. @throws ServicePinError, and the errors of the calls
 */
export async function storeHeldShare(
  api: ShareApi,
  { appId, userId }: { appId: string; userId: string },
  { walletId, generation, holder, share, sharing }: HeldShare,
  clientCiphertext: ClientCiphertext,
): Promise<void> {
  const { tenantId } = await serviceKey(api)
  const { threshold, total } = sharing
  const { index, scalar } = share
  const subject = { tenantId, appId, userId, walletId, generation, challengeId: null }
  const proof = prove(scalar, 'store-share', subject, { index, holder, ciphertext: fingerprintOf(clientCiphertext) })
  await api.mpc.storeShare({
    walletId,
    holder,
    index,
    threshold,
    total,
    generation,
    scheme: SCHEME,
    curve: 'ed25519',
    commitments: sharing.commitments.map(toHex),
    clientCiphertext,
    proof: toHex(proof),
  })
}

/**
 * Gets a stored share. `open` opens the ciphertext (`openProtected`). Checks the share against its commitments, and
 * these against the wallet's key. @throws ShareError share_invalid, and the errors of `open` and of the calls
 */
export async function loadHeldShare(
  api: ShareApi,
  of: { walletId: string; publicKey: string; index: number },
  open: (ciphertext: ClientCiphertext, context: ProtectionContext) => Promise<Share>,
): Promise<HeldShare> {
  const { walletId, publicKey, index } = of
  const { shares } = await api.mpc.getShares(walletId)
  const found = shares.find((share) => share.index === index && share.clientCiphertext !== null)
  if (found === undefined) throw new ShareError('share_invalid', 'No protected share is stored at this index.', [index])
  const { generation, holder, threshold, total, commitments } = found
  const context = { walletId, generation, publicKey, index }
  const share = await open(found.clientCiphertext as ClientCiphertext, context)
  const sharing = { threshold, total, commitments: commitments.map(fromHex) }
  if (commitments[0] !== publicKey || !isShareOf(sharing, share))
    throw new ShareError('share_invalid', 'The stored value is not a share of this key.', [index])
  return { walletId, publicKey, generation, holder, share, sharing }
}
