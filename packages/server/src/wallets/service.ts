import { randomBytes } from 'node:crypto'
import { getApp, resolveApp } from '../apps/service.ts'
import { CHALLENGE_MS, createChallenge, takeChallenge } from '../core/challenges.ts'
import type { Db } from '../core/db.ts'
import type { Deps } from '../core/deps.ts'
import { type ErrorTable, failures, HttpError, invalid, notFoundField } from '../core/errors.ts'
import type { EventType } from '../core/event-catalogue.ts'
import { type EventInput, publish } from '../core/events.ts'
import { type Caller, type CurrentUser, type Origin, type Page, paging } from '../core/http.ts'
import { type Id, isId, newId } from '../core/ids.ts'
import { keepOutActs } from '../core/user-queue.ts'
import type { Ledger } from '../ledger/ledger.ts'
import { isSignedBy, signatureBytes } from '../ledger/signature.ts'
import { ownUser } from '../sessions/service.ts'
import { nodePublicKey } from '../tenant/service.ts'
import { type HeldUser, holdUser, setTrustLevel } from '../users/service.ts'
import { keyProblem } from './ed25519.ts'
import type { CreateWallet, CreateWalletChallenge, ListWallets, Wallet, WalletChallenge } from './schema.ts'
import * as store from './store.ts'

export type { WalletRow } from './store.ts'

export const WALLET_ERRORS = {
  signature_invalid: [400, 'This signature is not right. Ask for a new challenge and sign its message.'],
  user_session_required: [403, "This needs the user's own access token; a server can't do it in their name."],
  wallet_not_found: [404, 'This user has no wallet.'],
  wallet_exists: [409, 'This user has a wallet already.'],
  challenge_expired: [410, 'This challenge has been answered or is over. Ask for a new one.'],
} as const satisfies ErrorTable

const fail = failures(WALLET_ERRORS)

const NONCE_BYTES = 32

/** Who does it, from where and for whom. */
interface Call {
  caller: Caller
  origin: Origin
  user: CurrentUser
}

/** What an answered challenge is held against. */
interface ProofOfPossession {
  custody: 'self_custody'
  ledger: string
  /** Hex. */
  publicKey: string
  /** What is signed, in UTF-8. */
  message: string
}

/** @throws validation_failed (names `ledger`) */
function ledgerOf(deps: Deps, name: string | undefined): Ledger {
  const ledger = name === undefined ? deps.ledgers.values().next().value : deps.ledgers.get(name)
  if (ledger !== undefined) return ledger
  throw invalid('ledger', `Must be one of: ${[...deps.ledgers.keys()].join(', ')}.`, 'ledger_unknown')
}

/** Makes the message by whose signature a user proves that a key is theirs; it is good for one wallet. */
export async function challenge(
  deps: Deps,
  { caller, user }: Omit<Call, 'origin'>,
  input: CreateWalletChallenge,
): Promise<WalletChallenge> {
  const { tenantId } = caller
  const ledger = ledgerOf(deps, input.ledger).name
  const { custody, publicKey } = input
  const problem = keyProblem(Buffer.from(publicKey, 'hex'))
  if (problem !== null) throw invalid('publicKey', problem)
  const now = deps.now()
  const expiry = new Date(now.getTime() + CHALLENGE_MS).toISOString()
  const nonce = randomBytes(NONCE_BYTES).toString('hex')
  const message = ['halfkey/pop/v1', tenantId, user.appId, user.id, ledger, publicKey, nonce, expiry].join('\n')
  const data: ProofOfPossession = { custody, ledger, publicKey, message }
  const bound = { tenantId, appId: user.appId, kind: 'wallet' as const, userId: user.id, data }
  const { id } = await createChallenge(deps.db, now, bound)
  return { challengeId: id, message, expiresAt: expiry }
}

const PROOF_FIELDS = ['publicKey', 'challengeId', 'proof'] as const

/** What proves a key, all of it or nothing. @throws validation_failed */
function proofOf(input: CreateWallet): { publicKey: string; challengeId: string; proof: string } | null {
  const custody = input.custody ?? 'embedded'
  const wrong = PROOF_FIELDS.filter((field) => (input[field] === undefined) === (custody === 'self_custody'))
  const detail = (field: string) =>
    custody === 'embedded'
      ? { field, code: 'not_allowed', message: "Is for self_custody: an embedded wallet has the service's key." }
      : { field, code: 'required', message: `"${field}" is required for self_custody.` }
  if (wrong.length > 0) throw fail('validation_failed', wrong.map(detail))
  const { publicKey, challengeId, proof } = input
  if (publicKey === undefined || challengeId === undefined || proof === undefined) return null
  return { publicKey, challengeId, proof }
}

/** @throws user_session_required where a server acts for the user and the app does not let it touch users' keys */
async function requireOwnSession(deps: Deps, { caller, user }: Call): Promise<void> {
  if (user.sessionId !== null) return
  const { mpc } = await getApp(deps, caller, user.appId)
  if (!mpc.allowServer) throw fail('user_session_required')
}

