import type { Deps } from '../../platform/deps.ts'
import { DELEGATE } from '../../platform/events/events.ts'
import type { EntranceRequest } from '../../platform/http/route.ts'
import type { Id } from '../../platform/ids.ts'
import type { KeyHolder } from '../../platform/security/authenticator.ts'
import { delegateTokenOf, SEND_DELEGATE_TOKEN } from '../../platform/security/current-user.ts'
import { fail } from '../errors.ts'
import * as store from './agent-store.ts'

/** Where agents call that have a delegated session's token and no API key, and how these calls are limited. */
export const AGENT_CALLS = { base: '/agent/api', limit: 'secret' } as const

/** What they can call there: their own session, and nothing that makes, changes or ends one. */
export const AGENT_OPERATIONS: readonly string[] = [
  'GET /delegated-sessions/me',
  'GET /delegated-sessions/me/transactions',
  'GET /delegated-sessions/me/transactions/:id',
  'POST /delegated-sessions/:id/execute',
  'POST /delegated-sessions/:id/query',
]

/**
 * Who calls without an API key: the delegated session whose token is the bearer. It has the rights of a publishable key of
 * its app, which anybody may know. Whether the session may still act, and whether the caller has its key, is decided by each
 * operation, as under `/v1`.
 * @throws session_missing, session_invalid
 */
export async function enterAsDelegate(deps: Deps, { headers }: EntranceRequest): Promise<KeyHolder> {
  const { authorization } = headers
  if (typeof authorization !== 'string') throw fail('session_missing').about('authorization', SEND_DELEGATE_TOKEN)
  const row = await store.findToken(deps.db, delegateTokenOf(authorization).hash)
  if (row === undefined) throw fail('session_invalid')
  const keyId: Id<'key'> = `${DELEGATE}${row.id}`
  return {
    tenantId: row.tenant_id,
    keyId,
    name: 'Delegated session',
    keyType: 'publishable',
    scopes: [],
    appId: row.app_id,
    allowedIps: [],
    allowedOrigins: [],
    expiresAtMs: null,
  }
}
