import { createHash } from 'node:crypto'
import type { Db } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import { recordAuditOnly } from '../../platform/events/audit-only-entries.ts'
import type { Call, Caller } from '../../platform/http/route.ts'
import { isId } from '../../platform/ids.ts'
import type { Flow, SignedUpdate } from '../../platform/ports/ledger.ts'
import { networkOf } from '../../platform/ports/network.ts'
import { canonicalJson } from '../../platform/security/canonical-json.ts'
import { findWalletOf, findWalletRow } from '../wallets/service.ts'
import {
  DECIMALS,
  type PaymentRequirements,
  type PaymentToCheck,
  type Reason,
  type Settlement,
  type Supported,
  TIMEOUT_SECONDS_MAX,
  type Verification,
} from './schema.ts'
import * as store from './store.ts'

/** The ledger on which payments are made. */
const LEDGER = 'embedded'
const TAG = 'halfkey/x402/v1'
/** Settlements are kept longer than any payment is accepted: clocks of processes differ. */
const KEPT_BEYOND_MS = 86_400_000

/** The command id that commits a transfer to one request of one payer. Clients compute the same. */
function commandIdOf({ extra: { method, resource } }: PaymentRequirements, nonce: string): string {
  const text = JSON.stringify([TAG, method, resource, nonce])
  return `x402-${createHash('sha256').update(text).digest('hex')}`
}

/** What a party has more of an asset after a transaction than before, in atomic units. */
function receivedBy(flows: readonly Flow[], party: string, asset: string): bigint {
  return flows
    .filter(({ owner, asset: { issuer, symbol } }) => owner === party && `${issuer}/${symbol}` === asset)
    .reduce((sum, { created, consumed }) => sum + created - consumed, 0n)
}

/** Whether a key settles payments to this party: one of an app only those to the app's wallets. */
async function mayReceive(deps: Deps, { tenantId, appId }: Caller, payTo: string): Promise<boolean> {
  if (appId === null) return true
  // A party of a wallet is named after its user, or, if they have the key, after the wallet.
  const [name = ''] = payTo.split('::')
  const wallet = isId('usr', name)
    ? await findWalletOf(deps.db, tenantId, name)
    : isId('wal', name)
      ? await findWalletRow(deps.db, { tenantId, appId }, name)
      : undefined
  return wallet?.party_id === payTo && wallet.app_id === appId && wallet.ledger === LEDGER
}

const expiryOf = ({ recordedAt }: SignedUpdate, seconds: number) => new Date(recordedAt.getTime() + seconds * 1_000)

/** The transaction that pays, unless it was settled before; or why there is none. */
async function findPayment(
  deps: Deps,
  caller: Caller,
  { paymentPayload: { accepted, payload }, paymentRequirements: wanted }: PaymentToCheck,
): Promise<SignedUpdate | Reason> {
  if (canonicalJson(accepted) !== canonicalJson(wanted)) return 'requirements_mismatch'
  if (wanted.network !== networkOf(caller.tenantId)) return 'invalid_network'
  if (!(await mayReceive(deps, caller, wanted.payTo))) return 'recipient_not_allowed'
  const { payer, delegatedSessionId, nonce } = payload
  // As the ledger has it: command ids belong to the session that made them.
  const commandId = `${delegatedSessionId}/${commandIdOf(wanted, nonce)}`
  const update = await deps.ledgers.get(LEDGER)?.findSigned?.(deps.db, caller.tenantId, { actAs: payer, commandId })
  if (update === undefined) return 'payment_not_found'
  if (receivedBy(update.flows, wanted.payTo, wanted.asset) !== BigInt(wanted.amount)) return 'payment_mismatch'
  return expiryOf(update, wanted.maxTimeoutSeconds) <= deps.now() ? 'payment_expired' : update
}

/** Which payments are taken. */
export function supportedPayments(deps: Deps, { tenantId }: Caller): Supported {
  const network = networkOf(tenantId)
  const kind = { x402Version: 2, scheme: 'exact', network, extra: { decimals: DECIMALS } } as const
  return { kinds: deps.ledgers.has(LEDGER) ? [kind] : [], extensions: [], signers: {} }
}

/** Whether a payment could be settled now. Changes nothing. */
export async function verifyPayment(deps: Deps, caller: Caller, input: PaymentToCheck): Promise<Verification> {
  const { payer } = input.paymentPayload.payload
  const found = await findPayment(deps, caller, input)
  if (typeof found === 'string') return { isValid: false, invalidReason: found, payer }
  const used = await store.isUsed(deps.db, caller.tenantId, found.updateId)
  return used ? { isValid: false, invalidReason: 'payment_already_used', payer } : { isValid: true, payer }
}

/** Settles a payment: once, whoever asks and how often. */
export async function settlePayment(deps: Deps, { caller, origin }: Call, input: PaymentToCheck): Promise<Settlement> {
  const { tenantId, appId } = caller
  const { network, amount } = input.paymentRequirements
  const { payer } = input.paymentPayload.payload
  const refused = (errorReason: Reason) => ({ success: false, errorReason, payer, transaction: '', network })
  const found = await findPayment(deps, caller, input)
  if (typeof found === 'string') return refused(found)
  const { updateId } = found
  return deps.db.tx(async (tx) => {
    const expiresAt = expiryOf(found, TIMEOUT_SECONDS_MAX)
    if (!(await store.useUp(tx, { tenantId, updateId, now: deps.now(), expiresAt })))
      return refused('payment_already_used')
    const cause = { caller, origin }
    await recordAuditOnly(tx, deps, { tenantId, appId, action: 'x402.settled', target: updateId, cause })
    return { success: true, payer, transaction: updateId, network, amount }
  })
}

/** Deletes settlements of payments that are refused for their age. @returns whether there may be more */
export function deleteOldSettlements(db: Db, now: Date): Promise<boolean> {
  return store.deleteExpired(db, new Date(now.getTime() - KEPT_BEYOND_MS))
}
