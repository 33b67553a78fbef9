import type { Deps } from '../../platform/deps.ts'
import { postpone, type TransactionRow, takeDue } from '../../wallets/transactions/service.ts'
import { endUndecided } from '../approvals/end.ts'
import { fail } from '../errors.ts'
import { watch } from './late.ts'
import { releaseFailed, resolveByLedger, resolveCompleted, submit } from './outcome.ts'

/** How many transactions one run takes. */
const BATCH = 10
/** How long a taken transaction is left to the run that took it; longer than all calls to the ledger may take. */
const TAKEN_MS = 60_000
const BACK_OFF_MIN_MS = 1_000
const BACK_OFF_MAX_MS = 60_000

const abandoned = () =>
  fail('transaction_failed', [
    {
      field: 'commands',
      code: 'abandoned',
      message: 'The transaction was abandoned before it was signed. Execute again with another commandId.',
    },
  ])

/** Checks again after as long as the transaction has been open by now: the wait doubles each time. */
async function checkLater(deps: Deps, row: TransactionRow): Promise<void> {
  const now = deps.now().getTime()
  const waitMs = Math.min(BACK_OFF_MAX_MS, Math.max(BACK_OFF_MIN_MS, now - row.updated_at.getTime()))
  await postpone(deps.db, row, new Date(now + waitMs))
}

async function reconcile(deps: Deps, row: TransactionRow): Promise<void> {
  if (row.status === 'failed') return watch(deps, row)
  if (row.status === 'approval_required') {
    if (!(await endUndecided(deps, row))) await postpone(deps.db, row, row.expires_at ?? deps.now())
    return
  }
  if (row.status === 'received' || row.status === 'reserved') {
    await releaseFailed(deps, row, abandoned())
    return
  }
  // Only we submit to a transactional ledger. On another, the owner may have submitted what they signed.
  if (row.status === 'signature_required' && deps.ledgers.get(row.ledger)?.transactional) {
    await releaseFailed(deps, row, fail('prepared_expired'))
    return
  }
  const { row: after, outcome } = await resolveByLedger(deps, row)
  if (after !== row) return
  const canHappen = outcome.state === 'pending' && row.expires_at !== null && row.expires_at > deps.now()
  // A refusal of this submission says nothing about earlier ones, which may still be under way: keep checking.
  if (row.status === 'submitted' && canHappen)
    if ((await resolveCompleted(deps, row, await submit(deps, row))) !== row) return
  await checkLater(deps, row)
}

/**
 * Finds out what became of one batch of the open transactions, of all tenants, that no request works on any more:
 * unsigned ones are released, about signed ones the ledger is asked. @returns whether there may be more
 */
export async function reconcileTransactions(deps: Deps): Promise<boolean> {
  const now = deps.now()
  const rows = await takeDue(deps.db, now, new Date(now.getTime() + TAKEN_MS), BATCH)
  const one = async (row: TransactionRow) => {
    try {
      await reconcile(deps, row)
    } catch (error) {
      const about = { err: error, tenantId: row.tenant_id, transactionId: row.id, ledger: row.ledger }
      deps.log.warn(about, "a transaction's outcome could not be found out yet")
      await checkLater(deps, row)
    }
  }
  await Promise.all(rows.map(one))
  return rows.length === BATCH
}
