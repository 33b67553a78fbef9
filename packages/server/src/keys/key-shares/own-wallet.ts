import type { Db } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import { failures, type HttpError, notFoundField } from '../../platform/http/errors.ts'
import type { ClientCiphertext, ShareRow } from '../../wallets/custody/service.ts'
import type { WalletRow } from '../../wallets/wallets/service.ts'
import { type Call, findOwnWallet, lockOwnWallet, requireOwnSession } from '../../wallets/wallets/service.ts'
import { CIPHERTEXT_BYTES_MAX, KEY_SHARE_ERRORS } from './errors.ts'

const fail = failures(KEY_SHARE_ERRORS)

/** Where a wallet's id came from: what a 404 for another one says depends on it. */
export type IdIn = 'path' | 'body'

const notFound = (where: IdIn): HttpError => (where === 'path' ? fail('not_found') : notFoundField('walletId'))

/** @throws custody_unsupported where the key is not one that can have shares */
function requireOwnKey(row: WalletRow): void {
  if (row.custody !== 'embedded') return
  const message = 'The key of an embedded wallet is the service’s own; there are no shares of it.'
  throw fail('custody_unsupported', [{ field: 'walletId', code: 'custody_unsupported', message }])
}

/**
 * The current user's wallet, whose key is theirs in whole or in part, for a call that touches it.
 * @throws not_found, custody_unsupported, user_session_required
 */
export async function ownWallet(deps: Deps, call: Omit<Call, 'origin'>, id: string, where: IdIn): Promise<WalletRow> {
  const row = await findOwnWallet(deps.db, call, id)
  if (row === undefined) throw notFound(where)
  requireOwnKey(row)
  await requireOwnSession(deps, call)
  return row
}

/** The same wallet, locked with its user until the transaction ends. @throws not_found, and what `hold` does */
export async function lockedWallet(
  tx: Db,
  deps: Deps,
  call: Omit<Call, 'origin'>,
  id: string,
  where: IdIn,
): Promise<WalletRow> {
  const row = await lockOwnWallet(tx, deps, call, id)
  if (row === undefined) throw notFound(where)
  return row
}

/** Whether a share counts: it has not been superseded or deleted. */
export const isLive = (row: ShareRow) => row.status === 'pending' || row.status === 'active'

/** The generation that counts today: a `shared` wallet's; of a wallet in self-custody the highest with live shares. */
export function currentGeneration(wallet: WalletRow, rows: readonly ShareRow[]): number | null {
  if (wallet.custody === 'shared') return wallet.generation
  const live = rows.filter(isLive).map(({ generation }) => generation)
  return live.length === 0 ? null : Math.max(...live)
}

const bytesOf = (ciphertext: ClientCiphertext | null) => (ciphertext === null ? 0 : JSON.stringify(ciphertext).length)

/** That there is room for a ciphertext beside those of other shares of its wallet. @throws share_limit */
export function requireRoom(others: readonly ShareRow[], ciphertext: ClientCiphertext): void {
  const kept = others.reduce((sum, { client_ciphertext: each }) => sum + bytesOf(each), 0)
  if (kept + bytesOf(ciphertext) > CIPHERTEXT_BYTES_MAX) throw fail('share_limit')
}
