import { requireStepUp } from '../identity/sessions/service.ts'
import type { Db } from '../platform/db/db.ts'
import type { Deps } from '../platform/deps.ts'
import { type EventInput, newEvent, publish } from '../platform/events/events.ts'
import { type ErrorTable, failures, notFoundField } from '../platform/http/errors.ts'
import { type Caller, type CurrentUser, type Delegate, type Origin, type Page, paging } from '../platform/http/route.ts'
import { isId, newId } from '../platform/ids.ts'
import { newDelegateToken } from '../platform/security/api-key.ts'
import { equalSecrets } from '../platform/security/crypto.ts'
import { getApp, resolveApp } from '../tenancy/apps/service.ts'
import { signedAndOpen } from '../wallets/transactions/service.ts'
import { findWalletOf, type WalletRow } from '../wallets/wallets/service.ts'
import { type CompiledPolicy, checkPolicy, compile, compileSpend } from './policy/policy.ts'
import { remainingOf } from './policy/spend.ts'
import type {
  CreateDelegatedSession,
  DelegatedSession,
  DelegatedSessionWithToken,
  ListDelegatedSessions,
  Remaining,
  RevokedDelegatedSession,
} from './schema.ts'
import * as store from './store.ts'

export { endSessionsOf, invalidateDecisions } from './manage/end.ts'

/** How many sessions of one wallet may be active. */
const SESSIONS_MAX = 1_000

export const DELEGATED_SESSION_ERRORS = {
  policy_denied: [403, "The session's policy denies this."],
  spend_limit_exceeded: [403, "This would spend more than the session's policy allows."],
  authorization_missing: [403, 'The ledger does not let this wallet do that.'],
  user_session_required: [
    403,
    "This needs the user's own access token; a server can do it in their name only where the app has mpc.allowServer.",
  ],
  wallet_not_found: [404, 'This user has no wallet.'],
  contract_not_found: [404, 'There is no such contract that this wallet sees.'],
  wallet_frozen: [409, 'This wallet is frozen.'],
  wallet_not_ready: [409, 'This wallet is not on its ledger yet.'],
  custody_not_delegable: [409, 'Nobody but its owner signs for this wallet: no session of it can execute by itself.'],
  session_limit_reached: [409, `This wallet has ${SESSIONS_MAX} active sessions, which is as many as there may be.`],
  duplicate_command: [409, 'This commandId was used with other commands.'],
  contract_archived: [409, 'A contract was used up already.'],
  uses_in_flight: [409, 'All uses that are left are taken by transactions whose outcome is open.'],
  signing_request_superseded: [409, 'The key was shared anew since. Execute it again under another commandId.'],
  transaction_settled: [409, 'This transaction waits for no signature.'],
  delegated_session_revoked: [410, 'This delegated session was revoked.'],
  delegated_session_expired: [410, 'This delegated session has expired.'],
  delegated_session_exhausted: [410, 'This delegated session has used up its uses.'],
  prepared_expired: [410, 'This transaction has expired. Execute it again under another commandId.'],
  template_unknown: [400, 'There is no such template on this ledger.'],
  choice_unknown: [400, 'The template has no such choice.'],
  arguments_invalid: [400, 'The arguments do not fit the template.'],
  signature_invalid: [400, 'The signature is not one of the wallet over this digest.'],
  transaction_failed: [409, 'The ledger refused this transaction.'],
  ledger_unavailable: [500, 'The ledger cannot be reached. Try again under the same commandId.'],
} as const satisfies ErrorTable

const fail = failures(DELEGATED_SESSION_ERRORS)

const SECONDS_DEFAULT = 3600
/** Of all policies that are remembered, as JSON; read they take a dozen times as much. */
const POLICY_BYTES_MAX = 2 * 1024 * 1024
const PORTION = 100

/** Who asks, and from where. */
export interface Call {
  caller: Caller
  origin: Origin
}

const policies = new Map<string, { compiled: CompiledPolicy; bytes: number }>()
let policyBytes = 0

/** A session's policy, read once by who executes: it never changes. */
export function policyOf(row: Pick<store.SessionRow, 'id' | 'policy'>): CompiledPolicy {
  const known = policies.get(row.id)
  if (known !== undefined) return known.compiled
  const policy = { compiled: compile(row.policy), bytes: JSON.stringify(row.policy).length }
  policies.set(row.id, policy)
  policyBytes += policy.bytes
  for (const [id, { bytes }] of policies) {
    if (policyBytes <= POLICY_BYTES_MAX) break
    policies.delete(id)
    policyBytes -= bytes
  }
  return policy.compiled
}

