import type { Db } from '../../platform/db/db.ts'
import { wire } from '../../platform/db/rows.ts'
import type { Deps } from '../../platform/deps.ts'
import { existing, pathId } from '../../platform/http/errors.ts'
import type { Id } from '../../platform/ids.ts'
import { open, seal } from '../../platform/security/crypto.ts'
import type * as threshold from '../../platform/security/threshold/threshold.ts'
import { bytesOf } from '../../wallets/custody/service.ts'
import { type Call, requireOwnSession } from '../../wallets/wallets/service.ts'
import { fail } from './errors.ts'
import type { KeyGeneration, Round1 } from './schema.ts'
import * as store from './store.ts'

/** The context that the service's secrets are sealed under. It separates the polynomial from the share. */
const stateSeal = (row: Pick<store.KeyGenerationRow, 'tenant_id' | 'id'>, what: 'polynomial' | 'share') => [
  'key generation',
  row.tenant_id,
  row.id,
  what,
]

/** Seals a secret of the service for the time between two rounds. */
export function sealState(
  deps: Deps,
  row: Pick<store.KeyGenerationRow, 'tenant_id' | 'id'>,
  what: 'polynomial' | 'share',
  secret: Uint8Array,
): Promise<Buffer> {
  return seal(deps.keys, bytesOf(secret), stateSeal(row, what))
}

/** The same secret, opened. Fill it with zeros after use. @throws dkg_expired */
export async function openState(
  deps: Deps,
  row: store.KeyGenerationRow,
  what: 'polynomial' | 'share',
): Promise<Buffer> {
  // The secret may have been destroyed after the check of the row.
  if (row.state_sealed === null) throw fail('dkg_expired')
  return open(deps.keys, row.state_sealed, stateSeal(row, what))
}

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

/** A participant's first message from the wire. */
export function readRound1({ index, commitments, proofOfKnowledge }: Round1): threshold.DkgRound1 {
  return {
    index,
    commitments: commitments.map((point) => Buffer.from(point, 'hex')),
    proofOfKnowledge: Buffer.from(proofOfKnowledge, 'hex'),
  }
}

/** Whether a key generation that was not confirmed has expired. */
export const isExpired = (row: store.KeyGenerationRow, now: Date) => row.expires_at <= now

/** A key generation as the API returns it. */
export function toKeyGeneration(row: store.KeyGenerationRow, now: Date): KeyGeneration {
  const isOpen = row.status === 'round1' || row.status === 'round2'
  return {
    dkgId: row.id,
    status: isOpen && isExpired(row, now) ? 'expired' : row.status,
    ledger: row.ledger,
    subject: subjectOf(row),
    round1: row.round1[0] as Round1,
    transcriptHash: row.transcript.toString('hex'),
    publicKey: row.sharing?.commitments[0] ?? null,
    ...wire(row, 'wallet_id expires_at created_at updated_at'),
  }
}

/** @throws dkg_expired if it was canceled, or expired before it was confirmed */
export function requireInProgress(row: store.KeyGenerationRow, now: Date): void {
  if (row.status === 'canceled') throw fail('dkg_expired')
  if (row.status !== 'confirmed' && isExpired(row, now)) throw fail('dkg_expired')
}

/** Both sides have seen the same first messages. @throws protocol_violated (names `transcriptHash`) */
export function requireSameTranscript(row: store.KeyGenerationRow, transcriptHash: string): void {
  if (row.transcript.toString('hex') === transcriptHash) return
  const message = 'The two sides did not see the same first messages. Start another key generation.'
  throw fail('protocol_violated', [{ field: 'transcriptHash', code: 'transcript_differs', message }])
}

const placeOf = ({ caller, user }: Omit<Call, 'origin'>, id: Id<'dkg'>): store.Place => ({
  tenantId: caller.tenantId,
  appId: user.appId,
  userId: user.id,
  id,
})

/** The current user's key generation. @throws not_found, user_session_required */
export async function findOwn(deps: Deps, call: Omit<Call, 'origin'>, id: string): Promise<store.KeyGenerationRow> {
  const row = existing(await store.findKeyGeneration(deps.db, placeOf(call, pathId('dkg', id))))
  await requireOwnSession(deps, call)
  return row
}

/** The same as it is now, locked until the transaction ends. @throws not_found */
export async function lockOwn(
  tx: Db,
  call: Omit<Call, 'origin'>,
  { id }: store.KeyGenerationRow,
): Promise<store.KeyGenerationRow> {
  return existing(await store.lockKeyGeneration(tx, placeOf(call, id)))
}

/** The row without its secrets. */
export const withoutSecrets = (row: store.KeyGenerationRow): store.KeyGenerationRow => ({
  ...row,
  state_sealed: null,
  round2: null,
})
