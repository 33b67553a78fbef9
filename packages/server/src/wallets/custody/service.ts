import { type Db, violatedConstraint } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import { failures, type HttpError } from '../../platform/http/errors.ts'
import { type Id, newId } from '../../platform/ids.ts'
import { isSignedBy } from '../../platform/ports/signature.ts'
import { open, seal } from '../../platform/security/crypto.ts'
import * as threshold from '../../platform/security/threshold/threshold.ts'
import { CUSTODY_ERRORS } from './errors.ts'
import type { KeyShare, NonceCommitments } from './schema.ts'
import * as store from './store.ts'

export { encryptionKeyBytes, openFromClient, sealToClient } from './encryption-key.ts'
export { CUSTODY_ERRORS } from './errors.ts'
export type { ClientCiphertext, ShareRow } from './store.ts'
export { deleteOldEncryptionKeys, dropResharing, endShares, findShare, sharesOf, updateShare } from './store.ts'
export { hasCredential, removeWrapsOf } from './wraps.ts'

const fail = failures(CUSTODY_ERRORS)

/** A row as the wire shows it. */
export function toShare(row: store.ShareRow): KeyShare {
  return {
    id: row.id,
    walletId: row.wallet_id,
    holder: row.holder,
    index: row.index,
    threshold: row.threshold,
    total: row.total,
    generation: row.generation,
    scheme: row.scheme,
    curve: row.curve,
    commitments: row.commitments.map((point) => point.toString('hex')),
    verifyingShare: row.verifying_share.toString('hex'),
    protection: row.protection,
    status: row.status,
    stored: isStored(row),
    lastUsedAt: row.last_used_at?.toISOString() ?? null,
    createdAt: row.created_at.toISOString(),
    updatedAt: row.updated_at.toISOString(),
  }
}

/** Whether the share itself is kept, by whomever it can be opened. */
export const isStored = (row: store.ShareRow) => row.share_sealed !== null || row.client_ciphertext !== null

/** Whether the service could come to know the share: its own, and what a password protects, which can be guessed. */
export const isOpenable = (row: store.ShareRow) =>
  row.share_sealed !== null || row.client_ciphertext?.alg === 'argon2id-aes256gcm'

/** How a row's key is shared. */
export function sharingOf(row: Pick<store.ShareRow, 'threshold' | 'total' | 'commitments'>): threshold.Sharing {
  return { threshold: row.threshold, total: row.total, commitments: row.commitments }
}

/** A refusal by the arithmetic as an answer; `field` is the part of the body that it is about. */
export function asRefusal(error: unknown, field: string): unknown {
  if (!(error instanceof threshold.ShareError)) return error
  const detail = { field, code: error.code, message: error.message, indices: [...error.indices] }
  return error.code === 'sharing_invalid' ? fail('validation_failed', [detail]) : fail(error.code, [detail])
}

/** A refusal of proofs, shares or their like by index. */
export function shareInvalid(field: string, message: string, indices: readonly number[]): HttpError {
  return fail('share_invalid', [{ field, code: 'share_invalid', message, indices: [...indices] }])
}

/** The public keys of all shares, by index − 1, of a sharing of this key. @throws validation_failed (names `commitments`) */
export async function verifyingSharesOf(deps: Deps, sharing: threshold.Sharing, publicKey: Buffer): Promise<Buffer[]> {
  if (!publicKey.equals(sharing.commitments[0] ?? Buffer.alloc(0)))
    throw fail('validation_failed', [
      { field: 'commitments', code: 'invalid', message: "The first commitment must be the wallet's public key." },
    ])
  try {
    return (await deps.threads.run('verifyingShares', sharing)).map((key) => Buffer.from(key))
  } catch (error) {
    throw asRefusal(error, 'commitments')
  }
}

/** Whether a proof (hex) is of the secret behind a public key; the same as the keys' `isProof`, by quicker means. */
export function isProven(
  proof: string,
  publicKey: Buffer,
  purpose: threshold.ProofPurpose,
  subject: threshold.Subject,
  details: threshold.ProofDetails,
): boolean {
  const message = Buffer.from(threshold.proofMessage(purpose, subject, details))
  return isSignedBy(publicKey, message, Buffer.from(proof, 'hex'))
}

const shareSeal = (row: Pick<store.ShareRow, 'tenant_id' | 'wallet_id' | 'index' | 'generation'>) => [
  'key share',
  row.tenant_id,
  row.wallet_id,
  String(row.index),
  String(row.generation),
]

/** The same bytes as a Buffer: no copy of what is secret. */
export const bytesOf = ({ buffer, byteOffset, length }: Uint8Array) => Buffer.from(buffer, byteOffset, length)

/** A share to be added. */
export interface NewShare {
  tenantId: Id<'ten'>
  walletId: Id<'wal'>
  generation: number
  index: number
  holder: KeyShare['holder']
  sharing: threshold.Sharing
  verifyingShare: Buffer
  status: 'pending' | 'active'
  /** What the service keeps: a share that it can open, one that it can't, or none. */
  kept: { scalar: Uint8Array } | { ciphertext: store.ClientCiphertext } | null
}

/**
 * Adds a share, in the transaction that holds its wallet's row. Its maker has checked it against the commitments.
 * @throws already_exists, custody_violation
 */
