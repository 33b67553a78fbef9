import type { Db } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import { type Caller, type Page, paging } from '../../platform/http/route.ts'
import { findVisible, type Viewer } from '../manage/read.ts'
import type { Denial, ListDenials } from '../schema.ts'
import * as sessions from '../store.ts'
import * as store from './denial-store.ts'

const MINUTE_MS = 60_000
const KEPT_MS = 30 * 86_400_000
const FLUSH_MS = 1_000
/** How many counts one process holds between two writes. Further ones are not counted. */
const COUNTS_MAX = 10_000

/** Why a session was refused: the rule, the requested amount and the remaining amount. */
export interface DeniedAttempt {
  code: string
  rule: string
  command: number | null
  message: string
  more: Record<string, unknown>
}

function rowOf(
  session: sessions.SessionRow,
  { code, rule, command, message, more }: DeniedAttempt,
  now: Date,
): store.DenialRow {
  const minute = new Date(Math.floor(now.getTime() / MINUTE_MS) * MINUTE_MS)
  const { tenant_id, id, app_id, user_id, wallet_id } = session
  const of = { tenant_id, session_id: id, app_id, user_id, wallet_id }
  return { ...of, minute, rule, code, message, command, facts: more, n: 1, first_at: now, last_at: now }
}

/** Writes a denial at once: the first one by its rule in a minute. */
export async function recordFirstDenial(
  db: Db,
  session: sessions.SessionRow,
  attempt: DeniedAttempt,
  now: Date,
): Promise<void> {
  const row = rowOf(session, attempt, now)
  await store.addDenials(db, [row])
  await store.trimDenials(db, row)
}

interface Counts {
  add(row: store.DenialRow): void
}

function createCounts({ probeDb, log }: Deps): Counts {
  let counts = new Map<string, store.DenialRow>()
  let isScheduled = false

  async function flush(): Promise<void> {
    isScheduled = false
    const rows = [...counts.values()]
    counts = new Map()
    await store
      .addDenials(probeDb, rows)
      .catch((error: unknown) => log.warn({ err: error, rows: rows.length }, 'repeated denials were not counted'))
  }

  return {
    add(row) {
      const key = `${row.session_id} ${row.minute.getTime()} ${row.rule}`
      const known = counts.get(key)
      if (known === undefined && counts.size >= COUNTS_MAX) return
      counts.set(key, known === undefined ? row : { ...row, n: known.n + 1, first_at: known.first_at })
      if (isScheduled) return
      isScheduled = true
      setTimeout(() => void flush(), FLUSH_MS).unref()
    },
  }
}

const processes = new WeakMap<Deps['lifecycle'], Counts>()

/**
 * Counts a further denial in this process's memory; written within a second. So a delegate that is refused in a loop causes
 * at most one write per second, and a killed process loses at most the counts of one second.
 */
export function countRepeatedDenial(deps: Deps, session: sessions.SessionRow, attempt: DeniedAttempt, now: Date): void {
  const counts = processes.get(deps.lifecycle) ?? createCounts(deps)
  processes.set(deps.lifecycle, counts)
  counts.add(rowOf(session, attempt, now))
}

/** Deletes a batch of denials older than 30 days. @returns whether there may be more */
export const deleteOldDenials = (deps: Deps, db: Db): Promise<boolean> =>
  store.deleteOldDenials(db, new Date(deps.now().getTime() - KEPT_MS))

function toDenial(row: store.DenialRow): Denial {
  const text = (name: string) => (typeof row.facts[name] === 'string' ? (row.facts[name] as string) : null)
  return {
    sessionId: row.session_id,
    appId: row.app_id,
    userId: row.user_id,
    walletId: row.wallet_id,
    rule: row.rule,
    code: row.code as Denial['code'],
    message: row.message,
    command: row.command,
    asset: (row.facts.asset as Denial['asset']) ?? null,
    window: text('window') as Denial['window'],
    limit: text('limit'),
    spent: text('spent'),
    asked: text('asked'),
    remaining: text('remaining'),
    count: row.n,
    firstAt: row.first_at.toISOString(),
    lastAt: row.last_at.toISOString(),
  }
}

async function list(deps: Deps, caller: Caller, filter: store.DenialFilter, query: ListDenials): Promise<Page<Denial>> {
  const { page, pageSize, offset } = paging(query)
  const { rows, total } = await store.listDenials(deps.db, caller, filter, { offset, pageSize })
  return { items: rows.map(toDenial), total, page, pageSize }
}

/** A page of denials of a user, a wallet, a session or all, newest first. */
export function listDenials(deps: Deps, caller: Caller, query: ListDenials): Promise<Page<Denial>> {
  const { session_id: sessionId = null, user_id: userId = null, wallet_id: walletId = null } = query
  return list(deps, caller, { sessionId, userId, walletId }, query)
}

/** A page of the denials of one session. @throws not_found */
export async function listDenialsOf(deps: Deps, viewer: Viewer, id: string, query: ListDenials): Promise<Page<Denial>> {
  const session = await findVisible(sessions.findSession, deps.db, viewer, id)
  return list(deps, viewer.caller, { sessionId: session.id, userId: null, walletId: null }, query)
}
