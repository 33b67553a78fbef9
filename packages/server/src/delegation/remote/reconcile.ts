import type { Deps } from '../../platform/deps.ts'
import { failures } from '../../platform/http/errors.ts'
import { callLedger } from '../../platform/ports/call-ledger.ts'
import { postpone, type TransactionRow, takeDue } from '../../wallets/transactions/service.ts'
import { ledgerOf } from '../execute/execute.ts'
import { DELEGATED_SESSION_ERRORS } from '../service.ts'
import { expired, recordHappened, releaseNever, resolveByLedger, signaturesOf } from './outcome.ts'

const fail = failures(DELEGATED_SESSION_ERRORS)

/** How many transactions one run takes on. */
const PORTION = 10
/** For so long a transaction that was taken is left to who took it; more than the ledger has for all that it is asked. */
const TAKEN_MS = 60_000
const BACK_OFF_MIN_MS = 1_000
const BACK_OFF_MAX_MS = 60_000

const abandoned = () =>
  fail('transaction_failed', [
    {
      field: 'commands',
      code: 'abandoned',
      message: 'It was left before it was signed. Execute it again under another commandId.',
    },
  ])

/** Looks at it again after as long as it has been open by then: twice as late each time. */
async function lookLater(deps: Deps, row: TransactionRow): Promise<void> {
  const now = deps.now().getTime()
  const waitMs = Math.min(BACK_OFF_MAX_MS, Math.max(BACK_OFF_MIN_MS, now - row.updated_at.getTime()))
  await postpone(deps.db, row, new Date(now + waitMs))
}

/** Sends again what was signed and may not have arrived; it happens once, however often it is sent. */
async function sendAgain(deps: Deps, row: TransactionRow): Promise<TransactionRow> {
  const ledger = ledgerOf(deps, row)
  // That this one is refused says nothing of those before it, which may be under way still: the caller goes on asking.
  const receipt = await callLedger(ledger, () =>
    ledger.submit(deps.db, row.tenant_id, row.prepared as Buffer, signaturesOf(row), deps.now()),
  )
  return recordHappened(deps, row, receipt)
}

async function reconcileSigned(deps: Deps, row: TransactionRow): Promise<void> {
  const known = await resolveByLedger(deps, row)
  if (known !== row) return
  const canHappen = row.expires_at !== null && row.expires_at > deps.now()
  if (row.status === 'submitted' && canHappen && (await sendAgain(deps, row)) !== row) return
  await lookLater(deps, row)
}

async function reconcile(deps: Deps, row: TransactionRow): Promise<void> {
  if (row.status === 'received' || row.status === 'reserved') {
    await releaseNever(deps, row, abandoned())
    return
  }
  // Where nobody else can submit it, nobody has. What its owner has signed for a ledger beyond, they may have sent.
  if (row.status === 'signature_required' && deps.ledgers.get(row.ledger)?.transactional) {
    await releaseNever(deps, row, expired())
    return
  }
  await reconcileSigned(deps, row)
}

/**
 * Finds out what became of a portion of the open transactions, of all tenants, that nobody is at any more: what was not
 * signed is released, of what was the ledger says. Each on its own. @returns whether there may be more
 */
export async function reconcileTransactions(deps: Deps): Promise<boolean> {
  const now = deps.now()
  const rows = await takeDue(deps.db, now, new Date(now.getTime() + TAKEN_MS), PORTION)
  const one = async (row: TransactionRow) => {
    try {
      await reconcile(deps, row)
    } catch (error) {
      const about = { err: error, tenantId: row.tenant_id, transactionId: row.id, ledger: row.ledger }
      deps.log.warn(about, "a transaction's outcome could not be found out yet")
      await lookLater(deps, row)
    }
  }
  await Promise.all(rows.map(one))
  return rows.length === PORTION
}
