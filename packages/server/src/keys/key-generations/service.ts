import type { Db } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import { failures, invalid } from '../../platform/http/errors.ts'
import { limitAccount } from '../../platform/http/rate-limits/limits.ts'
import { type Id, isId, newId } from '../../platform/ids.ts'
import { open, seal } from '../../platform/security/crypto.ts'
import * as threshold from '../../platform/security/threshold/threshold.ts'
import { asRefusal, CUSTODY_ERRORS, encryptionKeyBytes, sealToClient } from '../../wallets/custody/service.ts'
import {
  type Call,
  findWalletOf,
  ledgerOf,
  lockOwner,
  requireOwnSession,
  WALLET_ERRORS,
} from '../../wallets/wallets/service.ts'
import { KEY_GENERATION_ERRORS } from './errors.ts'
import type { BeginKeyGeneration, KeyGeneration, Round1 } from './schema.ts'
import * as store from './store.ts'

export { KEY_GENERATION_ERRORS } from './errors.ts'

const fail = failures({ ...CUSTODY_ERRORS, ...WALLET_ERRORS, ...KEY_GENERATION_ERRORS })

const LIFETIME_MS = 10 * 60_000
/** What is over can be looked at for so long; a confirmation can be repeated. */
const KEPT_MS = 24 * 3_600_000
/** Under way of one user, the one that begins included; and of those that were canceled, how many are remembered. */
const OPEN_MAX = 5
const CANCELED_MAX = 20
const PORTION = 500

const { server, device, recovery } = threshold.HOLDER_INDEX

/** What the service's secrets of a key generation are sealed under: its polynomial is never taken for its share. */
const stateSeal = (row: Pick<store.KeyGenerationRow, 'tenant_id' | 'id'>, what: 'polynomial' | 'share') => [
  'key generation',
  row.tenant_id,
  row.id,
  what,
]

/** What every seal and proof of a key generation is bound to. */
export function subjectOf(row: Pick<store.KeyGenerationRow, 'tenant_id' | 'app_id' | 'user_id' | 'id'>) {
  return {
    tenantId: row.tenant_id,
    appId: row.app_id,
    userId: row.user_id,
    walletId: null,
    generation: 1,
    challengeId: row.id,
  }
}

/** A first message read from the wire. */
export function readRound1({ index, commitments, proofOfKnowledge }: Round1): threshold.DkgRound1 {
  return {
    index,
    commitments: commitments.map((point) => Buffer.from(point, 'hex')),
    proofOfKnowledge: Buffer.from(proofOfKnowledge, 'hex'),
  }
}

/** Whether its time is over before it was confirmed. */
const isExpired = (row: store.KeyGenerationRow, now: Date) => row.expires_at <= now

/** A row as the wire shows it. */
function toKeyGeneration(row: store.KeyGenerationRow, now: Date): KeyGeneration {
  const isOpen = row.status === 'round1' || row.status === 'round2'
  return {
    dkgId: row.id,
    status: isOpen && isExpired(row, now) ? 'expired' : row.status,
    ledger: row.ledger,
    subject: subjectOf(row),
    round1: row.round1[0] as Round1,
    transcriptHash: row.transcript.toString('hex'),
    publicKey: row.sharing?.commitments[0] ?? null,
    walletId: row.wallet_id,
    expiresAt: row.expires_at.toISOString(),
    createdAt: row.created_at.toISOString(),
    updatedAt: row.updated_at.toISOString(),
  }
}

/** @throws dkg_expired once it is canceled, or its time is over before it was confirmed */
export function requireInProgress(row: store.KeyGenerationRow, now: Date): void {
  if (row.status === 'canceled') throw fail('dkg_expired')
  if (row.status !== 'confirmed' && isExpired(row, now)) throw fail('dkg_expired')
}

/** That both sides have seen the same first messages. @throws protocol_violated (names `transcriptHash`) */
export function requireSameTranscript(row: store.KeyGenerationRow, transcriptHash: string): void {
  if (row.transcript.toString('hex') === transcriptHash) return
  const message = 'The two sides have not seen the same first messages. Begin again.'
  throw fail('protocol_violated', [{ field: 'transcriptHash', code: 'transcript_differs', message }])
}

