import type { Id } from '../../../platform/ids.ts'
import type { AgentTokenKind } from '../../../platform/security/api-key.ts'
import type { Sealed } from '../../../platform/security/records/access.ts'
import { defineRecord, EVERY_ROW } from '../../../platform/security/records/kind.ts'

/** The MAC of a code or token of an agent's connection: for which client, session and app it counts, and until when. */
export const AGENT_TOKEN_RECORD = defineRecord({
  name: 'agent_token',
  table: 'agent_tokens',
  key: ['hash'],
  versioned: false,
  columns: {
    kind: 'text',
    app_id: 'text',
    delegated_session_id: 'text',
    client_id: 'text',
    redirect_uri: 'text',
    code_challenge: 'text',
    box: 'bytes',
    expires_at: 'time',
  },
  notAuthority: { used_at: 'a second use needs the code or token, of which only the hash is here' },
  // No release wrote such rows without one.
  alwaysSealed: EVERY_ROW,
})

/** A row of the table `agent_tokens`. */
export interface AgentTokenRow extends Sealed {
  tenant_id: Id<'ten'>
  hash: Buffer
  kind: AgentTokenKind
  app_id: Id<'app'>
  delegated_session_id: Id<'dse'>
  client_id: string
  /** Of a code alone, as `code_challenge`. */
  redirect_uri: string | null
  code_challenge: string | null
  box: Buffer
  expires_at: Date
  used_at: Date | null
}
