import { type Db, type Sql, sql } from '../../platform/db/db.ts'
import type { Id } from '../../platform/ids.ts'

/** The `jti` of a token that is being used. */
export interface TokenUse {
  tenantId: Id<'ten'>
  hash: Buffer
  /** No token with this jti is accepted any more. */
  expiresAt: Date
}

/**
 * A `with` part that uses up a token, and the condition that it was unused. Of concurrent statements one meets it: the
 * others wait, and find the token used.
 */
export const tokenUsed = (use: TokenUse): { writes: Sql; holds: Sql } => ({
  writes: sql`
    used as (
      insert into used_tokens (tenant_id, hash, expires_at)
      values (${use.tenantId}, ${use.hash}, ${use.expiresAt}::timestamptz) on conflict do nothing returning 1)`,
  holds: sql`exists (select from used)`,
})

/** Uses up a token in a transaction. @returns whether it was unused */
export async function useToken(tx: Db, use: TokenUse): Promise<boolean> {
  return (await tx.run(sql`with ${tokenUsed(use).writes} select from used`)) === 1
}

const TOKENS_A_DELETION = 5_000

/** Deletes a portion of the tokens that have expired since. @returns whether there may be more */
export async function deleteOldTokens(db: Db): Promise<boolean> {
  const gone = await db.run(sql`
    delete from used_tokens where (tenant_id, hash) in (
      select tenant_id, hash from used_tokens where expires_at < now() limit ${TOKENS_A_DELETION})`)
  return gone === TOKENS_A_DELETION
}
