import { requireStepUp } from '../../identity/sessions/service.ts'
import { lockOutActs } from '../../platform/concurrency/user-lock.ts'
import type { Db } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import { failures, HttpError, notFoundField } from '../../platform/http/errors.ts'
import type { Subject } from '../../platform/security/threshold/threshold.ts'
import { findShare, type ShareRow, updateShare } from '../../wallets/custody/service.ts'
import type { WalletRow } from '../../wallets/wallets/service.ts'
import { type Call, lockOwnWallet } from '../../wallets/wallets/service.ts'
import { findKeyWallet, seeChallenge, subjectOf, useChallenge } from './challenge.ts'
import { RECOVERY_ERRORS } from './errors.ts'
import type { Mode, Recover, Recovery } from './schema.ts'
import * as store from './store.ts'
import { afterTry, waitMs } from './tries.ts'

const fail = failures(RECOVERY_ERRORS)

/** A wallet whose key is the user's, too or alone. */
export type KeyWallet = WalletRow & { public_key: Buffer }

/** What is refused because it is wrong: guessed, mixed up or changed. */
const WRONG = ['share_invalid', 'shares_insufficient', 'seal_invalid']

/** Who may recover, and the wallet. @throws what `findKeyWallet` and `requireStepUp` do, wallet_frozen */
export async function findRecoverable(deps: Deps, call: Call, walletId: string): Promise<KeyWallet> {
  const wallet = await findKeyWallet(deps, call, walletId)
  await requireStepUp(deps, call.caller, call.user)
  if (wallet.frozen_at !== null) throw fail('wallet_frozen')
  return wallet
}

/** The same wallet, which nobody else changes or acts for until the transaction ends. @throws not_found, wallet_frozen */
export async function lockRecoverable(tx: Db, deps: Deps, call: Call, walletId: string): Promise<KeyWallet> {
  // Before any row is locked, as who executes does: what they sign is signed before this, or not at all.
  await lockOutActs(tx, call.user.id)
  const wallet = await lockOwnWallet(tx, deps, call, walletId)
  if (wallet === undefined || wallet.public_key === null) throw notFoundField('walletId')
  if (wallet.frozen_at !== null) throw fail('wallet_frozen')
  return { ...wallet, public_key: wallet.public_key }
}

/** @throws rate_limited */
async function requirePace(db: Db, deps: Deps, wallet: WalletRow) {
  const tries = await store.findTries(db, { tenantId: wallet.tenant_id, walletId: wallet.id })
  const leftMs = deps.config.rateLimits ? waitMs(tries, deps.now()) : 0
  if (leftMs > 0) throw fail('rate_limited', [], { 'retry-after': String(Math.ceil(leftMs / 1000)) })
  return tries
}

/** An answer to a challenge. */
export interface Attempt<Made> {
  wallet: KeyWallet
  mode: Mode
  challengeId: string
  generation?: number | undefined
  /** Works out what the answer gives, of what is sealed, in threads: before anything is locked. */
  work(subject: Subject): Promise<Made>
  /** Has the effect. Nothing in here must be done once only: see `Db.tx`. */
  effect(tx: Db, wallet: KeyWallet, made: Made): Promise<Recovery>
}

/** What is wrong with an answer is told only to who has used the challenge up. */
async function workedOut<Made>(work: () => Promise<Made>): Promise<{ made: Made } | { refused: HttpError }> {
  try {
    return { made: await work() }
  } catch (error) {
    if (error instanceof HttpError && WRONG.includes(error.code)) return { refused: error }
    throw error
  }
}

/**
 * Answers a challenge: of any number that do at once, one gets anywhere, be it right or wrong, and it counts as a try.
 * @throws rate_limited, not_found (names `challengeId`), challenge_expired, wallet_frozen, and what `work` does
 */
export async function attempt<Made>(deps: Deps, call: Call, of: Attempt<Made>): Promise<Recovery> {
  await requirePace(deps.db, deps, of.wallet)
  const seen = await seeChallenge(deps, of)
  const generation = of.generation ?? seen.generation
  const outcome = await workedOut(() => of.work(subjectOf(of.wallet, generation, of.challengeId)))
  return deps.db.tx(async (tx) => {
    const wallet = await lockRecoverable(tx, deps, call, of.wallet.id)
    const tries = await requirePace(tx, deps, wallet)
    await useChallenge(tx, deps, { ...of, wallet })
    const which = { tenantId: wallet.tenant_id, walletId: wallet.id }
    if (deps.config.rateLimits) await store.setTries(tx, which, afterTry(tries, deps.now()))
    if ('refused' in outcome) throw outcome.refused.commitOnThrow()
    return of.effect(tx, wallet, outcome.made)
  })
}

/** Notes that shares which the service keeps were used, if all are still there. @throws share_missing */
export async function recordShareUse(tx: Db, deps: Deps, rows: readonly ShareRow[]): Promise<void> {
  const now = deps.now()
  for (const { tenant_id: tenantId, wallet_id: walletId, generation, index, id } of rows) {
    const row = await findShare(tx, { tenantId, walletId, generation, index })
    if (row?.id !== id || row.share_sealed === null) throw fail('share_missing')
    await updateShare(tx, { ...row, last_used_at: now, updated_at: now })
  }
}

/** What of a body belongs to which step. */
type Field = Exclude<keyof Recover, 'walletId' | 'mode'>

const FIELDS: readonly Field[] = [
  'challengeId',
  'generation',
  'proofs',
  'recipientPublicKey',
  'shares',
  'set',
  'participants',
  'dealings',
  'commitments',
  'reshareId',
  'signature',
]

/** A body with these fields for certain. */
export type With<K extends Field> = Recover & { [F in K]: NonNullable<Recover[F]> }

/** That a body has all that a step needs and nothing that is another's. @throws validation_failed */
export function fieldsOf<K extends Field>(input: Recover, needed: readonly K[], optional: readonly Field[] = []) {
  const known: readonly Field[] = [...needed, ...optional]
  const missing = needed.filter((field) => input[field] === undefined)
  const beside = FIELDS.filter((field) => input[field] !== undefined && !known.includes(field))
  const wrong = [
    ...missing.map((field) => ({ field, code: 'required', message: `"${field}" is required for this step.` })),
    ...beside.map((field) => ({ field, code: 'not_allowed', message: 'Is not for this step.' })),
  ]
  if (wrong.length > 0) throw fail('validation_failed', wrong)
  return input as With<K>
}

/** What a step does not answer. */
export const NOTHING = {
  index: null,
  holder: null,
  sealedShare: null,
  sealedKey: null,
  reshareId: null,
  dealings: null,
  transcriptHash: null,
  serverCommitments: null,
  serverSignatureShare: null,
  expiresAt: null,
  shares: null,
} as const