/** What a session is by now, be it swept or not. */
export function statusOf(row: store.SessionRow, now: Date): DelegatedSession['status'] {
  return row.status === 'active' && row.expires_at <= now ? 'expired' : row.status
}

/** What a session may still do. */
export function remainingIn(row: store.SessionRow, now: Date): Remaining {
  return {
    uses: row.max_uses === null ? null : row.max_uses - row.uses,
    spend: remainingOf({ spend: (row.policy.spend ?? []).map(compileSpend) }, row.spent, now),
  }
}

function toSession(row: store.SessionRow, now: Date): DelegatedSession {
  return {
    id: row.id,
    appId: row.app_id,
    userId: row.user_id,
    walletId: row.wallet_id,
    name: row.name,
    status: statusOf(row, now),
    policy: row.policy,
    serverExecute: row.server_execute,
    maxUses: row.max_uses,
    uses: row.uses,
    remaining: remainingIn(row, now),
    lastUsedAt: row.last_used_at?.toISOString() ?? null,
    expiresAt: row.expires_at.toISOString(),
    revokedAt: row.revoked_at?.toISOString() ?? null,
    createdAt: row.created_at.toISOString(),
    updatedAt: row.updated_at.toISOString(),
  }
}

type SessionEvent =
  | 'delegated_session.created'
  | 'delegated_session.revoked'
  | 'delegated_session.expired'
  | 'delegated_session.exhausted'
  | 'delegated_session.denied'

/** An event of a session's. */
export function sessionEvent(
  now: Date,
  row: store.SessionRow,
  type: SessionEvent,
  cause?: EventInput['cause'],
  more: Record<string, unknown> = {},
) {
  return newEvent(now, eventOf(row, type, cause, more))
}

function eventOf(
  row: store.SessionRow,
  type: SessionEvent,
  cause: EventInput['cause'],
  more: Record<string, unknown> = {},
): EventInput {
  const data = { delegatedSessionId: row.id, userId: row.user_id, walletId: row.wallet_id, ...more }
  return { tenantId: row.tenant_id, appId: row.app_id, type, data, cause }
}

async function walletFor(deps: Deps, { caller, user }: { caller: Caller; user: CurrentUser }, walletId?: string) {
  const wallet = await findWalletOf(deps.db, caller.tenantId, user.id)
  if (walletId !== undefined && wallet?.id !== walletId) throw notFoundField('walletId')
  if (wallet === undefined) throw fail('wallet_not_found')
  return wallet
}

/** Whether a server may begin a session on a wallet whose key is the user's: only if the app says so. */
async function requireOwnHand(
  deps: Deps,
  { caller, user }: { caller: Caller; user: CurrentUser },
  wallet: WalletRow,
): Promise<void> {
  if (wallet.custody === 'embedded' || user.sessionId !== null) return
  const { mpc } = await getApp(deps, caller, user.appId)
  if (!mpc.allowServer) throw fail('user_session_required')
}

/**
 * Begins a delegated session on the current user's wallet. `token` is shown only here.
 * @throws not_found (names `walletId`), wallet_not_found, mfa_required, user_session_required, wallet_frozen, custody_not_delegable
 */
export async function createDelegatedSession(
  deps: Deps,
  call: Call & { user: CurrentUser },
  input: CreateDelegatedSession,
): Promise<DelegatedSessionWithToken> {
  const { caller, origin, user } = call
  const wrong = checkPolicy(input.policy)
  if (wrong.length > 0) throw fail('validation_failed', wrong)
  const wallet = await walletFor(deps, call, input.walletId)
  await requireOwnHand(deps, call, wallet)
  await requireStepUp(deps, caller, user)
  if (wallet.frozen_at !== null) throw fail('wallet_frozen')
  const ownKey = wallet.custody !== 'embedded'
  if (ownKey && input.serverExecute === true) throw fail('custody_not_delegable')
  const now = deps.now()
  if ((await store.countActive(deps.db, wallet.tenant_id, wallet.id, now, SESSIONS_MAX)) >= SESSIONS_MAX)
    throw fail('session_limit_reached')
  const { token, hash } = newDelegateToken()
  const row: store.SessionRow = {
    tenant_id: caller.tenantId,
    id: newId('dse'),
    app_id: wallet.app_id,
    user_id: user.id,
    wallet_id: wallet.id,
    name: input.name?.trim().normalize('NFC') ?? null,
    token_hash: hash,
    policy: input.policy,
    version: 0,
    server_execute: input.serverExecute ?? (user.sessionId === null && !ownKey),
    max_uses: input.maxUses ?? null,
    uses: 0,
    completed: 0,
    spent: {},
    denials: {},
    wrong_signatures: 0,
    status: 'active',
    last_used_at: null,
    expires_at: new Date(now.getTime() + (input.expiresInSeconds ?? SECONDS_DEFAULT) * 1000),
    revoked_at: null,
    created_at: now,
    updated_at: now,
  }
  await store.insertSession(deps.db, row, sessionEvent(now, row, 'delegated_session.created', { caller, origin }))
  deps.db.afterCommit(deps.wake.outbox)
  return { ...toSession(row, now), token }
}

