import { requireOwnStepUp } from '../../identity/sessions/service.ts'
import type { Db } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import { publish } from '../../platform/events/events.ts'
import * as threshold from '../../platform/security/threshold/threshold.ts'
import type { SealedToClient } from '../../wallets/custody/schema.ts'
import {
  encryptionKeyBytes,
  isLive,
  openShare,
  type ShareRow,
  sealToClient,
  sharesOf,
  toShare,
  touchShare,
} from '../../wallets/custody/service.ts'
import { type Call, type WalletRow, walletEvent } from '../../wallets/wallets/service.ts'
import { fail } from './errors.ts'
import { currentGeneration, findWallet, lockWallet } from './own-wallet.ts'
import type { ReadShares, Shares } from './schema.ts'

const FIELD = 'recipient_public_key'

/** The service's own share may be read this way. @throws custody_violation, wallet_frozen */
function checkReadable(wallet: WalletRow, { recipient_public_key: recipient }: ReadShares): void {
  if (recipient === undefined) return
  if (wallet.custody === 'shared') {
    const message =
      'The service’s share of a shared wallet is released only by POST /mpc/recover (mode release), with a proof of another share.'
    throw fail('custody_violation').about(FIELD, message)
  }
  if (wallet.frozen_at !== null) throw fail('wallet_frozen')
}

/** The service's share, sealed to the caller's key. @throws validation_failed (names `recipient_public_key`) */
async function sealedFor(deps: Deps, wallet: WalletRow, row: ShareRow, recipient: Buffer): Promise<SealedToClient> {
  const subject: threshold.Subject = {
    tenantId: wallet.tenant_id,
    appId: wallet.app_id,
    userId: wallet.user_id,
    walletId: wallet.id,
    generation: row.generation,
    challengeId: null,
  }
  const of = { index: row.index, holder: row.holder, recipientKey: recipient.toString('hex') }
  const { scalar } = await openShare(deps, row, wallet.custody)
  try {
    const context = threshold.shareContext(subject, of)
    return await sealToClient(recipient, { purpose: 'read-share', context, field: FIELD }, scalar)
  } finally {
    scalar.fill(0)
  }
}

/** One share as it is returned. If the share itself is returned, this is recorded and published. */
async function readShare(tx: Db, deps: Deps, call: Call, wallet: WalletRow, row: ShareRow, recipient: Buffer | null) {
  const sealed = recipient !== null && row.share_sealed !== null ? await sealedFor(deps, wallet, row, recipient) : null
  const clientCiphertext = row.client_ciphertext
  if (sealed === null && clientCiphertext === null) return { ...toShare(row), clientCiphertext, sealed }
  const given = { ...row, last_used_at: deps.now() }
  await touchShare(tx, given)
  const { holder, index, generation } = row
  await publish(tx, deps, walletEvent(wallet, 'key_share.retrieved', call, { holder, index, generation }))
  return { ...toShare(given), clientCiphertext, sealed }
}

/**
 * The current user's shares of one generation.
 * @throws not_found, custody_unsupported, user_session_required, what `requireOwnStepUp` throws, custody_violation, wallet_frozen,
 * validation_failed
 */
export async function readShares(deps: Deps, call: Call, id: string, query: ReadShares): Promise<Shares> {
  await findWallet(deps, call, id, 'path')
  await requireOwnStepUp(deps, call.caller, call.user)
  return deps.db.tx(async (tx) => {
    const wallet = await lockWallet(tx, deps, call, id, 'path')
    const rows = await sharesOf(tx, wallet.tenant_id, wallet.id)
    const generation = query.generation === undefined ? currentGeneration(wallet, rows) : Number(query.generation)
    const live = rows.filter((row) => isLive(row) && row.generation === generation)
    const [first] = live
    if (first === undefined) throw fail('not_found')
    checkReadable(wallet, query)
    const key = query.recipient_public_key
    const recipient = key === undefined ? null : encryptionKeyBytes(key)
    const shares: Shares['shares'] = []
    for (const row of live) shares.push(await readShare(tx, deps, call, wallet, row, recipient))
    const { threshold: needed, total } = first
    return { walletId: wallet.id, generation: first.generation, threshold: needed, total, shares }
  })
}
