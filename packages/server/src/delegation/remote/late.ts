import type { Deps } from '../../platform/deps.ts'
import { postpone, type TransactionRow } from '../../wallets/transactions/service.ts'
import { endWatch } from '../execute/record.ts'
import { askLedger, resolveCompleted } from './outcome.ts'

// What was signed can still happen after it was recorded as failed: a ledger may contradict itself, undo and do again, or have
// bytes whose expiry nothing enforces. So such a transaction is watched for a while, and is charged again if it happened.

/** How long after its failure a transaction is watched. */
const WATCH_MS = 24 * 60 * 60_000
const PAUSE_MIN_MS = 60_000
const PAUSE_MAX_MS = 60 * 60_000

/** Looks whether a failed transaction happened after all. @throws LedgerError if the ledger does not say */
export async function watch(deps: Deps, row: TransactionRow): Promise<void> {
  const outcome = await askLedger(deps, row)
  if (outcome.state === 'final') {
    await resolveCompleted(deps, row, outcome.receipt)
    return
  }
  const now = deps.now().getTime()
  const watchedMs = now - row.updated_at.getTime()
  if (watchedMs >= WATCH_MS) await endWatch(deps, row)
  else await postpone(deps.db, row, new Date(now + Math.min(PAUSE_MAX_MS, Math.max(PAUSE_MIN_MS, watchedMs))))
}
