import { type Db, sql } from '../../platform/db/db.ts'
import type { Id } from '../../platform/ids.ts'

/** The session of a token, in any state. */
export interface TokenRow {
  tenant_id: Id<'ten'>
  app_id: Id<'app'>
  id: Id<'dse'>
}

/** Whose a token is, of all tenants: only the token says which tenant calls. */
export function findToken(db: Db, tokenHash: Buffer): Promise<TokenRow | undefined> {
  return db.one<TokenRow>(sql`select tenant_id, app_id, id from delegated_sessions where token_hash = ${tokenHash}`)
}
