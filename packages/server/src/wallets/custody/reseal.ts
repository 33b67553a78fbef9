import type { Db } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import type { WalkScope } from '../../platform/security/records/walk.ts'
import { openNewSeal, openOldSeal, sealShare } from './share-seal.ts'
import { sharingOf } from './shares.ts'
import * as store from './store.ts'

const PORTION = 100

/** Shares of one portion. */
interface Resealed {
  seen: number
  resealed: number
  /** Ids of shares that open under no seal, or are none of their commitments. They stay as they are. */
  lost: string[]
}

/** Whether a share is now bound to its sharing and to its wallet's custody; `was` if it was before. */
async function reseal(db: Db, deps: Deps, row: store.HeldShare): Promise<'was' | 'now' | 'lost'> {
  const bound = await openNewSeal(deps, row.share_sealed, row, row.custody)
  const scalar = bound ?? (await openOldSeal(deps, row.share_sealed, row))
  if (scalar === null) return 'lost'
  try {
    if (!(await deps.threads.run('isShareOf', sharingOf(row), { index: row.index, scalar }))) return 'lost'
    if (bound !== null) return 'was'
    await store.swapSealed(db, row, await sealShare(deps, scalar, row, row.custody))
    return 'now'
  } finally {
    scalar.fill(0)
  }
}

/**
 * Seals the shares that an older release sealed anew, so that they are bound to their sharing and their wallet's custody.
 * Their records were verified before. It can be interrupted and repeated: what is bound already stays.
 */
export async function* resealShares(db: Db, deps: Deps, { tenantId, goOn }: WalkScope): AsyncGenerator<Resealed> {
  for (let after: { tenant_id: string; id: string } | undefined; ; ) {
    goOn()
    const rows: store.HeldShare[] = await store.heldShares(db, tenantId, after, PORTION)
    const done: Resealed = { seen: rows.length, resealed: 0, lost: [] }
    for (const row of rows) {
      const became = await reseal(db, deps, row)
      if (became === 'now') done.resealed += 1
      if (became === 'lost') done.lost.push(row.id)
    }
    yield done
    if (rows.length < PORTION) return
    after = rows.at(-1)
  }
}
