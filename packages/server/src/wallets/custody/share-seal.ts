import type { Deps } from '../../platform/deps.ts'
import { openIfOf, seal, sha256 } from '../../platform/security/crypto.ts'
import { SCHEME } from '../../platform/security/threshold/threshold.ts'
import type { ShareRow } from './store.ts'

/** Who can sign for a wallet whose key is shared or backed up. */
export type Custody = 'embedded' | 'shared' | 'self_custody'

/** What a share is part of. */
type Place = Pick<ShareRow, 'tenant_id' | 'wallet_id' | 'index' | 'generation' | 'threshold' | 'total'> & {
  commitments: readonly Uint8Array[]
}

const place = (row: Pick<Place, 'tenant_id' | 'wallet_id' | 'index' | 'generation'>) => [
  row.tenant_id,
  row.wallet_id,
  String(row.index),
  String(row.generation),
]

/** What a share is sealed under: its place, how the key is shared, and who can sign for the wallet. */
const bound = (row: Place, custody: Custody) => [
  'key share 2',
  ...place(row),
  custody,
  SCHEME,
  String(row.threshold),
  String(row.total),
  sha256(Buffer.concat(row.commitments)).toString('hex'),
]

/** What shares were sealed under before: their place alone. */
const before = (row: Place) => ['key share', ...place(row)]

/** Seals a share that was checked against its commitments. */
export function sealShare(deps: Deps, scalar: Buffer, row: Place, custody: Custody): Promise<Buffer> {
  return seal(deps.keys, scalar, bound(row, custody))
}

/** The scalar that an older release sealed; null if it is not of this place. */
export function openOldSeal(deps: Deps, sealed: Buffer, row: Place): Promise<Buffer | null> {
  return openIfOf(deps.keys, sealed, before(row))
}

/** The scalar under the present seal; null if it is not of this place, sharing and custody. */
export function openNewSeal(deps: Deps, sealed: Buffer, row: Place, custody: Custody): Promise<Buffer | null> {
  return openIfOf(deps.keys, sealed, bound(row, custody))
}

/** The scalar; null if it was sealed for something else. Seals of older releases count until records are enforced. */
export async function openSealed(deps: Deps, sealed: Buffer, row: Place, custody: Custody): Promise<Buffer | null> {
  const scalar = await openNewSeal(deps, sealed, row, custody)
  if (scalar !== null || (await deps.enforcement.isEnforced(1))) return scalar
  return openOldSeal(deps, sealed, row)
}
