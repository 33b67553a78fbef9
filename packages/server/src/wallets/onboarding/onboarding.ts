import type { Deps } from '../../platform/deps.ts'
import { publish } from '../../platform/events/events.ts'
import { callLedger } from '../../platform/ports/call-ledger.ts'
import { type Ledger, LedgerError, type LedgerSignature, type Onboarding } from '../../platform/ports/ledger.ts'
import { readSignature } from '../../platform/ports/signature.ts'
import {
  claimPending,
  finishOnboarding,
  lockPending,
  onboardAt,
  postponeOnboarding,
  type WalletRow,
  walletEvent,
} from '../wallets/service.ts'
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

const ofWallet = ({ tenant_id: tenantId, id: walletId }: Pick<WalletRow, 'tenant_id' | 'id'>): store.OfWallet => ({
  tenantId,
  walletId,
})

/** What a wallet's onboarding is about. */
interface Subject {
  ledger: Ledger
  wallet: WalletRow
  of: { party: string; publicKey: Buffer }
}

/** Has the ledger prepare a wallet's party. Nothing but its bytes counts. @throws LedgerError prepared_invalid */
async function prepare({ ledger, wallet, of }: Subject): Promise<Onboarding> {
  const hint = of.party.slice(0, of.party.indexOf('::'))
  const { party, bytes } = await callLedger(ledger, () =>
    ledger.prepareOnboarding(wallet.tenant_id, hint, of.publicKey),
  )
  // The wallet's party was published when it was created: nothing is signed for another one.
  if (party !== of.party) throw new LedgerError('prepared_invalid', 'The ledger prepared a different party.')
  return ledger.decodeOnboarding(bytes, of)
}

const complete = (
  { ledger, wallet }: Subject,
  onboarding: Onboarding,
  signatures: readonly LedgerSignature[],
): Promise<void> => callLedger(ledger, () => ledger.completeOnboarding(wallet.tenant_id, onboarding, signatures))

/** With the ledger node's key, the service signs by itself. */
async function allocateOwn(deps: Deps, subject: Subject): Promise<void> {
  const { ledger, wallet, of } = subject
  const onboarding = await prepare(subject)
  const signatures: LedgerSignature[] = []
  for (const { payload } of onboarding.toSign)
    signatures.push(...(await ledger.sign(deps.db, wallet.tenant_id, of.party, payload)))
  await complete(subject, onboarding, signatures)
}

/** Stores what the user has to sign, in place of what was there, and tells of it. */
async function askUser(deps: Deps, { wallet }: Subject, { bytes }: Onboarding, expiresAt: Date): Promise<void> {
  const now = deps.now()
  await deps.db.tx(async (tx) => {
    if ((await lockPending(tx, wallet)) === undefined) return
    const of = { tenant_id: wallet.tenant_id, wallet_id: wallet.id }
    await store.putOnboarding(tx, { ...of, prepared: bytes, expires_at: expiresAt, updated_at: now })
    await onboardAt(tx, wallet, expiresAt)
    const more = { expiresAt: expiresAt.toISOString() }
    await publish(tx, deps, walletEvent(wallet, 'wallet.signature_required', undefined, more))
  })
}

/** Only the user can sign with the key. @returns whether the party is there; if not, the user is asked */
async function allocateUsers(deps: Deps, subject: Subject): Promise<boolean> {
  const { ledger, wallet, of } = subject
  const kept = await store.findOnboarding(deps.db, ofWallet(wallet))
  if (kept !== undefined && kept.signatures !== null) {
    const onboarding = ledger.decodeOnboarding(kept.prepared, of)
    try {
      await complete(subject, onboarding, kept.signatures.map(readSignature))
      return true
    } catch (error) {
      if (!(error instanceof LedgerError) || error.code !== 'prepared_expired') throw error
    }
  } else if (kept !== undefined && kept.expires_at > deps.now()) {
    await onboardAt(deps.db, wallet, kept.expires_at)
    return false
  }
  const onboarding = await prepare(subject)
  if (onboarding.expiresAt === null) {
    await complete(subject, onboarding, [])
    return true
  }
  await askUser(deps, subject, onboarding, onboarding.expiresAt)
  return false
}

/** Makes a wallet's party. Outside any transaction: the ledger is remote. @returns as above. @throws LedgerError, Error */
async function allocateParty(deps: Deps, wallet: WalletRow): Promise<boolean> {
  const ledger = deps.ledgers.get(wallet.ledger)
  if (ledger === undefined) throw new Error(`the ledger ${wallet.ledger} is not configured`)
  if (wallet.public_key === null) throw new Error('the wallet has no key')
  const subject = { ledger, wallet, of: { party: wallet.party_id, publicKey: wallet.public_key } }
  if (wallet.custody !== 'embedded') return allocateUsers(deps, subject)
  await allocateOwn(deps, subject)
  return true
}

/** Stores the outcome with its event, once even if several runs try. */
async function finish(deps: Deps, row: WalletRow, error: string | null): Promise<void> {
  await deps.db.tx(async (tx) => {
    if (!(await finishOnboarding(tx, deps.now(), row, error === null ? 'ready' : 'failed'))) return
    await store.deleteOnboarding(tx, ofWallet(row))
    const event =
      error === null ? walletEvent(row, 'wallet.ready') : walletEvent(row, 'wallet.failed', undefined, { error })
    await publish(tx, deps, event)
  })
}

/** Whether the ledger's refusal is final: nothing happened, and a retry will not succeed. */
const isRefusal = (error: unknown): error is LedgerError =>
  error instanceof LedgerError && error.definite && !error.retryable

async function onboard(deps: Deps, row: WalletRow): Promise<void> {
  try {
    if (!(await allocateParty(deps, row))) return
  } catch (error) {
    const about = { err: error, tenantId: row.tenant_id, walletId: row.id, ledger: row.ledger }
    if (isRefusal(error)) {
      deps.log.error(about, "a wallet's party was refused")
      return finish(deps, row, error.message.slice(0, ERROR_CHARS_MAX))
    }
    deps.log.warn({ ...about, attempts: row.onboard_attempts }, "a wallet's party could not be allocated yet")
    const until = new Date(deps.now().getTime() + backOffMs(row.onboard_attempts))
    return postponeOnboarding(deps.db, row, until)
  }
  await deps.failpoint('wallet onboarded')
  return finish(deps, row, null)
}

/**
 * Allocates the parties of one batch of pending wallets, of all tenants, or asks their users to sign. Allocation is
 * repeatable: it is retried if the ledger cannot be reached, or if the process dies. @returns whether there may be more
 */
export async function onboardWallets(deps: Deps): Promise<boolean> {
  const now = deps.now()
  const rows = await claimPending(deps.db, now, new Date(now.getTime() + CLAIM_MS), BATCH)
  await Promise.all(rows.map((row) => onboard(deps, row)))
  return rows.length === BATCH
}
