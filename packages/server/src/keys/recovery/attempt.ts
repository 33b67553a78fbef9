import { endSessionsOf } from '../../delegation/service.ts'
import { requireOwnStepUp } from '../../identity/sessions/service.ts'
import { lockOutActs } from '../../platform/concurrency/user-lock.ts'
import type { Db } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import { publish } from '../../platform/events/events.ts'
import { HttpError, notFoundField } from '../../platform/http/errors.ts'
import type { Subject } from '../../platform/security/threshold/threshold.ts'
import {
  type Call,
  lockOwnWallet,
  recordExported,
  setRecoveryAttempts,
  type WalletRow,
  walletEvent,
} from '../../wallets/wallets/service.ts'
import { afterAttempt, waitMs } from './backoff.ts'
import { findKeyWallet, type KeyWallet, seeChallenge, subjectOf, useChallenge } from './challenge.ts'
import { fail } from './errors.ts'
import type { Mode, Recovery } from './schema.ts'

/** Errors that mean a wrong answer to the challenge: guessed, mixed up or changed. */
const WRONG = ['share_invalid', 'shares_insufficient', 'seal_invalid']

/** The wallet, if the caller may recover its key. @throws what `findKeyWallet` and `requireOwnStepUp` throw, wallet_frozen */
export async function findRecoverable(deps: Deps, call: Call, walletId: string): Promise<KeyWallet> {
  const wallet = await findKeyWallet(deps, call, walletId)
  await requireOwnStepUp(deps, call.caller, call.user)
  if (wallet.frozen_at !== null) throw fail('wallet_frozen')
  return wallet
}

/** The same wallet, locked: until the transaction ends nobody else changes it or acts for it. @throws not_found, wallet_frozen */
export async function lockRecoverable(tx: Db, deps: Deps, call: Call, walletId: string): Promise<KeyWallet> {
  // Before any row is locked, as an execution does: it signs before this, or not at all.
  await lockOutActs(tx, call.user.id)
  const wallet = await lockOwnWallet(tx, deps, call, walletId)
  if (wallet === undefined || wallet.public_key === null) throw notFoundField('walletId')
  if (wallet.frozen_at !== null) throw fail('wallet_frozen')
  return { ...wallet, public_key: wallet.public_key }
}

/** @throws rate_limited */
function requirePace(deps: Deps, wallet: WalletRow): void {
  const leftMs = deps.config.rateLimits ? waitMs(wallet, deps.now()) : 0
  if (leftMs > 0) throw fail('rate_limited', [], { 'retry-after': String(Math.ceil(leftMs / 1000)) })
}

/** An answer to a challenge. */
interface Attempt<Made> {
  wallet: KeyWallet
  mode: Mode
  challengeId: string
  generation?: number | undefined
  /** Computes the result, sealed, in threads: before anything is locked. */
  work(subject: Subject): Promise<Made>
  /** Has the effect. It may run more than once: see `Db.tx`. */
  effect(tx: Db, wallet: KeyWallet, made: Made): Promise<Recovery>
}

/** Only a caller whose answer used up the challenge learns what is wrong with the answer. */
async function workedOut<Made>(work: () => Promise<Made>): Promise<{ made: Made } | { refused: HttpError }> {
  try {
    return { made: await work() }
  } catch (error) {
    if (error instanceof HttpError && WRONG.includes(error.code)) return { refused: error }
    throw error
  }
}

/**
 * Answers a challenge. Of concurrent answers one is accepted, right or wrong, and it counts as an attempt.
 * @throws rate_limited, not_found (names `challengeId`), challenge_expired, wallet_frozen, and what `work` throws
 */
export async function attempt<Made>(deps: Deps, call: Call, of: Attempt<Made>): Promise<Recovery> {
  requirePace(deps, of.wallet)
  const seen = await seeChallenge(deps, of)
  const generation = of.generation ?? seen.generation
  const outcome = await workedOut(() => of.work(subjectOf(of.wallet, generation, of.challengeId)))
  return deps.db.tx(async (tx) => {
    const locked = await lockRecoverable(tx, deps, call, of.wallet.id)
    requirePace(deps, locked)
    await useChallenge(tx, deps, { ...of, wallet: locked })
    const tried = { ...locked, ...afterAttempt(locked, deps.now()) }
    const wallet = deps.config.rateLimits ? await setRecoveryAttempts(tx, tried) : locked
    if ('refused' in outcome) throw outcome.refused.commitOnThrow()
    return of.effect(tx, wallet, outcome.made)
  })
}

/**
 * Records that the user now has enough to make the whole key, and signs without the service: in the wallet and its user.
 * Ends the delegated sessions, whose caps no longer bind. In the transaction that locks the wallet.
 */
export async function recordExport(
  tx: Db,
  deps: Deps,
  cause: Call,
  wallet: KeyWallet,
  mode: 'release' | 'combine',
): Promise<void> {
  await recordExported(tx, deps, wallet)
  await endSessionsOf(tx, deps, { tenantId: wallet.tenant_id, walletId: wallet.id }, cause)
  await publish(tx, deps, walletEvent(wallet, 'key.recovered', cause, { mode }))
}
