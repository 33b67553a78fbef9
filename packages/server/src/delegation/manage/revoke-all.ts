import { lockOutActs } from '../../platform/concurrency/user-lock.ts'
import type { Db } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import { recordAuditOnly } from '../../platform/events/audit-only-entries.ts'
import type { EventInput } from '../../platform/events/events.ts'
import type { Call, MaybeUserCall } from '../../platform/http/route.ts'
import { type Id, newId } from '../../platform/ids.ts'
import { getApp, listAllApps } from '../../tenancy/apps/service.ts'
import { type InFlightFilter, listInFlight } from '../../wallets/transactions/service.ts'
import { getWalletRowToEnd, unlistSessionsOfApp } from '../../wallets/wallets/service.ts'
import { fail } from '../errors.ts'
import * as ends from './end-store.ts'
import { endSessionsOf, publishRevoked, REVOKE_BATCH, toInFlight } from './revoke.ts'
import { IN_FLIGHT_MAX, type RevokedSessions } from './revoke-schema.ts'

/** How many wallets one transaction ends the sessions of. */
const WALLETS_BATCH = 50
/** How many apps are read at a time when the sessions of all are ended. */
const APPS_BATCH = 500

type Cause = EventInput['cause']

/** What was signed and may still happen, read after the last revocation: nothing can be added to it any more. */
async function inFlightOf(db: Db, deps: Deps, of: InFlightFilter): Promise<Omit<RevokedSessions, 'revoked'>> {
  const settled = [...deps.ledgers.values()].filter(({ transactional }) => transactional).map(({ name }) => name)
  const rows = await listInFlight(db, of, settled, IN_FLIGHT_MAX + 1)
  const inFlight = rows.slice(0, IN_FLIGHT_MAX).map((row) => ({
    ...toInFlight(row),
    delegatedSessionId: row.delegated_session_id,
    walletId: row.wallet_id,
  }))
  return { inFlight, moreInFlight: rows.length > IN_FLIGHT_MAX }
}

/**
 * Ends all active sessions of a wallet, in one transaction that keeps everybody out who acts for its user or creates a
 * session. The owner may, and a server. @throws not_found, also for the wallet of another user
 */
export async function revokeSessionsOfWallet(deps: Deps, call: MaybeUserCall, id: string): Promise<RevokedSessions> {
  const { caller, user } = call
  const {
    tenant_id: tenantId,
    id: walletId,
    user_id: userId,
    app_id: appId,
  } = await getWalletRowToEnd(deps, caller, id)
  if (user === null ? caller.keyType !== 'secret' : user.id !== userId) throw fail('not_found')
  return deps.db.tx(async (tx) => {
    await lockOutActs(tx, userId)
    const revoked = await endSessionsOf(tx, deps, { tenantId, walletId }, call)
    const action = 'wallet.sessions_revoked'
    await recordAuditOnly(tx, deps, { tenantId, appId, action, target: walletId, userId, cause: call })
    const rest = await inFlightOf(tx, deps, { tenantId, walletId, appId: null })
    await deps.failpoint('sessions revoked')
    return { revoked, ...rest }
  })
}

/** What of an app is to end: everything up to the session id `last`. */
interface AppEnd {
  tenantId: Id<'ten'>
  appId: Id<'app'>
  last: Id<'dse'>
}

/** Ends sessions in the order of their ids, a portion in each transaction. */
async function revokeSeen(deps: Deps, cause: Cause, { tenantId, appId }: AppEnd): Promise<number> {
  let revoked = 0
  let after = ''
  for (let more = true; more; ) {
    const rows = await deps.db.tx(async (tx) => {
      const portion = await ends.revokeActiveOfApp(tx, deps.now(), { tenantId, appId, after }, REVOKE_BATCH)
      await publishRevoked(tx, deps, portion, cause)
      return portion
    })
    await deps.failpoint('portion revoked')
    revoked += rows.length
    after = rows.reduce((greatest, row) => (row.id > greatest ? row.id : greatest), after)
    more = rows.length === REVOKE_BATCH
  }
  return revoked
}

/** Takes what has ended off the wallets' lists, a portion of the wallets in each transaction: sessions whose rows are hidden, too. */
async function revokeListed(deps: Deps, cause: Cause, { tenantId, appId, last }: AppEnd): Promise<number> {
  let revoked = 0
  let after = ''
  for (let more = true; more; ) {
    const { rows, walletIds } = await deps.db.tx(async (tx) => {
      const walletIds = await unlistSessionsOfApp(tx, { tenantId, appId, after }, last, WALLETS_BATCH)
      const rows = await ends.revokeActiveOfWallets(tx, deps.now(), { tenantId, walletIds, last })
      await publishRevoked(tx, deps, rows, cause)
      return { rows, walletIds }
    })
    revoked += rows.length
    after = walletIds.at(-1) ?? after
    more = walletIds.length === WALLETS_BATCH
  }
  return revoked
}

/** What is seen first, so that most ends at once; then what is only listed. */
const endSessionsOfApp = async (deps: Deps, cause: Cause, end: AppEnd): Promise<number> =>
  (await revokeSeen(deps, cause, end)) + (await revokeListed(deps, cause, end))

/** Ends all active sessions of all tenants, in portions that commit one by one. @returns how many there were */
export async function endAllSessions(deps: Deps, cause: Cause): Promise<number> {
  const last = newId('dse')
  let revoked = 0
  let after = ''
  for (let more = true; more; ) {
    const apps = await listAllApps(deps.db, after, APPS_BATCH)
    for (const app of apps) revoked += await endSessionsOfApp(deps, cause, { ...app, last })
    after = apps.at(-1)?.appId ?? after
    more = apps.length === APPS_BATCH
  }
  return revoked
}

/**
 * Ends all sessions of an app that are active when this begins, in portions that commit one by one, in the order of their
 * ids. Ids begin with the time of their creation, so that the portions come to an end although new sessions are created.
 * @throws not_found
 */
export async function revokeSessionsOfApp(deps: Deps, call: Call, id: string): Promise<RevokedSessions> {
  const { tenantId } = call.caller
  const appId = (await getApp(deps, call.caller, id)).id as Id<'app'>
  const action = 'app.sessions_revoked'
  const end = { tenantId, appId, last: newId('dse') }
  await recordAuditOnly(deps.db, deps, { tenantId, appId, action, target: appId, cause: call })
  const revoked = await endSessionsOfApp(deps, call, end)
  return { revoked, ...(await inFlightOf(deps.db, deps, { tenantId, walletId: null, appId })) }
}
