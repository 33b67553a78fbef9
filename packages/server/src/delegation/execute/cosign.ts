import type { Db } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import { invalid } from '../../platform/http/errors.ts'
import type { Call } from '../../platform/http/route.ts'
import type { Prepared } from '../../platform/ports/ledger.ts'
import { coSign } from '../../wallets/custody/service.ts'
import type { TransactionRow } from '../../wallets/transactions/service.ts'
import { fail } from '../errors.ts'
import { revoke } from '../manage/revoke.ts'
import * as store from '../store.ts'

/** How long a delegate has to complete a signature after the service has made its share of it. */
export const COSIGNING_MS = 2 * 60_000

/** After this many wrong signatures the session is revoked. */
const WRONG_MAX = 10

/** Commitments are required for shared keys, and only for them. @throws validation_failed */
export function requireCommitments({ custody }: store.LiveRow, commitments: object | null): void {
  if (custody === 'shared' && commitments === null)
    throw invalid(
      'commitments',
      "Is required because the wallet's key is shared. Send commitments to fresh nonces of your share.",
      'required',
    )
  if (custody !== 'shared' && commitments !== null)
    throw invalid('commitments', "Must be absent, because the wallet's key is not shared.", 'not_allowed')
}

/**
 * Adds the service's signature share to a transaction that the policy allows, if the key is shared. The share is sent
 * only after the transaction is stored with it; if it is not stored, the share and its nonces are thrown away.
 * @throws share_missing, validation_failed and share_invalid (name `commitments`)
 */
export async function withCoSignature(
  db: Db,
  deps: Deps,
  session: store.LiveRow,
  row: TransactionRow,
  prepared: Prepared,
): Promise<TransactionRow> {
  if (session.custody !== 'shared' || row.cosigned === null) return row
  const { commitments } = row.cosigned
  const wallet = { tenantId: session.tenant_id, walletId: session.wallet_id, generation: session.generation ?? 0 }
  return { ...row, cosigned: { commitments, made: await coSign(db, deps, wallet, commitments, prepared.payload) } }
}

/** The key was not reshared since the service made its signature share. @throws signing_request_superseded */
export function requireSameShares(session: store.LiveRow, { cosigned }: Pick<TransactionRow, 'cosigned'>): void {
  const generation = cosigned?.made?.generation
  if (generation !== undefined && generation !== session.generation) throw fail('signing_request_superseded')
}

/**
 * Counts a wrong signature by a shared key, and revokes the session after too many. In the transaction that holds the
 * session's row.
 */
export async function recordWrongSignature(tx: Db, deps: Deps, session: store.LiveRow, cause: Call): Promise<void> {
  if (session.custody !== 'shared' || session.status !== 'active') return
  const counted = await store.countWrongSignature(tx, session)
  if (counted.wrong_signatures >= WRONG_MAX) await revoke(tx, deps, counted, cause)
}
