import { type Db, sql } from '../../platform/db/db.ts'
import type { Id } from '../../platform/ids.ts'
import { readRecord } from '../../platform/security/records/access.ts'
import { SESSION_RECORD } from '../session-record.ts'

/** The session of a token, in any state. */
export interface TokenRow {
  tenant_id: Id<'ten'>
  app_id: Id<'app'>
  id: Id<'dse'>
}

/** Whose a token is, of all tenants: only the token says which tenant calls. @throws record_tampered */
export function findToken(db: Db, tokenHash: Buffer): Promise<TokenRow | undefined> {
  return readRecord<TokenRow>(db, SESSION_RECORD, sql`select * from delegated_sessions where token_hash = ${tokenHash}`)
}
