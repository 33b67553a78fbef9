import type { Db } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import { publish } from '../../platform/events/events.ts'
import { notFoundField } from '../../platform/http/errors.ts'
import { isSignedBy } from '../../platform/ports/signature.ts'
import { open } from '../../platform/security/crypto.ts'
import * as threshold from '../../platform/security/threshold/threshold.ts'
import {
  addSharing,
  confirmResharing,
  endShares,
  findResharing,
  isProven,
  type ResharingRow,
  shareInvalid,
  sharesOf,
  toShare,
  verifyingSharesOf,
} from '../../wallets/custody/service.ts'
import { activateProven, type Call, setGeneration, walletEvent } from '../../wallets/wallets/service.ts'
import { findRecoverable, lockRecoverable } from './attempt.ts'
import { type KeyWallet, subjectOf } from './challenge.ts'
import { fail } from './errors.ts'
import { replyOf, type With } from './messages.ts'
import { requireShared, resharingSeal } from './reshare.ts'
import type { Recovery } from './schema.ts'
import { requireProofs } from './shares.ts'

const { server, device, recovery } = threshold.HOLDER_INDEX

type Confirm = With<'reshareId' | 'signature' | 'proofs'>

/** The wallet's latest resharing, if it is this one, and is confirmed or can be. @throws not_found, reshare_expired */
async function findOwn(db: Db, deps: Deps, wallet: KeyWallet, id: string): Promise<ResharingRow> {
  const row = await findResharing(db, { tenantId: wallet.tenant_id, walletId: wallet.id })
  if (row?.id !== id) throw notFoundField('reshareId')
  if (row.confirmed_at === null && (row.expires_at <= deps.now() || row.generation !== wallet.generation))
    throw fail('reshare_expired')
  return row
}

const sharingOf = ({ commitments }: ResharingRow): threshold.Sharing => ({
  ...threshold.SHARED_SIGNERS,
  commitments,
})

/** The holders know all new shares. @returns the public keys of the shares. @throws share_invalid, shares_insufficient */
async function requireConfirmed(
  deps: Deps,
  wallet: KeyWallet,
  row: ResharingRow,
  { signature, proofs }: Confirm,
): Promise<Buffer[]> {
  if (!isSignedBy(wallet.public_key, row.transcript, Buffer.from(signature, 'hex')))
    throw shareInvalid(
      'signature',
      "Must be a valid signature of the transcript by the wallet's key, made with the new shares 1 and 2.",
      [{ index: device }],
    )
  const verifyingShares = await verifyingSharesOf(deps, sharingOf(row), wallet.public_key)
  const others = proofs.filter(({ index }) => index !== recovery)
  if (others.length > 0)
    throw shareInvalid('proofs', 'Must have only the proof for share 3. The signature proves the others.', others)
  const subject = subjectOf(wallet, row.generation, row.challenge_id)
  const transcript = row.transcript.toString('hex')
  requireProofs(proofs, 1, verifyingShares, ({ index, proof, key }) =>
    isProven(proof, key, 'reshare-confirm', subject, { index, transcript }),
  )
  return verifyingShares
}

/** Replaces the old shares with the new ones, and destroys the old ones. */
async function switchShares(tx: Db, deps: Deps, row: ResharingRow, verifyingShares: Buffer[]): Promise<void> {
  const of = { tenantId: row.tenant_id, walletId: row.wallet_id }
  await endShares(tx, deps.now(), { ...of, generations: [row.generation], status: 'superseded' })
  if (row.share_sealed === null) throw fail('reshare_expired')
  const scalar = await open(deps.keys, row.share_sealed, resharingSeal(row))
  const indices = [server, device, recovery]
  try {
    const generation = row.generation + 1
    await addSharing(tx, deps, {
      ...of,
      custody: 'shared',
      generation,
      sharing: sharingOf(row),
      verifyingShares,
      indices,
      scalar,
    })
  } finally {
    scalar.fill(0)
  }
  await confirmResharing(tx, deps.now(), row)
}

async function answerOf(tx: Db, wallet: KeyWallet, row: ResharingRow): Promise<Recovery> {
  const generation = row.generation + 1
  const shares = await sharesOf(tx, wallet.tenant_id, wallet.id)
  return replyOf('reshare', wallet, generation, sharingOf(row), {
    reshareId: row.id,
    transcriptHash: row.transcript.toString('hex'),
    shares: shares.filter((share) => share.generation === generation).map(toShare),
  })
}

/**
 * Confirms a resharing: the new shares have signed together, and now only they are valid. A repeat gets the same
 * response; of concurrent calls one makes the change.
 * @throws what `findRecoverable` throws, custody_unsupported, not_found (names `reshareId`), reshare_expired, share_invalid,
 * shares_insufficient
 */
export async function confirmReshare(deps: Deps, call: Call, input: Confirm): Promise<Recovery> {
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
    await activateProven(tx, deps, after, call)
    await publish(tx, deps, walletEvent(locked, 'key.recovered', call, { mode: 'reshare' }))
    await deps.failpoint('reshared')
    return answerOf(tx, locked, row)
  })
}
