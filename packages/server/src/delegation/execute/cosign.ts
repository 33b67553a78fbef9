import type { Db } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import { failures } from '../../platform/http/errors.ts'
import type { Prepared } from '../../platform/ports/ledger.ts'
import { coSign } from '../../wallets/custody/service.ts'
import type { TransactionRow } from '../../wallets/transactions/service.ts'
import { DELEGATED_SESSION_ERRORS, revoke } from '../service.ts'
import * as store from '../store.ts'

const fail = failures(DELEGATED_SESSION_ERRORS)

/** How long a delegate has to complete a signature that the service has made its part of. */
export const COSIGNING_MS = 2 * 60_000

/** A delegate that sends so many wrong signatures has lost the session. */
const WRONG_MAX = 10

/** That a signature by a shared key comes with its other signer's commitments, and no other with any. @throws validation_failed */
export function requireCommitments({ custody }: store.LiveRow, commitments: object | null): void {
  const wrong = (code: string, message: string) => fail('validation_failed', [{ field: 'commitments', code, message }])
  if (custody === 'shared' && commitments === null)
    throw wrong('required', "This wallet's key is shared: send commitments to fresh nonces of your share.")
  if (custody !== 'shared' && commitments !== null)
    throw wrong('not_allowed', "Is for wallets whose key is shared: this one's is not.")
}

/**
 * Adds the service's part of a signature by a shared key to a transaction that was judged. It leaves only with the
 * transaction as that is stored, reserved; where it is not, the part is forgotten, and its nonces with it.
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
  const wallet = {
    tenantId: session.tenant_id,
    walletId: session.wallet_id,
    generation: session.generation ?? 0,
  }
  return { ...row, cosigned: { commitments, made: await coSign(db, deps, wallet, commitments, prepared.digest) } }
}

/** That an open signing request is of the shares that there are now. @throws signing_request_superseded */
export function requireSameShares(session: store.LiveRow, { cosigned }: Pick<TransactionRow, 'cosigned'>): void {
  const generation = cosigned?.made?.generation
  if (generation !== undefined && generation !== session.generation) throw fail('signing_request_superseded')
}

/**
 * Counts a wrong signature by a shared key; who sends too many has lost the session, and the wallet is as it was. In the
 * transaction that holds the session's row.
 */
export async function recordWrongSignature(
  tx: Db,
  deps: Deps,
  session: store.LiveRow,
  cause: Parameters<typeof revoke>[3],
): Promise<void> {
  if (session.custody !== 'shared' || session.status !== 'active') return
  if ((await store.countWrongSignature(tx, session)) >= WRONG_MAX) await revoke(tx, deps, session, cause)
}