/** The user, who from here on neither goes nor ends nor gets a wallet by another call. */
async function hold(tx: Db, deps: Deps, { caller, user }: Call): Promise<HeldUser> {
  const held = await holdUser(tx, deps, caller.tenantId, user.id)
  if (held === undefined) throw user.sessionId === null ? notFoundField('x-user-id') : fail('session_revoked')
  if (held.suspended) throw fail('user_suspended')
  if (held.ended) throw fail('guest_expired')
  return held
}

/** @param more what the event tells beside the wallet and its user */
function event(row: store.WalletRow, type: EventType, cause: EventInput['cause'], more: object = {}): EventInput {
  const data = { walletId: row.id, userId: row.user_id, ...more }
  return { tenantId: row.tenant_id, appId: row.app_id, type, data, cause }
}

/** Writes a wallet with what tells of it; one on a ledger that joins is ready at once. */
async function addWallet(
  tx: Db,
  deps: Deps,
  { caller, origin, user }: Call,
  wallet: { id: Id<'wal'>; ledger: Ledger; custody: 'embedded' | 'self_custody'; partyId: string; publicKey: Buffer },
): Promise<Wallet> {
  const now = deps.now()
  const { ledger, custody } = wallet
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
    threshold: null,
    total: null,
    generation: null,
    status: ledger.joins ? 'ready' : 'pending',
    frozen_at: null,
    onboard_at: ledger.joins ? null : now,
    onboard_attempts: 0,
    created_at: now,
    updated_at: now,
  }
  await store.insertWallet(tx, row)
  await setTrustLevel(tx, deps, { tenantId: row.tenant_id, id: row.user_id, trustLevel: custody })
  const cause = { caller, origin }
  await publish(tx, deps, event(row, 'wallet.created', cause, { custody, ledger: ledger.name }))
  if (ledger.joins) await publish(tx, deps, event(row, 'wallet.ready', cause))
  return store.toWallet(row)
}

async function createEmbedded(deps: Deps, call: Call, input: CreateWallet): Promise<Wallet> {
  const ledger = ledgerOf(deps, input.ledger)
  const { tenantId } = call.caller
  const publicKey = await nodePublicKey(deps, tenantId)
  return deps.db.tx(async (tx) => {
    const { partyId } = await hold(tx, deps, call)
    if (await store.findWalletOf(tx, tenantId, call.user.id)) throw fail('wallet_exists')
    return addWallet(tx, deps, call, { id: newId('wal'), ledger, custody: 'embedded', partyId, publicKey })
  })
}

/** The challenge that an input answers, and no other user's. @throws not_found, validation_failed */
async function takeOwnChallenge(
  tx: Db,
  deps: Deps,
  { caller, user }: Call,
  input: CreateWallet & { publicKey: string },
) {
  const of = { tenantId: caller.tenantId, appId: user.appId, kind: 'wallet' as const }
  const { challengeId: id } = input
  const taken =
    id !== undefined && isId('chl', id)
      ? await takeChallenge<ProofOfPossession>(tx, deps.now(), { ...of, id })
      : undefined
  // What is thrown before the proof is looked at leaves the challenge as it was.
  if (taken === undefined || taken.userId !== user.id || taken.data.custody !== 'self_custody')
    throw notFoundField('challengeId')
  for (const field of ['publicKey', 'ledger'] as const)
    if (input[field] !== undefined && input[field] !== taken.data[field])
      throw invalid(field, 'Must be the one that the challenge was made for.')
  return taken
}

async function createSelfCustody(
  deps: Deps,
  call: Call,
  input: CreateWallet,
  answer: NonNullable<ReturnType<typeof proofOf>>,
): Promise<Wallet> {
  if (input.ledger !== undefined) ledgerOf(deps, input.ledger)
  await requireOwnSession(deps, call)
  return deps.db.tx(async (tx) => {
    await hold(tx, deps, call)
    const taken = await takeOwnChallenge(tx, deps, call, { ...input, publicKey: answer.publicKey })
    if (await store.findWalletOf(tx, call.caller.tenantId, call.user.id)) throw fail('wallet_exists')
    if (taken.over) throw fail('challenge_expired')
    const ledger = ledgerOf(deps, taken.data.ledger)
    const publicKey = Buffer.from(answer.publicKey, 'hex')
    if (!isSignedBy(publicKey, Buffer.from(taken.data.message), signatureBytes(answer.proof))) {
      const message = "Is not the key's signature over the challenge's message. The challenge is used up."
      throw fail('signature_invalid', [{ field: 'proof', code: 'signature_invalid', message }]).keepingEffects()
    }
    const id = newId('wal')
    const partyId = ledger.deriveParty(id, publicKey)
    return addWallet(tx, deps, call, { id, ledger, custody: 'self_custody', partyId, publicKey })
  })
}

/**
 * Gives the current user a wallet, the one that they can have: of any number that ask at once one does.
 * @throws validation_failed, user_session_required, not_found (names `challengeId`), wallet_exists, challenge_expired,
 * signature_invalid
 */
export async function createWallet(deps: Deps, call: Call, input: CreateWallet): Promise<Wallet> {
  const answer = proofOf(input)
  return answer === null ? createEmbedded(deps, call, input) : createSelfCustody(deps, call, input, answer)
}