export async function addShare(tx: Db, deps: Deps, input: NewShare): Promise<store.ShareRow> {
  const now = deps.now()
  const { kept, sharing } = input
  const place = {
    tenant_id: input.tenantId,
    wallet_id: input.walletId,
    index: input.index,
    generation: input.generation,
  }
  const row: store.ShareRow = {
    ...place,
    id: newId('shr'),
    holder: input.holder,
    threshold: sharing.threshold,
    total: sharing.total,
    scheme: threshold.SCHEME,
    curve: 'ed25519',
    commitments: sharing.commitments.map((point) => Buffer.from(point)),
    verifying_share: input.verifyingShare,
    protection: kept !== null && 'scalar' in kept ? 'service' : 'client',
    status: input.status,
    share_sealed:
      kept !== null && 'scalar' in kept ? await seal(deps.keys, bytesOf(kept.scalar), shareSeal(place)) : null,
    client_ciphertext: kept !== null && 'ciphertext' in kept ? kept.ciphertext : null,
    last_used_at: null,
    created_at: now,
    updated_at: now,
  }
  try {
    await store.insertShare(tx, row)
  } catch (error) {
    if (violatedConstraint(error) !== 'key_shares_place') throw error
    throw fail('already_exists', [
      { field: 'index', code: 'already_exists', message: 'There is a share at this index of this generation.' },
    ])
  }
  await requireNotWhole(tx, row)
  return row
}

/**
 * Keeps the client's ciphertext of a share that was only proven so far, in the transaction that holds its wallet's row.
 * @throws custody_violation
 */
export async function attachCiphertext(
  tx: Db,
  deps: Deps,
  row: store.ShareRow,
  ciphertext: store.ClientCiphertext,
): Promise<store.ShareRow> {
  const kept = { ...row, client_ciphertext: ciphertext, updated_at: deps.now() }
  await store.updateShare(tx, kept)
  await requireNotWhole(tx, kept)
  return kept
}

/**
 * That the service could open fewer shares of a generation than make its key. In the transaction that adds to them.
 * @throws custody_violation
 */
async function requireNotWhole(tx: Db, row: store.ShareRow): Promise<void> {
  const rows = await store.sharesOf(tx, row.tenant_id, row.wallet_id)
  const openable = rows.filter(
    (each) => each.generation === row.generation && ['pending', 'active'].includes(each.status) && isOpenable(each),
  )
  if (openable.length < row.threshold) return
  const message = `Of generation ${row.generation} the service could open shares ${openable.map(({ index }) => index).join(', ')}: its own, and those that a password protects, which can be guessed. That must stay below ${row.threshold}.`
  throw fail('custody_violation', [{ code: 'custody_violation', message }])
}

/** Opens a share that the service holds. Fill its scalar with zeros when done. */
export async function openShare(deps: Deps, row: store.ShareRow): Promise<threshold.Share> {
  if (row.share_sealed === null) throw fail('share_missing')
  return { index: row.index, scalar: await open(deps.keys, row.share_sealed, shareSeal(row)) }
}

/** The service's part of a signature, as it is kept and answered. */
export interface CoSignature {
  generation: number
  /** The other signer's, which it was made for. */
  commitments: NonceCommitments
  serverCommitments: NonceCommitments
  /** 32 bytes, hex. */
  serverSignatureShare: string
}

const commitmentsOf = ({ index, hiding, binding }: NonceCommitments): threshold.NonceCommitments => ({
  index,
  hiding: Buffer.from(hiding, 'hex'),
  binding: Buffer.from(binding, 'hex'),
})

/** FROST's commitments as the wire has them. */
export const commitmentsHex = ({ index, hiding, binding }: threshold.NonceCommitments): NonceCommitments => ({
  index,
  hiding: threshold.toHex(hiding),
  binding: threshold.toHex(binding),
})

/** The same read from the wire. */
export const readCommitments = commitmentsOf

/**
 * The service's part of a signature by a `shared` wallet's key. Its nonces live in one call in one thread's memory: what
 * comes out may be thrown away or made again, but no two ever come out of the same nonces.
 * @throws share_missing, share_invalid and validation_failed (name `commitments`)
 */
export async function coSign(
  db: Db,
  deps: Deps,
  wallet: { tenantId: Id<'ten'>; walletId: Id<'wal'>; generation: number },
  commitments: NonceCommitments,
  digest: Buffer,
): Promise<CoSignature> {
  const { server: index } = threshold.HOLDER_INDEX
  const row = await store.findShare(db, { ...wallet, index })
  if (row === undefined || row.status !== 'active') throw fail('share_missing')
  if (commitments.index === index)
    throw fail('validation_failed', [
      { field: 'commitments.index', code: 'invalid', message: 'That share is the service’s. Sign with share 2 or 3.' },
    ])
  const share = await openShare(deps, row)
  try {
    const made = await deps.threads.run('coSign', sharingOf(row), share, commitmentsOf(commitments), digest)
    return {
      generation: row.generation,
      commitments,
      serverCommitments: commitmentsHex(made.commitments),
      serverSignatureShare: threshold.toHex(made.value),
    }
  } catch (error) {
    throw asRefusal(error, 'commitments')
  } finally {
    share.scalar.fill(0)
  }
}