/** What the service keeps of a key generation. */
export function sealState(
  deps: Deps,
  row: Pick<store.KeyGenerationRow, 'tenant_id' | 'id'>,
  what: 'polynomial' | 'share',
  secret: Uint8Array,
): Promise<Buffer> {
  return seal(deps.keys, Buffer.from(secret.buffer, secret.byteOffset, secret.length), stateSeal(row, what))
}

/** What the service keeps of a key generation, opened. Fill it with zeros when done. @throws dkg_expired */
export async function openState(
  deps: Deps,
  row: store.KeyGenerationRow,
  what: 'polynomial' | 'share',
): Promise<Buffer> {
  // Wiped between the look at the row and this.
  if (row.state_sealed === null) throw fail('dkg_expired')
  return open(deps.keys, row.state_sealed, stateSeal(row, what))
}

/** Whether entries are of these indices, each once. */
export function areOf(indices: readonly number[], entries: readonly { index: number }[]): boolean {
  const seen = entries.map(({ index }) => index).sort((a, b) => a - b)
  return seen.length === indices.length && seen.every((index, at) => index === indices[at])
}

/** The user's participants, by index, their keys in hex. @throws validation_failed (names `participants`, `round1`) */
async function participantsOf({ participants, round1 }: BeginKeyGeneration) {
  const isHolder = ({ index, holder }: (typeof participants)[number]) => threshold.HOLDER_INDEX[holder] === index
  if (!areOf([device, recovery], participants) || !participants.every(isHolder))
    throw invalid('participants', 'Must be index 2, held by device, and index 3, held by recovery.')
  if (!areOf([device, recovery], round1)) throw invalid('round1', 'Must be of index 2 and of index 3, each once.')
  const read = participants.map(({ index, holder, encryptionKey }) => ({
    index,
    holder: holder as 'device' | 'recovery',
    encryptionKey: encryptionKeyBytes(encryptionKey).toString('hex'),
  }))
  // Tried out here: a key that nothing can be sealed to would be noticed when the service's polynomial is used up.
  for (const [at, { encryptionKey }] of read.entries())
    await sealToClient(
      Buffer.from(encryptionKey, 'hex'),
      { purpose: 'dkg-subshare', context: {}, field: `participants.${at}.encryptionKey` },
      Buffer.alloc(0),
    )
  return read.sort((a, b) => a.index - b.index)
}

const toWire = ({ index, commitments, proofOfKnowledge }: threshold.DkgRound1): Round1 => ({
  index,
  commitments: commitments.map(threshold.toHex),
  proofOfKnowledge: threshold.toHex(proofOfKnowledge),
})

/** The service's polynomial and first message, after those of the others were checked. @throws protocol_violated */
async function beginAfter(deps: Deps, others: readonly Round1[]) {
  try {
    return await deps.threads.run('beginDkg', server, threshold.SHARED_SIGNERS, others.map(readRound1))
  } catch (error) {
    throw asRefusal(error, 'round1')
  }
}

async function newRow(deps: Deps, { caller, user }: Call, input: BeginKeyGeneration): Promise<store.KeyGenerationRow> {
  const participants = await participantsOf(input)
  const ledger = ledgerOf(deps, input.ledger).name
  const others = [...input.round1].sort((a, b) => a.index - b.index)
  const { state, round1: own } = await beginAfter(deps, others)
  const now = deps.now()
  const place = { tenant_id: caller.tenantId, id: newId('dkg'), app_id: user.appId, user_id: user.id }
  const round1 = [toWire(own), ...others]
  const transcript = threshold.dkgTranscript(subjectOf(place), participants, round1.map(readRound1))
  const polynomial = Buffer.concat(state.coefficients)
  const sealed = await sealState(deps, place, 'polynomial', polynomial)
  for (const secret of [polynomial, ...state.coefficients]) secret.fill(0)
  return {
    ...place,
    ledger,
    status: 'round1',
    participants,
    round1,
    state_sealed: sealed,
    sharing: null,
    transcript: Buffer.from(transcript),
    round2_hash: null,
    round2: null,
    wallet_id: newId('wal'),
    expires_at: new Date(now.getTime() + LIFETIME_MS),
    created_at: now,
    updated_at: now,
  }
}

