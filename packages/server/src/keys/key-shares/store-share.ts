import type { Db } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import { publish } from '../../platform/events/events.ts'
import { failures, type HttpError, invalid } from '../../platform/http/errors.ts'
import * as threshold from '../../platform/security/threshold/threshold.ts'
import type { KeyShare } from '../../wallets/custody/schema.ts'
import {
  addShare,
  attachCiphertext,
  type ClientCiphertext,
  isProven,
  isStored,
  openFromClient,
  type ShareRow,
  shareInvalid,
  sharesOf,
  toShare,
  verifyingSharesOf,
} from '../../wallets/custody/service.ts'
import type { Call, WalletRow } from '../../wallets/wallets/service.ts'
import { activateProven, recordSharing, walletEvent } from '../../wallets/wallets/service.ts'
import { GENERATIONS_MAX, KEY_SHARE_ERRORS, RECORDS_MAX } from './errors.ts'
import { isLive, lockedWallet, ownWallet, requireRoom } from './own-wallet.ts'
import type { StoreShare } from './schema.ts'
import { checkWraps } from './wraps.ts'

const fail = failures(KEY_SHARE_ERRORS)

const { server, device } = threshold.HOLDER_INDEX

/** A share as it was sent: for the service to open, or not. */
type Sent =
  | { sealed: NonNullable<StoreShare['sealed']> }
  | { ciphertext: NonNullable<StoreShare['clientCiphertext']>; proof: string }

const detail = (field: string, code: string, message: string) => ({ field, code, message })

/** @throws validation_failed */
function sentOf({ sealed, clientCiphertext: ciphertext, proof }: StoreShare): Sent {
  if (sealed !== undefined && ciphertext === undefined) {
    if (proof !== undefined) throw invalid('proof', 'Is not for a share that the service opens.', 'not_allowed')
    return { sealed }
  }
  if (sealed !== undefined)
    throw invalid('clientCiphertext', 'Send either "sealed" or "clientCiphertext".', 'not_allowed')
  if (ciphertext === undefined) throw invalid('sealed', 'Send either "sealed" or "clientCiphertext".', 'required')
  if (proof === undefined) throw invalid('proof', '"proof" is required with "clientCiphertext".', 'required')
  checkWraps(ciphertext.alg, ciphertext.wraps, 'clientCiphertext.wraps')
  return { ciphertext, proof }
}

/** @throws validation_failed where these numbers can't be */
function checkNumbers({ index, threshold: needed, total, commitments }: StoreShare): void {
  const wrong = [
    ...(needed > total ? [detail('threshold', 'invalid', 'Must be at most "total".')] : []),
    ...(index > total ? [detail('index', 'invalid', 'Must be at most "total".')] : []),
    ...(commitments.length === needed
      ? []
      : [detail('commitments', 'invalid', 'Must have as many entries as "threshold" says.')]),
  ]
  if (wrong.length > 0) throw fail('validation_failed', wrong)
}

const violation = (): HttpError =>
  fail('custody_violation', [
    {
      code: 'custody_violation',
      message:
        'Of this wallet the service holds share 1. Another one that it could open, or that a password protects and so can be guessed, would let it sign alone.',
    },
  ])

/** What a `shared` wallet fixes. @throws validation_failed, custody_violation */
function checkShared(input: StoreShare, sent: Sent): void {
  const fixed: [keyof StoreShare, unknown][] = [
    ['threshold', threshold.SHARED_SIGNERS.threshold],
    ['total', threshold.SHARED_SIGNERS.total],
    ['holder', threshold.INDEX_HOLDER[input.index]],
  ]
  const wrong = fixed
    .filter(([field, value]) => input[field] !== value)
    .map(([field, value]) => detail(field, 'invalid', `Must be ${value} here.`))
  if (wrong.length > 0) throw fail('validation_failed', wrong)
  if (input.index === server && 'ciphertext' in sent)
    throw invalid('clientCiphertext', 'Share 1 is the service’s: it must be able to open it.', 'not_allowed')
  if (input.index !== server && ('sealed' in sent || sent.ciphertext.alg === 'argon2id-aes256gcm')) throw violation()
}

/** A share that was checked against its commitments. */
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
      throw shareInvalid('proof', 'Does not show that the share is known, with this ciphertext.', [index])
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
  throw shareInvalid('sealed', `Is not share ${index} of these commitments.`, [index])
}

const sameSharing = (row: ShareRow, { threshold: needed, total, commitments }: threshold.Sharing) =>
  row.threshold === needed &&
  row.total === total &&
  commitments.length === row.commitments.length &&
  row.commitments.every((point, at) => point.equals(commitments[at] as Uint8Array))

const mismatch = (field: string, message: string) =>
  fail('share_invalid', [{ field, code: 'share_invalid', message, indices: [] }])

/**
 * That a share fits what is there of its generation, deleted or not: one polynomial a generation, and no polynomial in two
 * of them, where shares that are few in each would make the key together. @throws share_invalid, share_limit
 */
function checkGeneration(wallet: WalletRow, rows: readonly ShareRow[], { generation, sharing }: Checked): void {
  if (wallet.custody === 'shared' && generation !== wallet.generation)
    throw mismatch('generation', `The wallet's shares are of generation ${wallet.generation}.`)
  const beside = rows.filter((row) => row.generation === generation)
  if (beside.some((row) => !sameSharing(row, sharing)))
    throw mismatch(
      'commitments',
      `Generation ${generation} has other ones, or another threshold or total; a new sharing is another generation.`,
    )
  const { total } = sharing
  const elsewhere = rows.find((row) => row.generation !== generation && sameSharing({ ...row, total }, sharing))
  if (elsewhere !== undefined)
    throw mismatch('commitments', `These are the ones of generation ${elsewhere.generation}.`)
  const generations = new Set(rows.map((row) => row.generation))
  if (beside.length === 0 && generations.size >= GENERATIONS_MAX) throw fail('share_limit')
}

/** @throws share_invalid, share_limit, already_exists, custody_violation */
async function put(tx: Db, deps: Deps, wallet: WalletRow, input: StoreShare, checked: Checked): Promise<ShareRow> {
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
  return addShare(tx, deps, { ...checked, tenantId, walletId, index, holder, status: 'active' })
}

/**
 * Stores a share of the current user's key: one that the service can open and has checked, or one as the client encrypted
 * it, whose sender has proven to know it. What others hold already, and was only proven, gets the ciphertext.
 * @throws not_found (names `walletId`), validation_failed, custody_unsupported, user_session_required, seal_invalid,
 * share_invalid, already_exists, custody_violation, share_limit
 */
export async function storeShare(deps: Deps, call: Call, input: StoreShare): Promise<KeyShare> {
  const known = await ownWallet(deps, call, input.walletId, 'body')
  const sent = sentOf(input)
  checkNumbers(input)
  if (known.custody === 'shared') checkShared(input, sent)
  const checked = await check(deps, call, known, input, sent)
  try {
    return await deps.db.tx(async (tx) => {
      const wallet = await lockedWallet(tx, deps, call, input.walletId, 'body')
      const row = await put(tx, deps, wallet, input, checked)
      const { index, holder, generation } = row
      const cause = { caller: call.caller, origin: call.origin }
      await publish(tx, deps, walletEvent(wallet, 'key_share.stored', cause, { holder, index, generation }))
      if (wallet.custody === 'self_custody') await recordSharing(tx, deps, wallet, row)
      else if (index === device) await activateProven(tx, deps, wallet, cause)
      return toShare(row)
    })
  } finally {
    if ('scalar' in checked.kept) checked.kept.scalar.fill(0)
  }
}
