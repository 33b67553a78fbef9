import { LRUCache } from 'lru-cache'
import { wire } from '../platform/db/rows.ts'
import { type EventInput, eventOf, newEvent, type StoredEvent } from '../platform/events/events.ts'
import { type Limit, leftOf } from './budgets/limits.ts'
import { fail } from './errors.ts'
import { type CompiledPolicy, compile, compileSpend } from './policy/policy.ts'
import { remainingOf } from './policy/spend.ts'
import type { Spent } from './policy/windows.ts'
import type { DelegatedSession, Remaining, RemainingBeside } from './schema.ts'
import type { LiveRow, SessionRow } from './store.ts'

/** Limit for all cached policies together, as JSON. Compiled, they take about twelve times as much memory. */
const POLICY_BYTES_MAX = 2 * 1024 * 1024

const policies = new LRUCache<string, CompiledPolicy>({ maxSize: POLICY_BYTES_MAX })

/** A session's compiled policy. Policies never change, so a cached one is always right. */
export function policyOf(row: Pick<SessionRow, 'id' | 'policy'>): CompiledPolicy {
  const known = policies.get(row.id)
  if (known !== undefined) return known
  const policy = compile(row.policy)
  policies.set(row.id, policy, { size: JSON.stringify(row.policy).length })
  return policy
}

/** A session's status at `now`. The row of an expired session says `active` until the sweep. */
export function statusOf(row: SessionRow, now: Date): DelegatedSession['status'] {
  return row.status === 'active' && row.expires_at <= now ? 'expired' : row.status
}

/** What a session may still do. */
function remainingIn(row: SessionRow, now: Date): Remaining {
  return {
    uses: row.max_uses === null ? null : row.max_uses - row.uses,
    spend: remainingOf({ spend: (row.policy.spend ?? []).map(compileSpend) }, row.spent, now),
  }
}

/** What a session may still do, and what is left of the budgets of its wallet. */
export function remainingBeside(row: SessionRow, limits: readonly Limit[], spent: Spent, now: Date): RemainingBeside {
  return { ...remainingIn(row, now), budgets: limits.map((limit) => leftOf(limit, spent, now)) }
}

/** @throws delegated_session_revoked, delegated_session_expired, delegated_session_exhausted */
export function requireActive(row: SessionRow, now: Date): void {
  const status = statusOf(row, now)
  if (status !== 'active') throw fail(`delegated_session_${status}`)
}

/** @throws user_suspended, guest_expired */
export function requireActiveUser(row: LiveRow): void {
  if (row.user_status !== 'active') throw fail('user_suspended')
  if (row.guest_over) throw fail('guest_expired')
}

/** Session, user and wallet can act. @throws wallet_frozen, wallet_not_ready, and what the checks above throw */
export function requireLive(row: LiveRow, now: Date): void {
  requireActive(row, now)
  requireActiveUser(row)
  if (row.frozen) throw fail('wallet_frozen')
  if (row.wallet_status !== 'ready') throw fail('wallet_not_ready')
}

/** A use is left. A use that an open transaction has reserved may come back. @throws uses_in_flight */
export function requireUse({ max_uses: max, uses }: SessionRow): void {
  if (max !== null && uses >= max) throw fail('uses_in_flight')
}

/** A session as the API returns it. */
export function toSession(row: SessionRow, now: Date): DelegatedSession {
  return wire(
    { ...row, status: statusOf(row, now), bound_key_thumbprint: row.jkt, remaining: remainingIn(row, now) },
    `id app_id user_id wallet_id name status policy server_execute bound_key_thumbprint max_uses uses remaining last_used_at expires_at
    revoked_at created_at updated_at`,
  )
}

/** An event about a session. `more` is added to its data. */
export function sessionEvent(
  now: Date,
  row: SessionRow,
  type: `delegated_session.${'created' | 'revoked' | 'expired' | 'exhausted' | 'denied'}` | 'budget.exceeded',
  cause: EventInput['cause'],
  more: Record<string, unknown> = {},
): StoredEvent {
  const data = { delegatedSessionId: row.id, userId: row.user_id, walletId: row.wallet_id, ...more }
  return newEvent(now, eventOf(row, type, data, cause))
}