/**
 * Begins to generate a key with a user's device: the user's participants have said their part first, the service says its
 * own. Of a user's key generations the last five go on.
 * @throws user_session_required, validation_failed, wallet_exists, protocol_violated, rate_limited
 */
export async function beginKeyGeneration(deps: Deps, call: Call, input: BeginKeyGeneration): Promise<KeyGeneration> {
  const { caller, user } = call
  await requireOwnSession(deps, call)
  const { tenantId } = caller
  if (await findWalletOf(deps.db, tenantId, user.id)) throw fail('wallet_exists')
  await limitAccount(deps, `dkg ${user.id}`)
  const row = await newRow(deps, call, input)
  await deps.db.tx(async (tx) => {
    await lockOwner(tx, deps, call)
    if (await findWalletOf(tx, tenantId, user.id)) throw fail('wallet_exists')
    await store.cancelOlder(tx, row.created_at, { tenantId, userId: user.id, keep: OPEN_MAX - 1 })
    await store.forgetOlder(tx, { tenantId, userId: user.id, keep: CANCELED_MAX })
    await store.insertKeyGeneration(tx, row)
  })
  return toKeyGeneration(row, deps.now())
}

const placeOf = ({ caller, user }: Omit<Call, 'origin'>, id: Id<'dkg'>): store.Place => ({
  tenantId: caller.tenantId,
  appId: user.appId,
  userId: user.id,
  id,
})

/** The current user's key generation. @throws not_found for another's and for none; user_session_required */
export async function findOwn(deps: Deps, call: Omit<Call, 'origin'>, id: string): Promise<store.KeyGenerationRow> {
  const row = isId('dkg', id) ? await store.findKeyGeneration(deps.db, placeOf(call, id)) : undefined
  if (row === undefined) throw fail('not_found')
  await requireOwnSession(deps, call)
  return row
}

/** The same once it was found, as it is now, and nobody else changes it until the transaction ends. @throws not_found */
export async function lockOwn(
  tx: Db,
  call: Omit<Call, 'origin'>,
  { id }: store.KeyGenerationRow,
): Promise<store.KeyGenerationRow> {
  const row = await store.lockKeyGeneration(tx, placeOf(call, id))
  if (row === undefined) throw fail('not_found')
  return row
}

/** The current user's key generation as it stands. @throws not_found, user_session_required */
export async function getKeyGeneration(deps: Deps, call: Omit<Call, 'origin'>, id: string): Promise<KeyGeneration> {
  return toKeyGeneration(await findOwn(deps, call, id), deps.now())
}

/** A row of which nothing secret is kept any more. */
export const wiped = (row: store.KeyGenerationRow): store.KeyGenerationRow => ({
  ...row,
  state_sealed: null,
  round2: null,
})

/**
 * Ends a key generation and wipes what was secret in it; one that is over is answered as it is.
 * @throws not_found, user_session_required, dkg_conflict once it has made a wallet
 */
export async function cancelKeyGeneration(deps: Deps, call: Omit<Call, 'origin'>, id: string): Promise<KeyGeneration> {
  const found = await findOwn(deps, call, id)
  return deps.db.tx(async (tx) => {
    const before = await lockOwn(tx, call, found)
    if (before.status === 'confirmed')
      throw fail('dkg_conflict', [{ code: 'confirmed', message: 'It has made a wallet already.' }])
    const now = deps.now()
    if (before.status === 'canceled') return toKeyGeneration(before, now)
    const status = isExpired(before, now) ? before.status : ('canceled' as const)
    const row = { ...wiped(before), status, updated_at: now }
    await store.updateKeyGeneration(tx, row)
    return toKeyGeneration(row, now)
  })
}

/**
 * Wipes what is secret in a portion of the key generations whose time is over, and deletes a portion of those that nobody
 * asks for any more; of all tenants. @returns whether there may be more
 */
export async function sweepKeyGenerations(deps: Deps): Promise<boolean> {
  const now = deps.now()
  const wipedRows = await store.wipeExpired(deps.db, now, PORTION)
  const deleted = await store.deleteExpired(deps.db, new Date(now.getTime() - KEPT_MS), PORTION)
  return wipedRows === PORTION || deleted === PORTION
}
