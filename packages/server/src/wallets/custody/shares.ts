import { type Db, violatedConstraint } from '../../platform/db/db.ts'
import { wire } from '../../platform/db/rows.ts'
import type { Deps } from '../../platform/deps.ts'
import { invalid } from '../../platform/http/errors.ts'
import { type Id, newId } from '../../platform/ids.ts'
import { isSignedBy } from '../../platform/ports/signature.ts'
import type { RecordRow } from '../../platform/security/records/kind.ts'
import * as threshold from '../../platform/security/threshold/threshold.ts'
import { asRefusal, fail } from './errors.ts'
import type { KeyShare } from './schema.ts'
import { SHARE_RECORD } from './share-record.ts'
import { type Custody, openSealed, sealShare } from './share-seal.ts'
import * as store from './store.ts'

/** A share's record as the API returns it. */
export function toShare(row: store.ShareRow): KeyShare {
  const shown = {
    ...row,
    commitments: row.commitments.map((point) => point.toString('hex')),
    verifying_share: row.verifying_share.toString('hex'),
    stored: isStored(row),
  }
  return wire(
    shown,
    `id wallet_id holder index threshold total generation scheme curve commitments verifying_share protection status
    stored last_used_at created_at updated_at`,
  )
}

/** Whether a share is live: neither superseded nor deleted. */
export const isLive = (row: store.ShareRow) => row.status === 'pending' || row.status === 'active'

/** Whether the share itself is stored here, no matter who can open it. */
export const isStored = (row: store.ShareRow) => row.share_sealed !== null || row.client_ciphertext !== null

/** Whether the service could open the share: its own shares, and those protected by a password, which can be guessed. */
export const isOpenable = (row: store.ShareRow) =>
  row.share_sealed !== null || row.client_ciphertext?.alg === 'argon2id-aes256gcm'

/** How the key of a share is shared. */
export function sharingOf(row: Pick<store.ShareRow, 'threshold' | 'total' | 'commitments'>): threshold.Sharing {
  return { threshold: row.threshold, total: row.total, commitments: row.commitments }
}

/** The public keys of all shares of this key, by index − 1. @throws validation_failed (names `commitments`) */
export async function verifyingSharesOf(deps: Deps, sharing: threshold.Sharing, publicKey: Buffer): Promise<Buffer[]> {
  if (!publicKey.equals(sharing.commitments[0] ?? Buffer.alloc(0)))
    throw invalid('commitments', "The first commitment must be the wallet's public key.")
  try {
    return (await deps.threads.run('verifyingShares', sharing)).map((key) => Buffer.from(key))
  } catch (error) {
    throw asRefusal(error, 'commitments')
  }
}

/** Whether a proof (hex) shows knowledge of the secret behind a public key. Equals `isProof` of the keys package, but faster. */
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

/** The same bytes as a Buffer, without a copy of the secret. */
export const bytesOf = ({ buffer, byteOffset, length }: Uint8Array) => Buffer.from(buffer, byteOffset, length)

/** A new share. */
interface NewShare {
  tenantId: Id<'ten'>
  walletId: Id<'wal'>
  generation: number
  index: number
  holder: KeyShare['holder']
  /** The wallet's. */
  custody: Custody
  sharing: threshold.Sharing
  verifyingShare: Buffer
  /** What is stored: a share that the service can open, one that it cannot, or nothing. */
  kept: { scalar: Uint8Array } | { ciphertext: store.ClientCiphertext } | null
}

/**
 * Adds a share that was checked against its commitments, in the transaction that holds its wallet's row.
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
    status: 'active',
    share_sealed:
      kept !== null && 'scalar' in kept
        ? await sealShare(deps, bytesOf(kept.scalar), { ...place, ...sharing }, input.custody)
        : null,
    client_ciphertext: kept !== null && 'ciphertext' in kept ? kept.ciphertext : null,
    last_used_at: null,
    created_at: now,
    updated_at: now,
    version: 0,
    mac: null,
  }
  try {
    await store.insertShare(tx, row)
  } catch (error) {
    if (violatedConstraint(error) !== 'key_shares_place') throw error
    const message = 'This generation already has a share with this index.'
    throw fail('already_exists').about('index', message)
  }
  await requireBelowThreshold(tx, row)
  return row
}

/**
 * Adds shares of a `shared` wallet's key: share 1, which the service keeps, and the records of the user's.
 * @param indices of the shares to add, the service's among them
 */
export async function addSharing(
  tx: Db,
  deps: Deps,
  sharing: Pick<NewShare, 'tenantId' | 'walletId' | 'generation' | 'custody' | 'sharing'> & {
    indices: readonly number[]
    /** By index − 1. */
    verifyingShares: readonly Buffer[]
    /** The service's share. */
    scalar: Uint8Array
  },
): Promise<void> {
  const { indices, verifyingShares, scalar, ...common } = sharing
  for (const index of indices)
    await addShare(tx, deps, {
      ...common,
      index,
      holder: threshold.INDEX_HOLDER[index] as threshold.Holder,
      verifyingShare: verifyingShares[index - 1] as Buffer,
      kept: index === threshold.HOLDER_INDEX.server ? { scalar } : null,
    })
}

/**
 * Stores the client's ciphertext of a share that was only proven so far, in the transaction that holds its wallet's row.
 * @throws custody_violation
 */
export async function attachCiphertext(
  tx: Db,
  deps: Deps,
  row: store.ShareRow,
  ciphertext: store.ClientCiphertext,
): Promise<store.ShareRow> {
  const kept = { ...row, client_ciphertext: ciphertext, updated_at: deps.now() }
  await store.setCiphertext(tx, kept)
  await requireBelowThreshold(tx, kept)
  return kept
}

/**
 * The service could open fewer shares of a generation than its threshold. In the transaction that adds to them.
 * @throws custody_violation
 */
async function requireBelowThreshold(tx: Db, row: store.ShareRow): Promise<void> {
  const rows = await store.sharesOf(tx, row.tenant_id, row.wallet_id)
  const openable = rows.filter((each) => each.generation === row.generation && isLive(each) && isOpenable(each))
  if (openable.length < row.threshold) return
  const message = `The service could open shares ${openable.map(({ index }) => index).join(', ')} of generation ${row.generation}: its own, and those protected by a password, which can be guessed. It must be able to open fewer than ${row.threshold}.`
  throw fail('custody_violation', [{ code: 'custody_violation', message }])
}

/**
 * Opens a share that the service keeps. Fill its scalar with zeros after use.
 * @param custody the wallet's, to which the share is bound
 * @throws share_missing; record_tampered if it is another wallet's, another kind of wallet's or of another sharing
 */
export async function openShare(deps: Deps, row: store.ShareRow, custody: Custody): Promise<threshold.Share> {
  if (row.share_sealed === null) throw fail('share_missing')
  const record = row as object as RecordRow
  const scalar = await openSealed(deps, row.share_sealed, row, custody)
  if (scalar === null) return deps.db.records.refuse(SHARE_RECORD, record, 'its seal is of another sharing or wallet')
  const share = { index: row.index, scalar }
  if (await deps.threads.run('isShareOf', sharingOf(row), share)) return share
  scalar.fill(0)
  return deps.db.records.refuse(SHARE_RECORD, record, 'what it seals is no share of its commitments')
}
