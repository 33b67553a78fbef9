import type { Db } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import { type HttpError, notFoundField } from '../../platform/http/errors.ts'
import { type ClientCiphertext, isLive, type ShareRow } from '../../wallets/custody/service.ts'
import {
  type Call,
  findOwnWallet,
  lockOwnWallet,
  requireOwnSession,
  type WalletRow,
} from '../../wallets/wallets/service.ts'
import { CIPHERTEXT_BYTES_MAX, fail } from './errors.ts'

/** Where a wallet's id came from. A 404 for an id in the body names the field. */
type IdIn = 'path' | 'body'

const notFound = (where: IdIn): HttpError => (where === 'path' ? fail('not_found') : notFoundField('walletId'))

/** @throws custody_unsupported for an embedded wallet, whose key has no shares */
function requireOwnKey(row: WalletRow): void {
  if (row.custody !== 'embedded') return
  const message = 'The key of an embedded wallet belongs to the service and has no shares.'
  throw fail('custody_unsupported').about('walletId', message)
}

/**
 * The current user's wallet, if the user has its key, alone or in part.
 * @throws not_found, custody_unsupported, user_session_required
 */
export async function findWallet(deps: Deps, call: Omit<Call, 'origin'>, id: string, where: IdIn): Promise<WalletRow> {
  const row = await findOwnWallet(deps.db, call, id)
  if (row === undefined) throw notFound(where)
  requireOwnKey(row)
  await requireOwnSession(deps, call)
  return row
}

/** The same wallet, locked with its user until the transaction ends. @throws not_found, and what `lockOwner` throws */
export async function lockWallet(
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

/** The current generation of a `shared` wallet; of a `self_custody` wallet, the newest one that has live shares. */
export function currentGeneration(wallet: WalletRow, rows: readonly ShareRow[]): number | null {
  if (wallet.custody === 'shared') return wallet.generation
  const live = rows.filter(isLive).map(({ generation }) => generation)
  return live.length === 0 ? null : Math.max(...live)
}

const sizeOf = (ciphertext: ClientCiphertext | null) => (ciphertext === null ? 0 : JSON.stringify(ciphertext).length)

/** Checks the limit of the wallet's ciphertexts, with a new one. @throws share_limit */
export function requireRoom(others: readonly ShareRow[], ciphertext: ClientCiphertext): void {
  const kept = others.reduce((sum, { client_ciphertext: each }) => sum + sizeOf(each), 0)
  if (kept + sizeOf(ciphertext) > CIPHERTEXT_BYTES_MAX) throw fail('share_limit')
}
