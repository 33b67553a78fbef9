import type { Db } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import { publish } from '../../platform/events/events.ts'
import { invalid } from '../../platform/http/errors.ts'
import * as threshold from '../../platform/security/threshold/threshold.ts'
import type { KeyShare } from '../../wallets/custody/schema.ts'
import {
  addShare,
  attachCiphertext,
  type ClientCiphertext,
  isLive,
  isProven,
  isStored,
  openFromClient,
  type ShareRow,
  shareInvalid,
  sharesOf,
  toShare,
  verifyingSharesOf,
} from '../../wallets/custody/service.ts'
import { activateProven, type Call, recordSharing, type WalletRow, walletEvent } from '../../wallets/wallets/service.ts'
import { fail, GENERATIONS_MAX, RECORDS_MAX } from './errors.ts'
import { findWallet, lockWallet, requireRoom } from './own-wallet.ts'
import type { StoreShare } from './schema.ts'
import { checkWraps } from './wraps.ts'

const { server, device } = threshold.HOLDER_INDEX

/** A share as it was sent: sealed for the service, or encrypted by the client. */
type Sent =
  | { sealed: NonNullable<StoreShare['sealed']> }
  | { ciphertext: NonNullable<StoreShare['clientCiphertext']>; proof: string }

const detail = (field: string, code: string, message: string) => ({ field, code, message })

/** @throws validation_failed */
function readSent({ sealed, clientCiphertext: ciphertext, proof }: StoreShare): Sent {
  if (sealed !== undefined && ciphertext === undefined) {
    if (proof !== undefined) throw invalid('proof', 'Must be absent for a share that the service opens.', 'not_allowed')
    return { sealed }
  }
  if (sealed !== undefined)
    throw invalid('clientCiphertext', 'Send either "sealed" or "clientCiphertext".', 'not_allowed')
  if (ciphertext === undefined) throw invalid('sealed', 'Send either "sealed" or "clientCiphertext".', 'required')
  if (proof === undefined) throw invalid('proof', '"proof" is required with "clientCiphertext".', 'required')
  checkWraps(ciphertext.alg, ciphertext.wraps, 'clientCiphertext.wraps')
  return { ciphertext, proof }
}

/** @throws validation_failed if the numbers contradict each other */
function checkNumbers({ index, threshold: needed, total, commitments }: StoreShare): void {
  const wrong = [
    ...(needed > total ? [detail('threshold', 'invalid', 'Must be at most "total".')] : []),
    ...(index > total ? [detail('index', 'invalid', 'Must be at most "total".')] : []),
    ...(commitments.length === needed
      ? []
      : [detail('commitments', 'invalid', 'Must have as many entries as "threshold".')]),
  ]
  if (wrong.length > 0) throw fail('validation_failed', wrong)
}

const VIOLATION =
  'The service has share 1 of this wallet. It could sign alone if it could open another share, or if a password protected another share, because a password can be guessed.'

/** The rules of a `shared` wallet. @throws validation_failed, custody_violation */
function checkShared(input: StoreShare, sent: Sent): void {
  const fixed: [keyof StoreShare, unknown][] = [
    ['threshold', threshold.SHARED_SIGNERS.threshold],
    ['total', threshold.SHARED_SIGNERS.total],
    ['holder', threshold.INDEX_HOLDER[input.index]],
  ]
  const wrong = fixed
    .filter(([field, value]) => input[field] !== value)
    .map(([field, value]) => detail(field, 'invalid', `Must be ${value} for this wallet.`))
  if (wrong.length > 0) throw fail('validation_failed', wrong)
  if (input.index === server && 'ciphertext' in sent)
    throw invalid(
      'clientCiphertext',
      'Must be absent for share 1, because the service must be able to open it. Send "sealed".',
      'not_allowed',
    )
  if (input.index !== server && ('sealed' in sent || sent.ciphertext.alg === 'argon2id-aes256gcm'))
    throw fail('custody_violation', [{ code: 'custody_violation', message: VIOLATION }])
}

/** A share, checked against its commitments. */
interface Checked {
  generation: number
  sharing: threshold.Sharing
  verifyingShare: Buffer
  kept: { scalar: Uint8Array } | { ciphertext: ClientCiphertext }
}