/** Who may see and end a session: a secret key, its owner, and who holds its token. */
interface Asker {
  caller: Caller
  user: CurrentUser | null
  delegate: Delegate | null
}

function mayAsk(row: store.SessionRow, { caller, user, delegate }: Asker): boolean {
  if (caller.keyType === 'secret') return true
  if (delegate !== null) return equalSecrets(delegate.tokenHash, row.token_hash)
  return user !== null && user.id === row.user_id
}

async function findOwn(look: typeof store.findSession, db: Db, asker: Asker, id: string): Promise<store.SessionRow> {
  const { tenantId, appId } = asker.caller
  const row = isId('dse', id) ? await look(db, { tenantId, appId }, id) : undefined
  if (row === undefined || !mayAsk(row, asker)) throw fail('not_found')
  return row
}

/** One session. @throws not_found */
export async function getDelegatedSession(deps: Deps, asker: Asker, id: string): Promise<DelegatedSession> {
  return toSession(await findOwn(store.findSession, deps.db, asker, id), deps.now())
}

/** A page of the sessions that a filter finds, newest first. */
export async function listDelegatedSessions(
  deps: Deps,
  caller: Caller,
  query: ListDelegatedSessions,
): Promise<Page<DelegatedSession>> {
  const { page, pageSize, offset } = paging(query)
  const appId = query.app_id === undefined ? caller.appId : await resolveApp(deps, caller, query.app_id, 'app_id')
  const now = deps.now()
  const filter: store.SessionFilter = {
    tenantId: caller.tenantId,
    appId,
    walletId: query.wallet_id ?? null,
    userId: query.user_id ?? null,
    status: query.status ?? null,
    now,
  }
  const { rows, total } = await store.listSessions(deps.db, filter, { offset, pageSize })
  return { items: rows.map((row) => toSession(row, now)), total, page, pageSize }
}

/**
 * Ends a session for good: once this has answered, nothing is signed for it. What was signed before and may still happen
 * is listed. One that has ended is answered as it is. @throws not_found
 */
export async function revokeDelegatedSession(
  deps: Deps,
  call: Asker & { origin: Origin },
  id: string,
): Promise<RevokedDelegatedSession> {
  return deps.db.tx(async (tx) => {
    const before = await findOwn(store.lockSession, tx, call, id)
    const now = deps.now()
    const open = await signedAndOpen(tx, before.tenant_id, before.id)
    // What waits for the delegate's part of a signature can be completed by the delegate alone, but on a ledger of ours.
    const mayHappen = (row: (typeof open)[number]) =>
      row.status === 'submitted' || !deps.ledgers.get(row.ledger)?.transactional
    const inFlight = open.filter(mayHappen).map((row) => ({
      transactionId: row.id,
      commandId: row.command_id,
      ledger: row.ledger,
      expiresAt: row.expires_at?.toISOString() ?? null,
    }))
    if (statusOf(before, now) !== 'active') return { ...toSession(before, now), inFlight }
    return { ...toSession(await revoke(tx, deps, before, call), now), inFlight }
  })
}

/** Ends an active session in the transaction that holds its row, with its event. */
export async function revoke(
  tx: Db,
  deps: Deps,
  before: store.SessionRow,
  cause: EventInput['cause'],
): Promise<store.SessionRow> {
  const now = deps.now()
  const row: store.SessionRow = { ...before, status: 'revoked', revoked_at: now, updated_at: now }
  await store.endSession(tx, row, sessionEvent(now, row, 'delegated_session.revoked', cause))
  tx.afterCommit(deps.wake.outbox)
  return row
}

/** Ends a portion of the sessions whose time is over, of all tenants. @returns whether there may be more */
export async function sweepDelegatedSessions(deps: Deps): Promise<boolean> {
  return deps.db.tx(async (tx) => {
    const rows = await store.expireDue(tx, deps.now(), PORTION)
    for (const row of rows) await publish(tx, deps, eventOf(row, 'delegated_session.expired', undefined))
    return rows.length === PORTION
  })
}
