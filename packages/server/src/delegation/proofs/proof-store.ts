import { type Db, sql } from '../../platform/db/db.ts'
import type { SentProof } from '../../platform/hooks.ts'

/** What became of a proof. */
interface Use {
  /** Thumbprint of the key that the session is bound to; null for none. Not verified: the record of the session decides. */
  jkt: string | null
  /** Whether this call is the one that used the proof. */
  isFirst: boolean
}

/**
 * Uses up a proof by the key of the token's session: of concurrent calls one is the first. A proof by another key is not stored,
 * so that nobody fills the table without the key, and neither is one that could have been deleted again (`deleteExpired`), which counts as
 * used. Undefined for a token of no session of the tenant.
 */
export function useProof(
  db: Db,
  { tenantId, tokenHash, jkt, jtiHash, expiresAt }: SentProof,
): Promise<Use | undefined> {
  return db.one<Use>(sql`
    with bound as (select tenant_id, id, jkt from delegated_sessions where token_hash = ${tokenHash} and tenant_id = ${tenantId}),
    used as (
      insert into used_proofs (tenant_id, delegated_session_id, hash, expires_at)
      select tenant_id, id, ${jtiHash}::bytea, ${expiresAt}::timestamptz from bound
      where jkt = ${jkt} and ${expiresAt}::timestamptz >= now() - interval '1 minute'
      on conflict do nothing returning true)
    select jkt, exists (select from used) as "isFirst" from bound`)
}

const PROOFS_A_DELETION = 5_000

/**
 * Deletes a portion of the proofs that no process accepts any more. A minute is for clocks that differ: of the database, and of
 * processes. @returns whether there may be more
 */
export async function deleteExpired(db: Db): Promise<boolean> {
  const gone = await db.run(sql`
    delete from used_proofs where (tenant_id, delegated_session_id, hash) in (
      select tenant_id, delegated_session_id, hash from used_proofs
      where expires_at < now() - interval '1 minute' limit ${PROOFS_A_DELETION})`)
  return gone === PROOFS_A_DELETION
}
