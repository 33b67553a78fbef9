import { createPoller, singleFlight } from '../concurrency/poll.ts'
import { type Db, type Sql, sql } from '../db/db.ts'
import type { Id } from '../ids.ts'
import type { Logger } from '../observability/log.ts'

/** What is counted without being an event. */
export const COUNTER_METRICS = ['deliveries_succeeded', 'deliveries_failed', 'api_requests', 'users_imported'] as const
export type CounterMetric = (typeof COUNTER_METRICS)[number]

/** So many of something happened within one second. */
interface CounterIncrement {
  tenantId: Id<'ten'>
  /** The app it belongs to; null for the tenant's own. */
  appId: Id<'app'> | null
  metric: CounterMetric
  /** By the service's clock, to the second. */
  at: Date
  n: number
}

/** A destination that increments are added to. */
export interface CounterSink {
  /** Runs in the transaction that removes the increments: each reaches every sink once. Ordered by tenant, app, metric, time. */
  add(tx: Db, rows: readonly CounterIncrement[]): Promise<void>
}

const ROWS_A_DRAIN = 5_000

/**
 * Moves a portion of the increments into every sink, in one transaction. Several processes may do so at once, each with
 * other increments. @returns whether there may be more
 */
export function drainCounters(db: Db, sinks: readonly CounterSink[]): Promise<boolean> {
  return db.tx(async (tx) => {
    // Undone by a crash of the database, it is only done again.
    await tx.run(sql`select set_config('synchronous_commit', 'off', true)`)
    const rows = await tx.query<CounterIncrement & { taken: number }>(sql`
      with gone as (
        delete from counter_increments where ctid = any (array(select ctid from counter_increments limit ${ROWS_A_DRAIN} for update skip locked)) returning *)
      select tenant_id as "tenantId", app_id as "appId", metric, date_trunc('second', at) as at, sum(n)::bigint as n,
        (sum(count(*)) over ())::bigint as taken
      from gone group by tenant_id, app_id, metric, date_trunc('second', at) order by 1, 2, 3, 4`)
    if (rows.length === 0) return false
    for (const sink of sinks) await sink.add(tx, rows)
    return rows[0]?.taken === ROWS_A_DRAIN
  })
}

/**
 * A `with` part, `incremented`: counts the deliveries that the statement ends. `ended` selects `tenant_id`, `app_id` (of the
 * event) and `status` of those that are no tests.
 */
export function countEnded(ended: Sql, at: Date): Sql {
  return sql`
    incremented as (
      insert into counter_increments (tenant_id, app_id, metric, n, at)
      select tenant_id, app_id, case status when 'succeeded' then 'deliveries_succeeded' else 'deliveries_failed' end, count(*), ${at}::timestamptz
      from (${ended}) as ended (tenant_id, app_id, status) where status in ('succeeded', 'dead_letter') group by 1, 2, 3)`
}

/** A `with` part, `incremented`: counts the rows of the part `added` as users that an import brought. */
export function countImported(tenantId: Id<'ten'>, appId: Id<'app'>, at: Date): Sql {
  return sql`
    incremented as (
      insert into counter_increments (tenant_id, app_id, metric, n, at)
      select ${tenantId}, ${appId}, 'users_imported', count(*), ${at}::timestamptz from added having count(*) > 0)`
}

/** Counts a process's requests in its memory, and writes the counts down every second. */
export interface RequestCounter {
  /** As cheap as an addition. */
  count(caller: { tenantId: Id<'ten'>; appId: Id<'app'> | null }): void
  /** Stores the counts. Does not throw: counts that cannot be written are kept for the next time. */
  flush(): Promise<void>
  start(): void
  stop(): Promise<void>
}

const FLUSH_MS = 1_000
/** While counts cannot be written, at most this many counts (per caller and second) are kept. More are lost. */
const COUNTS_MAX = 20_000

interface Count {
  tenantId: Id<'ten'>
  appId: Id<'app'> | null
  atMs: number
  n: number
}

/** How a transaction ended whose commit was not answered. */
async function hasCommitted(db: Db, transactionId: string): Promise<boolean | undefined> {
  const row = await db.one<{ status: string | null }>(sql`select pg_xact_status(${transactionId}::xid8) as status`)
  if (row?.status === 'in progress') return undefined
  // Too long ago to be known: then it was not this second's, and a count too few is better than one too many.
  return row?.status !== 'aborted'
}

/** Makes a process's counter of requests. */
export function createRequestCounter(deps: { db: Db; log: Logger; now(): Date }): RequestCounter {
  const { db, log, now } = deps
  let counts = new Map<string, Count>()
  let lost = 0
  /** Counts that are being written. With `transactionId`, it is not known yet whether they were committed. */
  let sent: { rows: Count[]; transactionId: string | null } | undefined

  async function write(): Promise<void> {
    if (sent !== undefined && sent.transactionId !== null) {
      const committed = await hasCommitted(db, sent.transactionId)
      if (committed === undefined) return
      if (committed) sent = undefined
    }
    if (sent === undefined) {
      if (counts.size === 0) return
      sent = { rows: [...counts.values()], transactionId: null }
      counts = new Map()
    }
    const batch = sent
    batch.transactionId = null
    await db.tx(async (tx) => {
      const { rows } = batch
      const row = await tx.one<{ id: string }>(sql`
        with incremented as (
          insert into counter_increments (tenant_id, app_id, metric, n, at)
          select tenant_id, app_id, 'api_requests', n, at
          from unnest(${rows.map((each) => each.tenantId)}::text[], ${rows.map((each) => each.appId)}::text[],
            ${rows.map((each) => each.n)}::bigint[], ${rows.map((each) => new Date(each.atMs))}::timestamptz[]) as t(tenant_id, app_id, n, at))
        select pg_current_xact_id()::text as id`)
      batch.transactionId = row?.id ?? null
    })
    sent = undefined
    if (lost > 0) log.warn({ lost }, 'requests were not counted: the database was unreachable for too long')
    lost = 0
  }

  /** One at a time: a second flush would only wait behind the first. */
  const flush = singleFlight(() =>
    write().catch((error: unknown) => log.warn({ err: error }, 'request counts could not be written yet')),
  )
  const poller = createPoller({
    pauseMs: FLUSH_MS,
    work: flush,
    log,
    failure: 'request counts could not be written yet',
  })

  return {
    count({ tenantId, appId }) {
      const second = Math.floor(now().getTime() / 1000)
      const key = `${tenantId} ${appId} ${second}`
      const count = counts.get(key)
      if (count !== undefined) count.n += 1
      else if (counts.size < COUNTS_MAX) counts.set(key, { tenantId, appId, atMs: second * 1000, n: 1 })
      else lost += 1
    },
    flush,
    start: poller.start,
    async stop() {
      await poller.stop()
      // The first may have begun before the last requests were counted.
      await flush()
      await flush()
    },
  }
}