/** Checks everything about a share that needs no lock. @throws validation_failed, seal_invalid, share_invalid */
async function check(deps: Deps, call: Call, wallet: WalletRow, input: StoreShare, sent: Sent): Promise<Checked> {
  const { index, holder } = input
  const generation = input.generation ?? wallet.generation ?? 1
  const sharing = {
    threshold: input.threshold,
    total: input.total,
    commitments: input.commitments.map((point) => Buffer.from(point, 'hex')),
  }
  const verifyingShares = await verifyingSharesOf(deps, sharing, wallet.public_key ?? Buffer.alloc(0))
  const verifyingShare = verifyingShares[index - 1] as Buffer
  const subject: threshold.Subject = {
    tenantId: wallet.tenant_id,
    appId: wallet.app_id,
    userId: call.user.id,
    walletId: wallet.id,
    generation,
    challengeId: null,
  }
  if ('ciphertext' in sent) {
    const { ciphertext, proof } = sent
    const details = { index, holder, ciphertext: threshold.fingerprintOf(ciphertext) }
    if (!isProven(proof, verifyingShare, 'store-share', subject, details))
      throw shareInvalid('proof', 'The proof is not valid for this share and this ciphertext.', [input])
    return { generation, sharing, verifyingShare, kept: { ciphertext } }
  }
  const scalar = await openFromClient(deps.db, deps, sent.sealed, {
    purpose: 'store-share',
    contextOf: (recipientKey) => threshold.shareContext(subject, { index, holder, recipientKey }),
    field: 'sealed',
  })
  if (await deps.threads.run('isShareOf', sharing, { index, scalar }))
    return { generation, sharing, verifyingShare, kept: { scalar } }
  scalar.fill(0)
  throw shareInvalid('sealed', `Must be share ${index} of these commitments.`, [input])
}

const sameSharing = (row: ShareRow, { threshold: needed, total, commitments }: threshold.Sharing) =>
  row.threshold === needed &&
  row.total === total &&
  commitments.length === row.commitments.length &&
  row.commitments.every((point, at) => point.equals(commitments[at] as Uint8Array))

/**
 * Checks a share against the records of its generation, including deleted ones. Each generation has one polynomial, and no
 * polynomial is used in two: too few shares of each generation could together make the key. @throws share_invalid, share_limit
 */
function checkGeneration(wallet: WalletRow, rows: readonly ShareRow[], { generation, sharing }: Checked): void {
  if (wallet.custody === 'shared' && generation !== wallet.generation)
    throw shareInvalid('generation', `Must be ${wallet.generation}, the current generation of the wallet's shares.`, [])
  const beside = rows.filter((row) => row.generation === generation)
  if (beside.some((row) => !sameSharing(row, sharing)))
    throw shareInvalid(
      'commitments',
      `Generation ${generation} has other commitments, or another threshold or total. Use a new generation for a new sharing.`,
      [],
    )
  const { total } = sharing
  const elsewhere = rows.find((row) => row.generation !== generation && sameSharing({ ...row, total }, sharing))
  if (elsewhere !== undefined)
    throw shareInvalid('commitments', `These commitments belong to generation ${elsewhere.generation}.`, [])
  const generations = new Set(rows.map((row) => row.generation))
  if (beside.length === 0 && generations.size >= GENERATIONS_MAX) throw fail('share_limit')
}

/** @throws share_invalid, share_limit, already_exists, custody_violation */
async function addOrAttach(
  tx: Db,
  deps: Deps,
  wallet: WalletRow,
  input: StoreShare,
  checked: Checked,
): Promise<ShareRow> {
  const rows = await sharesOf(tx, wallet.tenant_id, wallet.id)
  checkGeneration(wallet, rows, checked)
  const { generation, kept } = checked
  if ('ciphertext' in kept) requireRoom(rows, kept.ciphertext)
  const there = rows.find((row) => isLive(row) && row.generation === generation && row.index === input.index)
  if (there !== undefined && !isStored(there) && 'ciphertext' in kept)
    return attachCiphertext(tx, deps, there, kept.ciphertext)
  if (there === undefined && rows.length >= RECORDS_MAX) throw fail('share_limit')
  const { id: walletId, tenant_id: tenantId } = wallet
  const { index, holder } = input
  return addShare(tx, deps, { ...checked, tenantId, walletId, custody: wallet.custody, index, holder })
}

/**
 * Stores a share of the current user's key: one that the service can open and has checked, or one that the client encrypted
 * and has proven to know. A record that was only proven so far gets the ciphertext.
 * @throws not_found (names `walletId`), validation_failed, custody_unsupported, user_session_required, seal_invalid,
 * share_invalid, already_exists, custody_violation, share_limit
 */
export async function storeShare(deps: Deps, call: Call, input: StoreShare): Promise<KeyShare> {
  const known = await findWallet(deps, call, input.walletId, 'body')
  const sent = readSent(input)
  checkNumbers(input)
  if (known.custody === 'shared') checkShared(input, sent)
  const checked = await check(deps, call, known, input, sent)
  try {
    return await deps.db.tx(async (tx) => {
      const wallet = await lockWallet(tx, deps, call, input.walletId, 'body')
      const row = await addOrAttach(tx, deps, wallet, input, checked)
      const { index, holder, generation } = row
      await publish(tx, deps, walletEvent(wallet, 'key_share.stored', call, { holder, index, generation }))
      if (wallet.custody === 'self_custody') await recordSharing(tx, deps, wallet, row)
      else if (index === device) await activateProven(tx, deps, wallet, call)
      return toShare(row)
    })
  } finally {
    if ('scalar' in checked.kept) checked.kept.scalar.fill(0)
  }
}
