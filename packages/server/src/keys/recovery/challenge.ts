import type { Db } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import { notFoundField } from '../../platform/http/errors.ts'
import { limitAccount } from '../../platform/http/rate-limits/limits.ts'
import { type Id, isId } from '../../platform/ids.ts'
import { type Challenge, createChallenge, findChallenge, takeChallenge } from '../../platform/security/challenges.ts'
import type { Subject } from '../../platform/security/threshold/threshold.ts'
import { sharesOf } from '../../wallets/custody/service.ts'
import { type Call, findOwnWallet, requireOwnSession, type WalletRow } from '../../wallets/wallets/service.ts'
import { fail } from './errors.ts'
import type { CreateRecoveryChallenge, Mode, RecoveryChallenge } from './schema.ts'

/** A wallet whose key the user has, alone or in part. */
export type KeyWallet = WalletRow & { public_key: Buffer }

/** What a challenge is bound to. */
interface RecoveryBound {
  walletId: Id<'wal'>
  purpose: Mode
  /** The current generation when the challenge was created. */
  generation: number
}

/**
 * The current user's wallet of this id, if the user has its key, alone or in part.
 * @throws user_session_required, not_found and custody_unsupported (name `walletId`)
 */
export async function findKeyWallet(deps: Deps, call: Omit<Call, 'origin'>, walletId: string): Promise<KeyWallet> {
  await requireOwnSession(deps, call)
  const wallet = await findOwnWallet(deps.db, call, walletId)
  if (wallet === undefined) throw notFoundField('walletId')
  const { public_key: key } = wallet
  if (wallet.custody !== 'embedded' && key !== null) return { ...wallet, public_key: key }
  const message = 'The key of an embedded wallet belongs to the service and has no shares.'
  throw fail('custody_unsupported').about('walletId', message)
}

/** What every proof and seal of a recovery is bound to. */
export const subjectOf = (wallet: WalletRow, generation: number, challengeId: string | null): Subject => ({
  tenantId: wallet.tenant_id,
  appId: wallet.app_id,
  userId: wallet.user_id,
  walletId: wallet.id,
  generation,
  challengeId,
})

/** The current generation of a `shared` wallet; of a `self_custody` wallet, the newest one that has active shares. */
async function currentGeneration(deps: Deps, wallet: WalletRow): Promise<number> {
  if (wallet.custody === 'shared') return wallet.generation ?? 1
  const rows = await sharesOf(deps.db, wallet.tenant_id, wallet.id)
  const live = rows.filter(({ status }) => status === 'active').map(({ generation }) => generation)
  return live.length > 0 ? Math.max(...live) : (wallet.generation ?? 1)
}

/** Creates the challenge that a recovery's proofs and seals are bound to. It is valid for five minutes and one answer. */
export async function newChallenge(
  deps: Deps,
  call: Omit<Call, 'origin'>,
  input: CreateRecoveryChallenge,
): Promise<RecoveryChallenge> {
  await limitAccount(deps, `recovery ${call.user.id}`)
  const wallet = await findKeyWallet(deps, call, input.walletId)
  const generation = await currentGeneration(deps, wallet)
  const data: RecoveryBound = { walletId: wallet.id, purpose: input.purpose, generation }
  const of = { tenantId: wallet.tenant_id, appId: wallet.app_id, kind: 'recovery' as const, userId: wallet.user_id }
  const { id, expiresAt } = await createChallenge(deps.db, deps.now(), { ...of, data })
  return { challengeId: id, subject: subjectOf(wallet, generation, id), expiresAt: expiresAt.toISOString() }
}

/** An answer to a challenge. */
interface Answered {
  wallet: WalletRow
  mode: Mode
  challengeId: string
}

/** The challenge is the user's, for this wallet and mode, and can be answered. @throws not_found, challenge_expired */
function checked(challenge: Challenge<RecoveryBound> | undefined, { wallet, mode }: Answered): { generation: number } {
  const bound = challenge?.data
  if (challenge?.userId !== wallet.user_id || bound?.walletId !== wallet.id || bound.purpose !== mode)
    throw notFoundField('challengeId')
  const superseded = wallet.custody === 'shared' && bound.generation !== wallet.generation
  if (challenge.over || superseded) throw fail('challenge_expired')
  return { generation: bound.generation }
}

async function look(find: typeof findChallenge, db: Db, deps: Deps, answered: Answered) {
  const { wallet, challengeId: id } = answered
  const of = { tenantId: wallet.tenant_id, appId: wallet.app_id, kind: 'recovery' as const }
  const found = isId('chl', id) ? await find<RecoveryBound>(db, deps.now(), { ...of, id }) : undefined
  return checked(found, answered)
}

/** Reads the challenge of an answer. @throws not_found (names `challengeId`), challenge_expired */
export function seeChallenge(deps: Deps, answered: Answered): Promise<{ generation: number }> {
  return look(findChallenge, deps.db, deps, answered)
}

/** The same, and uses it up. An error here rolls that back. */
export function useChallenge(tx: Db, deps: Deps, answered: Answered): Promise<{ generation: number }> {
  return look(takeChallenge, tx, deps, answered)
}
