import { type Db, isTransient, sql } from '../../../platform/db/db.ts'
import type { Publisher } from '../../../platform/events/events.ts'
import { announceDeadLetters, countGone, type DeadLetter, endGone } from '../complete.ts'
import { type LaneRef, lockLanes, makeLanesDue } from '../lanes.ts'
import { type Ended, releaseNext } from '../ordered.ts'

export const HEARTBEAT_MS = 5_000
const TRUST_MS = 10_000
const SILENCE_AFTER_FAULT_MS = 15_000
/** A worker without a heartbeat for longer than this is considered dead. */
const DEAD_AFTER_SECONDS = 15
const ROWS_A_REAP = 500
/** A delivery whose workers keep dying may be the cause. */
const LEASES_LOST_MAX = 10

/** Writes this worker's heartbeat, by the database's clock. */
async function recordHeartbeat(db: Db, workerId: string): Promise<void> {
  await db.run(sql`
    insert into workers (id, started_at, heartbeat_at) values (${workerId}, clock_timestamp(), clock_timestamp())
    on conflict (id) do update set heartbeat_at = clock_timestamp()`)
}

/** A worker's contact with the database. All times are this process's monotonic clock. */
export interface Heartbeat {
  beat(): Promise<void>
  /** Whether a heartbeat was confirmed recently: without one, other workers may take this one for dead. */
  alive(): boolean
  fault(): void
  /**
   * Whether the database has been in reach for a while. Right after a fault the other workers may be as silent as this
   * one was, and are no more dead.
   */
  settled(): boolean
}

/** Follows one worker's heartbeats. */
export function createHeartbeat(db: Db, workerId: string): Heartbeat {
  let confirmedAt = Number.NEGATIVE_INFINITY
  let faultAt = Number.NEGATIVE_INFINITY
  return {
    async beat() {
      const startedAt = performance.now()
      await recordHeartbeat(db, workerId)
      confirmedAt = startedAt
    },
    alive: () => performance.now() - confirmedAt < TRUST_MS,
    fault() {
      faultAt = performance.now()
    },
    settled: () => performance.now() - faultAt > SILENCE_AFTER_FAULT_MS,
  }
}

/** Signs a worker off; its leases, if any are left, are free at once. */
export async function signOff(db: Db, workerId: string): Promise<void> {
  await db.run(sql`delete from workers where id = ${workerId}`)
}

/** A delivery whose worker died or is too late. */
interface LostRow extends LaneRef {
  webhook_id: string
  id: string
  lease_id: string
}

/**
 * Leases that ran out, and those of workers that are dead or signed off. A worker counts as dead only if the database
 * itself has been up for longer than the silence: its own absence makes nobody dead.
 */
function findLost(db: Db): Promise<LostRow[]> {
  return db.query<LostRow>(sql`
    with live as (
      select id from workers where heartbeat_at > clock_timestamp() - ${DEAD_AFTER_SECONDS} * interval '1 second'
        or pg_postmaster_start_time() > clock_timestamp() - ${DEAD_AFTER_SECONDS} * interval '1 second')
    select tenant_id, webhook_id, id, lane_id, lease_id from deliveries
    where lease_id is not null and (lease_until < clock_timestamp() or split_part(lease_id, '/', 1) not in (select id from live))
    limit ${ROWS_A_REAP}`)
}

/**
 * Makes lost deliveries due again; the tenth loss makes a dead letter (`worker_lost`), and a test event is never sent
 * twice. A worker that still lives finds its lease gone and changes nothing.
 * @returns how many were lost
 */
export async function reap(
  db: Db,
  publisher: Publisher,
  refused: (row: LostRow, error: unknown) => void,
): Promise<number> {
  const found = await findLost(db)
  if (found.length === 0) return 0
  try {
    return await takeBack(db, publisher, found)
  } catch (error) {
    if (isTransient(error)) throw error
    // A delivery that the database refuses must not block the others.
    let taken = 0
    for (const row of found) {
      taken += await takeBack(db, publisher, [row]).catch((each: unknown) => {
        if (isTransient(each)) throw each
        refused(row, each)
        return 0
      })
    }
    return taken
  }
}

