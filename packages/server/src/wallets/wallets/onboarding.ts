import type { Deps } from '../../platform/deps.ts'
import { publish } from '../../platform/events/events.ts'
import { callLedger } from '../../platform/ports/call-ledger.ts'
import { LedgerError, type LedgerSignature } from '../../platform/ports/ledger.ts'
import { walletEvent } from './new-wallet.ts'
import * as store from './store.ts'

/** How many wallets one run takes. */
const BATCH = 10
/** How long a claimed wallet is left to the run that claimed it; longer than a ledger may take to respond. */
const CLAIM_MS = 2 * 60_000
const BACK_OFF_FIRST_MS = 1_000
const BACK_OFF_MAX_MS = 5 * 60_000
const ERROR_CHARS_MAX = 500

/** How long to wait after this many failed attempts. Doubles each time. */
function backOffMs(attempts: number): number {
  return Math.min(BACK_OFF_MAX_MS, BACK_OFF_FIRST_MS * 2 ** Math.min(attempts - 1, 30))
}

/** Creates a wallet's party. Outside any transaction: the ledger is remote. @throws LedgerError, Error */
async function allocateParty(deps: Deps, row: store.WalletRow): Promise<void> {
  const ledger = deps.ledgers.get(row.ledger)
  if (ledger === undefined) throw new Error(`the ledger ${row.ledger} is not configured`)
  if (row.public_key === null) throw new Error('the wallet has no key')
  const { tenant_id: tenantId, party_id: party } = row
  const hint = party.slice(0, party.indexOf('::'))
  const publicKey = row.public_key
  const onboarding = await callLedger(ledger, () => ledger.prepareOnboarding(tenantId, hint, publicKey))
  // The wallet's party was published when it was created: nothing is signed for another one.
  if (onboarding.party !== party) throw new LedgerError('prepared_invalid', 'The ledger prepared a different party.')
  const signatures: LedgerSignature[] = []
  // The service cannot sign with a user's own key: a ledger that needs its signature refuses.
  if (row.custody === 'embedded')
    for (const digest of onboarding.digests) signatures.push(...(await ledger.sign(deps.db, tenantId, party, digest)))
  await callLedger(ledger, () => ledger.completeOnboarding(tenantId, onboarding, signatures))
}

/** Stores the outcome with its event, once even if several runs try. */
async function finish(deps: Deps, row: store.WalletRow, error: string | null): Promise<void> {
  await deps.db.tx(async (tx) => {
    if (!(await store.finishOnboarding(tx, deps.now(), row, error === null ? 'ready' : 'failed'))) return
    const event =
      error === null ? walletEvent(row, 'wallet.ready') : walletEvent(row, 'wallet.failed', undefined, { error })
    await publish(tx, deps, event)
  })
}

/** Whether the ledger's refusal is final: nothing happened, and a retry will not succeed. */
const isRefusal = (error: unknown): error is LedgerError =>
  error instanceof LedgerError && error.definite && !error.retryable

async function onboard(deps: Deps, row: store.WalletRow): Promise<void> {
  try {
    await allocateParty(deps, row)
  } catch (error) {
    const about = { err: error, tenantId: row.tenant_id, walletId: row.id, ledger: row.ledger }
    if (isRefusal(error)) {
      deps.log.error(about, "a wallet's party was refused")
      return finish(deps, row, error.message.slice(0, ERROR_CHARS_MAX))
    }
    deps.log.warn({ ...about, attempts: row.onboard_attempts }, "a wallet's party could not be allocated yet")
    const until = new Date(deps.now().getTime() + backOffMs(row.onboard_attempts))
    return store.postpone(deps.db, row, until)
  }
  await deps.failpoint('wallet onboarded')
  return finish(deps, row, null)
}

/**
 * Allocates the parties of one batch of pending wallets, of all tenants. Allocation is repeatable: it is retried if the
 * ledger cannot be reached, or if the process dies. @returns whether there may be more
 */
export async function onboardWallets(deps: Deps): Promise<boolean> {
  const now = deps.now()
  const rows = await store.claimPending(deps.db, now, new Date(now.getTime() + CLAIM_MS), BATCH)
  await Promise.all(rows.map((row) => onboard(deps, row)))
  return rows.length === BATCH
}
