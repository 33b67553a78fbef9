import type { Deps } from '../../platform/deps.ts'
import { invalid } from '../../platform/http/errors.ts'
import * as threshold from '../../platform/security/threshold/threshold.ts'
import { isProven, openFromClient, shareInvalid, verifyingSharesOf } from '../custody/service.ts'
import type { Call } from './access.ts'
import type { CreateWallet } from './schema.ts'

const { server, device } = threshold.HOLDER_INDEX

/** A key that a client split, after all checks. */
export interface SplitKey {
  shared: { keyOrigin: 'client_dealt'; threshold: number; total: number; proven: boolean }
  sharing: threshold.Sharing
  verifyingShares: Buffer[]
  /** The service's share. Fill it with zeros after use. */
  scalar: Uint8Array
  /** The service's index, and those of the shares that the user has proven to know. */
  indices: number[]
}

/** The indices that the user has proven to know. @throws validation_failed, share_invalid (name `proofs`) */
function provenIndices(
  subject: threshold.Subject,
  { proofs = [], publicKey = '' }: CreateWallet,
  verifyingShares: readonly Buffer[],
): number[] {
  const indices = proofs.map(({ index }) => index)
  if (new Set(indices).size !== indices.length || indices.includes(server))
    throw invalid('proofs', 'Must have at most one proof for share 2 and one for share 3.')
  const wrong = proofs.filter(({ index, proof }) => {
    const key = verifyingShares[index - 1]
    return key === undefined || !isProven(proof, key, 'create-wallet', subject, { index, publicKey })
  })
  if (wrong.length > 0) throw shareInvalid('proofs', 'These proofs are not valid for the shares.', wrong)
  return indices
}

/** Checks a split key before anything is stored. @throws validation_failed, seal_invalid, share_invalid */
export async function readSplitKey(deps: Deps, { caller, user }: Call, input: CreateWallet): Promise<SplitKey> {
  const { commitments = [], sealed, publicKey = '', challengeId = null } = input
  const { threshold: needed, total } = threshold.SHARED_SIGNERS
  if (commitments.length !== needed)
    throw invalid('commitments', `Must have ${needed} entries, as many as the shares that sign together.`)
  const sharing = { threshold: needed, total, commitments: commitments.map((point) => Buffer.from(point, 'hex')) }
  const verifyingShares = await verifyingSharesOf(deps, sharing, Buffer.from(publicKey, 'hex'))
  const { tenantId } = caller
  const subject = { tenantId, appId: user.appId, userId: user.id, walletId: null, generation: 1, challengeId }
  const proven = provenIndices(subject, input, verifyingShares)
  if (sealed === undefined) throw new Error('a split key came without a share')
  const scalar = await openFromClient(deps.db, deps, sealed, {
    purpose: 'store-share',
    contextOf: (recipientKey) => threshold.shareContext(subject, { index: server, holder: 'server', recipientKey }),
    field: 'sealed',
  })
  if (!(await deps.threads.run('isShareOf', sharing, { index: server, scalar })))
    throw shareInvalid('sealed', 'Must be share 1 of these commitments.', [{ index: server }])
  const shared = { keyOrigin: 'client_dealt', threshold: needed, total, proven: proven.includes(device) } as const
  return { shared, sharing, verifyingShares, scalar, indices: [server, ...proven] }
}
