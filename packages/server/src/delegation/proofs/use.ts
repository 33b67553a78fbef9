import type { Db } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import type { SentProof } from '../../platform/hooks.ts'
import { proofInvalid } from '../../platform/security/dpop/proof.ts'
import { deleteExpired, useProof } from './proof-store.ts'

/**
 * Uses up a proof before anything else is done. It commits by itself: a call that fails afterwards has used its proof. Whether
 * the key is the right one is decided on the session's record, by `requireDelegate`. @throws dpop_proof_invalid
 */
export async function proofSent(deps: Deps, proof: SentProof): Promise<void> {
  const use = await useProof(deps.db, proof)
  if (use?.jkt === proof.jkt && !use.isFirst) throw proofInvalid('replayed')
}

/** Deletes a portion of the proofs that no process accepts any more. @returns whether there may be more */
export const deleteOldProofs = (db: Db): Promise<boolean> => deleteExpired(db)
