import { setTrustLevel } from '../../identity/users/service.ts'
import type { Db } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import type { EventType } from '../../platform/events/event-catalogue.ts'
import { type EventInput, eventOf, publish } from '../../platform/events/events.ts'
import { invalid } from '../../platform/http/errors.ts'
import type { Id } from '../../platform/ids.ts'
import type { Ledger } from '../../platform/ports/ledger.ts'
import type { Call } from './access.ts'
import { fail } from './errors.ts'
import * as store from './store.ts'

/** The ledger of this name, or the first. @throws validation_failed (names `ledger`) */
export function ledgerOf(deps: Deps, name: string | undefined): Ledger {
  const ledger = name === undefined ? deps.ledgers.values().next().value : deps.ledgers.get(name)
  if (ledger !== undefined) return ledger
  throw invalid('ledger', `Must be one of: ${[...deps.ledgers.keys()].join(', ')}.`, 'ledger_unknown')
}

/** An event about a wallet. `more` is added to its data. */
export function walletEvent(
  row: Pick<store.WalletRow, 'id' | 'tenant_id' | 'app_id' | 'user_id'>,
  type: EventType,
  cause?: EventInput['cause'],
  more: object = {},
): EventInput {
  return eventOf(row, type, { walletId: row.id, userId: row.user_id, ...more }, cause)
}

/** A new wallet. */
export interface NewWallet {
  id: Id<'wal'>
  ledger: Ledger
  custody: store.WalletRow['custody']
  partyId: string
  publicKey: Buffer
  /** Of a `shared` wallet: how its key was made, and whether the user has proven to hold a share. */
  shared?: { keyOrigin: 'dkg' | 'client_dealt'; threshold: number; total: number; proven: boolean }
}

/** Whether a wallet can be used: at once on a transactional ledger, elsewhere after its party is allocated. */
export function readiness(ledger: Ledger, proven: boolean, now: Date): Pick<store.WalletRow, 'status' | 'onboard_at'> {
  if (!proven) return { status: 'pending', onboard_at: null }
  return ledger.transactional ? { status: 'ready', onboard_at: null } : { status: 'pending', onboard_at: now }
}

/**
 * A shared key belongs to one wallet, among all users and tenants: otherwise each wallet's shares would be counted alone.
 * @throws already_exists (names `publicKey`)
 */
async function requireOwnShares(tx: Db, { custody, publicKey }: NewWallet): Promise<void> {
  if (custody === 'embedded' || !(await store.isSharedElsewhere(tx, publicKey, custody))) return
  const message =
    'Another wallet already has this key, and a shared key can belong to only one wallet. Create a new key.'
  throw fail('already_exists').about('publicKey', message)
}

/**
 * Creates a user's one wallet with its events, in the transaction that holds the user. A `shared` wallet stays pending until
 * its user has proven to hold a share. @throws wallet_exists
 */
export async function addWallet(
  tx: Db,
  deps: Deps,
  { caller, origin, user }: Call,
  wallet: NewWallet,
): Promise<store.WalletRow> {
  if (await store.findWalletOf(tx, caller.tenantId, user.id)) throw fail('wallet_exists')
  await requireOwnShares(tx, wallet)
  const now = deps.now()
  const { ledger, custody, shared } = wallet
  const row: store.WalletRow = {
    tenant_id: caller.tenantId,
    id: wallet.id,
    app_id: user.appId,
    user_id: user.id,
    ledger: ledger.name,
    custody,
    party_id: wallet.partyId,
    address: null,
    public_key: wallet.publicKey,
    curve: 'ed25519',
    threshold: shared?.threshold ?? null,
    total: shared?.total ?? null,
    generation: shared === undefined ? null : 1,
    key_origin: shared?.keyOrigin ?? null,
    exported_at: null,
    ...readiness(ledger, shared?.proven ?? true, now),
    frozen_at: null,
    onboard_attempts: 0,
    recovery_tried_at: [],
    recovery_strikes: 0,
    budgets: null,
    recipients: null,
    recovery_after: null,
    sessions: '',
    version: 0,
    mac: null,
    created_at: now,
    updated_at: now,
  }
  await store.insertWallet(tx, row)
  await setTrustLevel(tx, deps, { tenantId: row.tenant_id, id: row.user_id, trustLevel: custody })
  const cause = { caller, origin }
  await publish(tx, deps, walletEvent(row, 'wallet.created', cause, { custody, ledger: ledger.name }))
  if (row.status === 'ready') await publish(tx, deps, walletEvent(row, 'wallet.ready', cause))
  return row
}
