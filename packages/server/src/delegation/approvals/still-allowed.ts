import type { Db } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import type { TransactionRow } from '../../wallets/transactions/service.ts'
import type { Acting } from '../access.ts'
import { chargesIn, partsIn } from '../budgets/count.ts'
import { type Denial, evaluateCost } from '../execute/evaluate.ts'
import { ledgerOf } from '../execute/execution.ts'
import { removeCharges } from '../policy/spend.ts'
import { removeParts } from '../policy/windows.ts'
import { refusedWithoutOwner } from './ask.ts'

/** The session as it was before the transaction reserved its part: what it takes now is decided on that. */
export function released(session: Acting, { spends }: Pick<TransactionRow, 'spends'>): Acting {
  const { spending } = session
  return {
    ...session,
    spent: removeCharges(session.spent, chargesIn(spends)),
    spending: spending && { ...spending, spent: removeParts(spending.spent, partsIn(spends)) },
  }
}

/**
 * Why what was reserved may not be signed any more; null if it may. Minutes can pass between the two: hours end, and the owner
 * removes a recipient. The caller holds the rows of the session and the transaction.
 */
export async function denialOfReserved(
  tx: Db,
  deps: Deps,
  session: Acting,
  row: TransactionRow & { prepared: Buffer },
): Promise<Denial | null> {
  const prepared = ledgerOf(deps, session).decode(row.prepared)
  const cost = await evaluateCost(tx, released(session, row), prepared, deps.now())
  if ('denial' in cost) return cost.denial
  return cost.required === null ? null : refusedWithoutOwner(cost.required)
}