function takeBack(db: Db, publisher: Publisher, found: readonly LostRow[]): Promise<number> {
  return db.tx(async (tx) => {
    await lockLanes(tx, found)
    const rows = sql`unnest(${found.map((r) => r.tenant_id)}::text[], ${found.map((r) => r.webhook_id)}::text[], ${found.map((r) => r.id)}::text[],
      ${found.map((r) => r.lease_id)}::text[]) as o(tenant_id, webhook_id, id, lease_id)`
    const own = sql`d.tenant_id = o.tenant_id and d.webhook_id = o.webhook_id and d.id = o.id and d.lease_id = o.lease_id`
    const ended = await tx.query<LaneRef & DeadLetter & Ended>(sql`
      with gone as (
        delete from deliveries d using ${rows}
        where ${own} and (d.leases_lost + 1 >= ${LEASES_LOST_MAX} or d.lane_id <> d.webhook_id)
        returning d.*, case when d.lane_id = d.webhook_id then 'dead_letter' else 'failed' end as status),
      tried as (
        insert into attempts (tenant_id, delivery_id, number, at, duration_ms, error)
        select tenant_id, id, attempts, clock_timestamp(), 0, 'worker_lost' from gone),
      ended as (${endGone(sql`attempts + 1`)}),
      ${countGone(publisher.now())}
      select g.tenant_id, g.webhook_id, g.id, g.lane_id, g.event_id, g.event_type, g.ordering_key, g.place, w.app_id
      from gone g join webhooks w on w.tenant_id = g.tenant_id and w.id = g.webhook_id`)
    const freed = await tx.query<LaneRef>(sql`
      update deliveries d set lease_id = null, lease_until = null, leases_lost = d.leases_lost + 1, next_at = now()
      from ${rows} where ${own} returning d.lane_id, d.tenant_id`)
    // An ended row frees a place too: a lane that waits at its cap must hear of it.
    await makeLanesDue(tx, [...freed, ...ended])
    await releaseNext(tx, ended)
    await announceDeadLetters(
      tx,
      publisher,
      ended.filter((row) => row.lane_id === row.webhook_id),
    )
    return freed.length + ended.length
  })
}

/** Deletes workers that have been silent for an hour: their leases ran out long ago. */
export function forgetDeadWorkers(db: Db): Promise<number> {
  return db.run(sql`delete from workers where heartbeat_at < clock_timestamp() - interval '1 hour'`)
}

/**
 * Finds lanes whose work is due while they are not: no writer should ever leave one, so each is worth a warning.
 * @returns how many were made due
 */
export async function wakeStrandedLanes(db: Db): Promise<number> {
  const asleep = await db.query<LaneRef>(sql`
    select l.tenant_id, l.id as lane_id from lanes l
    cross join lateral (
      select d.next_at from deliveries d where d.lane_id = l.id and d.lease_id is null order by d.next_at limit 1) n
    where not l.held and l.due_at > now() + interval '1 second' and n.next_at < now() - interval '5 seconds'
      and not (l.saturated and exists (select from deliveries f where f.lane_id = l.id and f.lease_id is not null))
    limit 1000`)
  if (asleep.length === 0) return 0
  return db.tx(async (tx) => {
    await lockLanes(tx, asleep)
    return tx.run(sql`
      update lanes l set due_at = now(), floor_at = '-infinity', saturated = false
      from unnest(${asleep.map((lane) => lane.tenant_id)}::text[], ${asleep.map((lane) => lane.lane_id)}::text[]) as t(tenant_id, id)
      where l.tenant_id = t.tenant_id and l.id = t.id and l.due_at > now() + interval '1 second'`)
  })
}
