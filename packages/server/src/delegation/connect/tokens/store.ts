import { type Db, sql } from '../../../platform/db/db.ts'
import { insertion } from '../../../platform/db/rows.ts'
import type { OfApp } from '../../../platform/hooks.ts'
import type { AgentTokenKind } from '../../../platform/security/api-key.ts'
import { readRecord, sealed } from '../../../platform/security/records/access.ts'
import { AGENT_TOKEN_RECORD, type AgentTokenRow } from './record.ts'

/** Inserts a code or token. */
export async function insertToken(db: Db, row: Omit<AgentTokenRow, 'mac'>): Promise<void> {
  await db.run(insertion('agent_tokens', await sealed(db, AGENT_TOKEN_RECORD, { ...row, mac: null })))
}

/** An access token, of any tenant: only the token says whose it is. @throws record_tampered */
export function findAccessToken(db: Db, hash: Buffer): Promise<AgentTokenRow | undefined> {
  return readRecord<AgentTokenRow>(
    db,
    AGENT_TOKEN_RECORD,
    sql`select * from agent_tokens where hash = ${hash} and kind = 'access'`,
  )
}

/** A code or refresh token of an app, locked until the transaction ends. @throws record_tampered */
export function lockToken(
  tx: Db,
  { tenantId, appId }: OfApp,
  kind: AgentTokenKind,
  hash: Buffer,
): Promise<AgentTokenRow | undefined> {
  return readRecord<AgentTokenRow>(
    tx,
    AGENT_TOKEN_RECORD,
    sql`
    select * from agent_tokens
    where tenant_id = ${tenantId} and hash = ${hash} and kind = ${kind} and app_id = ${appId} for update`,
  )
}

/** Uses up a code or refresh token that the transaction has locked. */
export async function useToken(tx: Db, { tenant_id, hash }: AgentTokenRow, now: Date): Promise<void> {
  await tx.run(sql`update agent_tokens set used_at = ${now} where tenant_id = ${tenant_id} and hash = ${hash}`)
}

const TOKENS_A_DELETION = 5_000

/** Deletes a portion of what expired more than an hour ago. @returns whether there may be more */
export async function deleteOldAgentTokens(db: Db): Promise<boolean> {
  const gone = await db.run(sql`
    delete from agent_tokens where (tenant_id, hash) in (
      select tenant_id, hash from agent_tokens where expires_at < now() - interval '1 hour' limit ${TOKENS_A_DELETION})`)
  return gone === TOKENS_A_DELETION
}
