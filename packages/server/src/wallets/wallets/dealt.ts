import type { Db } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import { failures } from '../../platform/http/errors.ts'
import * as threshold from '../../platform/security/threshold/threshold.ts'
import { addShare, isProven, openFromClient, shareInvalid, verifyingSharesOf } from '../custody/service.ts'
import type { Call } from './access.ts'
import { WALLET_ERRORS } from './errors.ts'
import type { CreateWallet } from './schema.ts'
import type { WalletRow } from './store.ts'

const fail = failures(WALLET_ERRORS)

const { server, device } = threshold.HOLDER_INDEX

/** A key that a client has split: what is to be kept of it. */
export interface Dealt {
  shared: { keyOrigin: 'client_dealt'; threshold: number; total: number; proven: boolean }
  sharing: threshold.Sharing
  verifyingShares: Buffer[]
  /** The service's share. */
  scalar: Uint8Array
  /** Of which shares it is shown that the user knows them. */
  proven: number[]
}

/** @throws validation_failed, share_invalid (name `proofs`) */
function provenShares(
  subject: threshold.Subject,
  { proofs = [], publicKey = '' }: CreateWallet,
  verifyingShares: readonly Buffer[],
): number[] {
  const indices = proofs.map(({ index }) => index)
  if (new Set(indices).size !== indices.length || indices.includes(server))
    throw fail('validation_failed', [
      { field: 'proofs', code: 'invalid', message: 'Must be of share 2, and of share 3, each once.' },
    ])
  const wrong = proofs.filter(({ index, proof }) => {
    const key = verifyingShares[index - 1]
    return key === undefined || !isProven(proof, key, 'create-wallet', subject, { index, publicKey })
  })
  if (wrong.length > 0)
    throw shareInvalid(
      'proofs',
      'These do not show that the shares are known.',
      wrong.map(({ index }) => index),
    )
  return indices
}

/** Checks what a client has split before anything is stored. @throws validation_failed, seal_invalid, share_invalid */
export async function dealtOf(deps: Deps, { caller, user }: Call, input: CreateWallet): Promise<Dealt> {
  const { commitments = [], sealed, publicKey = '', challengeId = null } = input
  const { threshold: needed, total } = threshold.SHARED_SIGNERS
  if (commitments.length !== needed)
    throw fail('validation_failed', [
      { field: 'commitments', code: 'invalid', message: `Must have ${needed} entries: two of three shares sign.` },
    ])
  const sharing = { threshold: needed, total, commitments: commitments.map((point) => Buffer.from(point, 'hex')) }
  const verifyingShares = await verifyingSharesOf(deps, sharing, Buffer.from(publicKey, 'hex'))
  const { tenantId } = caller
  const subject = { tenantId, appId: user.appId, userId: user.id, walletId: null, generation: 1, challengeId }
  const proven = provenShares(subject, input, verifyingShares)
  if (sealed === undefined) throw new Error('a dealt key came without a share')
  const scalar = await openFromClient(deps.db, deps, sealed, {
    purpose: 'store-share',
    contextOf: (recipientKey) => threshold.shareContext(subject, { index: server, holder: 'server', recipientKey }),
    field: 'sealed',
  })
  if (!(await deps.threads.run('isShareOf', sharing, { index: server, scalar })))
    throw shareInvalid('sealed', 'Is not share 1 of these commitments.', [server])
  const shared = { keyOrigin: 'client_dealt', threshold: needed, total, proven: proven.includes(device) } as const
  return { shared, sharing, verifyingShares, scalar, proven }
}

/** Stores the shares of a new wallet: the service's, and what is known of the user's. */
export async function storeDealt(tx: Db, deps: Deps, wallet: WalletRow, dealt: Dealt): Promise<void> {
  const { sharing, verifyingShares, scalar, proven } = dealt
  const common = { tenantId: wallet.tenant_id, walletId: wallet.id, generation: 1, sharing, status: 'active' as const }
  for (const index of [server, ...proven])
    await addShare(tx, deps, {
      ...common,
      index,
      holder: threshold.INDEX_HOLDER[index] as threshold.Holder,
      verifyingShare: verifyingShares[index - 1] as Buffer,
      kept: index === server ? { scalar } : null,
    })
}
