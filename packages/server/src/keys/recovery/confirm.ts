import type { Db } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import { publish } from '../../platform/events/events.ts'
import { failures, notFoundField } from '../../platform/http/errors.ts'
import { isSignedBy } from '../../platform/ports/signature.ts'
import { open } from '../../platform/security/crypto.ts'
import * as threshold from '../../platform/security/threshold/threshold.ts'
import {
  addShare,
  endShares,
  isProven,
  shareInvalid,
  sharesOf,
  toShare,
  verifyingSharesOf,
} from '../../wallets/custody/service.ts'
import type { Call } from '../../wallets/wallets/service.ts'
import { activateProven, setGeneration, walletEvent } from '../../wallets/wallets/service.ts'
import { findRecoverable, type KeyWallet, lockRecoverable, NOTHING, type With } from './attempt.ts'
import { subjectOf } from './challenge.ts'
import { RECOVERY_ERRORS } from './errors.ts'
import { requireProofs } from './proof.ts'
import { requireShared, resharingSeal } from './reshare.ts'
import type { Recovery } from './schema.ts'
import * as store from './store.ts'

const fail = failures(RECOVERY_ERRORS)

const { server, device, recovery } = threshold.HOLDER_INDEX

type Confirm = With<'reshareId' | 'signature' | 'proofs'>

/** The wallet's last resharing, if it is this one and can be confirmed, or was. @throws not_found, reshare_expired */
async function findOwn(db: Db, deps: Deps, wallet: KeyWallet, id: string): Promise<store.ResharingRow> {
  const row = await store.findResharing(db, { tenantId: wallet.tenant_id, walletId: wallet.id })
  if (row?.id !== id) throw notFoundField('reshareId')
  if (row.confirmed_at === null && (row.expires_at <= deps.now() || row.generation !== wallet.generation))
    throw fail('reshare_expired')
  return row
}

const sharingOf = ({ commitments }: store.ResharingRow): threshold.Sharing => ({
  ...threshold.SHARED_SIGNERS,
  commitments,
})

/** That all new shares are known to whom they are for. @throws share_invalid, shares_insufficient */
async function requireConfirmed(
  deps: Deps,
  wallet: KeyWallet,
  row: store.ResharingRow,
  { signature, proofs }: Confirm,
): Promise<Buffer[]> {
  if (!isSignedBy(wallet.public_key, row.transcript, Buffer.from(signature, 'hex')))
    throw shareInvalid('signature', "Is not the key's signature over the transcript, by the new shares 1 and 2.", [
      device,
    ])
  const verifyingShares = await verifyingSharesOf(deps, sharingOf(row), wallet.public_key)
  const others = proofs.filter(({ index }) => index !== recovery).map(({ index }) => index)
  if (others.length > 0)
    throw shareInvalid('proofs', 'Must be of share 3 alone: the signature is for the others.', others)
  const subject = subjectOf(wallet, row.generation, row.challenge_id)
  const transcript = row.transcript.toString('hex')
  const isRight = ({ index, proof, key }: { index: number; proof: string; key: Buffer }) =>
    isProven(proof, key, 'reshare-confirm', subject, { index, transcript })
  requireProofs({ needed: 1, verifyingShares, isRight }, proofs)
  return verifyingShares
}

/** Puts the new shares in the place of the old ones, of which nothing is kept. */
async function switchShares(tx: Db, deps: Deps, row: store.ResharingRow, verifyingShares: Buffer[]): Promise<void> {
  const of = { tenantId: row.tenant_id, walletId: row.wallet_id }
  await endShares(tx, deps.now(), { ...of, generations: [row.generation], status: 'superseded' })
  if (row.share_sealed === null) throw fail('reshare_expired')
  const scalar = await open(deps.keys, row.share_sealed, resharingSeal(row))
  try {
    for (const index of [server, device, recovery])
      await addShare(tx, deps, {
        ...of,
        generation: row.generation + 1,
        index,
        holder: threshold.INDEX_HOLDER[index] as threshold.Holder,
        sharing: sharingOf(row),
        verifyingShare: verifyingShares[index - 1] as Buffer,
        status: 'active',
        kept: index === server ? { scalar } : null,
      })
  } finally {
    scalar.fill(0)
  }
  await store.finishResharing(tx, deps.now(), row)
}

async function answerOf(tx: Db, wallet: KeyWallet, row: store.ResharingRow): Promise<Recovery> {
  const generation = row.generation + 1
  const shares = await sharesOf(tx, wallet.tenant_id, wallet.id)
  return {
    ...NOTHING,
    ...threshold.SHARED_SIGNERS,
    mode: 'reshare',
    walletId: wallet.id,
    publicKey: wallet.public_key.toString('hex'),
    generation,
    commitments: row.commitments.map(threshold.toHex),
    reshareId: row.id,
    transcriptHash: row.transcript.toString('hex'),
    shares: shares.filter((share) => share.generation === generation).map(toShare),
  }
}

/**
 * Ends a resharing: the new shares sign together, and from here on they alone count. Asked again it answers the same; of
 * any number that ask at once one makes the change.
 * @throws what `findRecoverable` does, custody_unsupported, not_found (names `reshareId`), reshare_expired, share_invalid,
 * shares_insufficient
 */
export async function confirmReshare(deps: Deps, call: Call, input: Confirm): Promise<Recovery> {
  const { caller, origin } = call
  const wallet = await findRecoverable(deps, call, input.walletId)
  requireShared(wallet)
  const begun = await findOwn(deps.db, deps, wallet, input.reshareId)
  const verifyingShares = await requireConfirmed(deps, wallet, begun, input)
  return deps.db.tx(async (tx) => {
    const locked = await lockRecoverable(tx, deps, call, wallet.id)
    const row = await findOwn(tx, deps, locked, input.reshareId)
    if (row.confirmed_at !== null) return answerOf(tx, locked, row)
    await switchShares(tx, deps, row, verifyingShares)
    const after = await setGeneration(tx, deps, locked, row.generation + 1)
    await activateProven(tx, deps, after, { caller, origin })
    await publish(tx, deps, walletEvent(locked, 'key.recovered', { caller, origin }, { mode: 'reshare' }))
    await deps.failpoint('reshared')
    return answerOf(tx, locked, row)
  })
}
