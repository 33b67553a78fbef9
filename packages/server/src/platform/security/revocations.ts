import { createPoller } from '../concurrency/poll.ts'
import { type Db, sql } from '../db/db.ts'
import type { Id } from '../ids.ts'
import type { Logger } from '../observability/log.ts'

/** No access token lives longer. */
const ACCESS_TOKEN_SECONDS_MAX = 3_600
const MARGIN_SECONDS = 60
const POLL_MS = 250
/** How long a read is trusted: a revoked session is refused everywhere within a second. */
const TRUST_MS = 900

/** Which sessions' access tokens are refused though they have not expired. */
export interface Revocations {
  /** From memory, or, where that is too old, from the database. @throws Error when the database is away too */
  has(tenantId: Id<'ten'>, sessionId: Id<'ses'>): Promise<boolean>
  /** Makes this process know of revocations that have just committed. */
  add(sessionIds: readonly string[]): void
  /** The same if there are too many to list: the next check queries the database. */
  distrust(): void
  start(): void
  stop(): Promise<void>
}

/** By when every access token of now has expired. */
const accessTokensEnd = (now: Date): Date =>
  new Date(now.getTime() + (ACCESS_TOKEN_SECONDS_MAX + MARGIN_SECONDS) * 1000)

/** Refuses the access tokens of these sessions, from the transaction's end on: see `Revocations.add`. */
export async function refuseAccessTokens(
  tx: Db,
  tenantId: Id<'ten'>,
  sessionIds: readonly string[],
  now: Date,
): Promise<void> {
  await tx.run(sql`
    insert into revoked_sessions (tenant_id, session_id, forget_at)
    select ${tenantId}, id, ${accessTokensEnd(now)} from unnest(${sessionIds}::text[]) as id on conflict do nothing`)
}

/** Refuses the access tokens of all sessions in an app. */
export async function refuseTokensOfApp(tx: Db, tenantId: Id<'ten'>, appId: Id<'app'>, now: Date): Promise<void> {
  await tx.run(sql`
    insert into revoked_sessions (tenant_id, session_id, forget_at)
    select s.tenant_id, s.id, ${accessTokensEnd(now)} from sessions s join users u on u.tenant_id = s.tenant_id and u.id = s.user_id
    where u.tenant_id = ${tenantId} and u.app_id = ${appId} on conflict do nothing`)
}

const FORGOTTEN_A_TIME = 5_000

/** Deletes a portion of the entries that no token needs any more. @returns whether there may be more */
export async function deleteOldRevocations(db: Db): Promise<boolean> {
  const gone = await db.run(sql`
    delete from revoked_sessions where (tenant_id, session_id) in (
      select tenant_id, session_id from revoked_sessions where forget_at < now() limit ${FORGOTTEN_A_TIME})`)
  return gone === FORGOTTEN_A_TIME
}

/** `now` is the wall clock; trust in what was read is counted on the monotonic one. */
export function createRevocations(options: { db: Db; log: Logger; now(): Date }): Revocations {
  const { db, log, now } = options
  /** When each can be forgotten, Unix milliseconds. */
  const revoked = new Map<string, number>()
  /** Every revocation of an earlier transaction has been read. */
  let seenXid = '0'
  let trustedUntil = 0
  /** Raised by a revocation that a reading under way may have missed. */
  let distrusted = 0

  function forgetOld(): void {
    const nowMs = now().getTime()
    for (const [id, at] of revoked) {
      if (at > nowMs) break
      revoked.delete(id)
    }
  }

  async function read(): Promise<void> {
    const [startedAt, before] = [performance.now(), distrusted]
    // Transactions before the snapshot's xmin have ended: their rows are in this answer or were in an earlier one.
    const rows = await db.query<{ xmin: string; session_id: string | null; forget_at: Date }>(sql`
      select pg_snapshot_xmin(pg_current_snapshot())::text as xmin, r.session_id, r.forget_at
      from (values (1)) as always left join revoked_sessions r on r.xid >= ${seenXid}::xid8 order by r.forget_at`)
    for (const row of rows) if (row.session_id !== null) revoked.set(row.session_id, row.forget_at.getTime())
    seenXid = rows[0]?.xmin ?? seenXid
    forgetOld()
    if (before === distrusted) trustedUntil = startedAt + TRUST_MS
  }

  return {
    async has(tenantId, sessionId) {
      if (revoked.has(sessionId)) return true
      if (performance.now() < trustedUntil) return false
      const row = await db.one(sql`
        select 1 from revoked_sessions where tenant_id = ${tenantId} and session_id = ${sessionId}`)
      return row !== undefined
    },
    add(sessionIds) {
      const forgetAtMs = accessTokensEnd(now()).getTime()
      for (const id of sessionIds) revoked.set(id, forgetAtMs)
    },
    distrust() {
      distrusted += 1
      trustedUntil = 0
    },
    ...createPoller({ pauseMs: POLL_MS, work: read, log, failure: 'revoked sessions could not be read' }),
  }
}