/** A user's wallet as it is stored, or undefined. */
export function findWalletOf(db: Db, tenantId: Id<'ten'>, userId: Id<'usr'>): Promise<store.WalletRow | undefined> {
  return store.findWalletOf(db, tenantId, userId)
}

/** The current user's wallet. @throws wallet_not_found */
export async function getOwnWallet(deps: Deps, { caller, user }: Omit<Call, 'origin'>): Promise<Wallet> {
  const row = await store.findWalletOf(deps.db, caller.tenantId, user.id)
  if (row === undefined) throw fail('wallet_not_found')
  return store.toWallet(row)
}

/** The wallet of a user, or of a guest, for a developer. @throws not_found, wallet_not_found */
export async function getWalletOf(deps: Deps, caller: Caller, userId: string): Promise<Wallet> {
  const id = await ownUser(deps, caller, userId)
  const row = await store.findWalletOf(deps.db, caller.tenantId, id)
  if (row === undefined) throw fail('wallet_not_found')
  return store.toWallet(row)
}

async function findOwn(find: typeof store.findWallet, db: Db, caller: Caller, id: string): Promise<store.WalletRow> {
  const row = isId('wal', id) ? await find(db, caller.tenantId, id, caller.appId) : undefined
  if (row === undefined) throw fail('not_found')
  return row
}

/** @throws not_found, the same for another tenant's, another app's and none */
export async function getWallet(deps: Deps, caller: Caller, id: string): Promise<Wallet> {
  return store.toWallet(await findOwn(store.findWallet, deps.db, caller, id))
}

async function seesUser(deps: Deps, caller: Caller, id: string): Promise<boolean> {
  try {
    await ownUser(deps, caller, id)
    return true
  } catch (error) {
    if (error instanceof HttpError && error.code === 'not_found') return false
    throw error
  }
}

/** A page of the wallets that a filter finds, newest first. @throws not_found (names `app_id`, `user_id`) */
export async function listWallets(deps: Deps, caller: Caller, query: ListWallets): Promise<Page<Wallet>> {
  const { page, pageSize, offset } = paging(query)
  const appId = query.app_id === undefined ? caller.appId : await resolveApp(deps, caller, query.app_id, 'app_id')
  if (query.user_id !== undefined && !(await seesUser(deps, caller, query.user_id))) throw notFoundField('user_id')
  const filter: store.WalletFilter = {
    tenantId: caller.tenantId,
    appId,
    userId: query.user_id ?? null,
    custody: query.custody ?? null,
    status: query.status ?? null,
    ledger: query.ledger === undefined ? null : ledgerOf(deps, query.ledger).name,
  }
  const { rows, total } = await store.listWallets(deps.db, filter, { offset, pageSize })
  return { items: rows.map(store.toWallet), total, page, pageSize }
}

/** Freezes a wallet: it signs nothing any more. A frozen one is answered as it is, without an event. @throws not_found */
export async function freezeWallet(deps: Deps, { caller, origin }: Omit<Call, 'user'>, id: string): Promise<Wallet> {
  const { user_id: userId } = await findOwn(store.findWallet, deps.db, caller, id)
  return deps.db.tx(async (tx) => {
    await keepOutActs(tx, userId)
    const before = await findOwn(store.lockWallet, tx, caller, id)
    if (before.frozen_at !== null) return store.toWallet(before)
    const now = deps.now()
    const row = { ...before, frozen_at: now, updated_at: now }
    await store.setFrozen(tx, row)
    await publish(tx, deps, event(row, 'wallet.frozen', { caller, origin }))
    return store.toWallet(row)
  })
}

/**
 * Lets a frozen wallet sign again; one that is not frozen is answered as it is. A guest's that has ended stays frozen.
 * @throws not_found, guest_expired
 */
export async function unfreezeWallet(deps: Deps, caller: Caller, id: string): Promise<Wallet> {
  const { user_id: userId } = await findOwn(store.findWallet, deps.db, caller, id)
  return deps.db.tx(async (tx) => {
    await keepOutActs(tx, userId)
    // The user before the wallet, as for who ends a guest: what that freezes is not undone here.
    const held = await holdUser(tx, deps, caller.tenantId, userId)
    const before = await findOwn(store.lockWallet, tx, caller, id)
    if (held?.ended === true) throw fail('guest_expired')
    if (before.frozen_at === null) return store.toWallet(before)
    const row = { ...before, frozen_at: null, updated_at: deps.now() }
    await store.setFrozen(tx, row)
    return store.toWallet(row)
  })
}

/** Freezes a user's wallet, if there is one that is not frozen, in the transaction of what is the reason for it. */
export async function freezeWalletOf(
  tx: Db,
  deps: Deps,
  tenantId: Id<'ten'>,
  userId: Id<'usr'>,
  cause?: EventInput['cause'],
): Promise<void> {
  const row = await store.freezeWalletOf(tx, deps.now(), tenantId, userId)
  if (row !== undefined) await publish(tx, deps, event(row, 'wallet.frozen', cause))
}
