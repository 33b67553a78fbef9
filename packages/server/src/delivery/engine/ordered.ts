// Events with the same ordering key reach a webhook one after the other, in however many processes. Three places see to it: the
// fan-out leaves an event in the outbox while an earlier one of its key is there (`blocked` in fan-out.ts); a delivery that is not the
// first of its key is written without a time (`behind` in write-deliveries.ts); and what ends a delivery gives the next one its time
// (`releaseNext`, called by complete.ts and wherever else a delivery ends).
import { type Db, sql } from '../../platform/db/db.ts'
import { type LaneRef, lockLanes, makeLanesDue } from './lanes.ts'

/** What must not overtake: the deliveries of a webhook whose events have the same ordering key. */
export interface Sequence {
  tenant_id: string
  webhook_id: string
  /** Null for a delivery that waits for no other. */
  ordering_key: string | null
}

const FIRST: Sequence = { tenant_id: '', webhook_id: '', ordering_key: '' }

/** A sequence of which a delivery has ended. */
export interface Ended extends Sequence {
  /** Of the delivery, if it was the first: only then it was sent. Null to look from the beginning. */
  place: number | null
}

/**
 * Makes the next delivery of each sequence due, after the one before it has ended. The caller has locked the lanes: a
 * fan-out that adds to a sequence either sees the end, or is seen here. It is looked for behind the place of the one that
 * ended: while a long transaction keeps the dead index entries of thousands before it, they are not read.
 * @returns whether any became due
 */
export async function releaseNext(tx: Db, ended: readonly Ended[]): Promise<boolean> {
  const keyed = ended.filter(({ ordering_key }) => ordering_key !== null)
  if (keyed.length === 0) return false
  const released = await tx.query<LaneRef>(sql`
    update deliveries d set next_at = now() from (
      select n.* from (
        select distinct * from unnest(${keyed.map((each) => each.tenant_id)}::text[], ${keyed.map((each) => each.webhook_id)}::text[],
          ${keyed.map((each) => each.ordering_key)}::text[], ${keyed.map((each) => each.place ?? 0)}::bigint[])
          as s(tenant_id, webhook_id, ordering_key, place)) s
      cross join lateral (
        select f.tenant_id, f.webhook_id, f.id, f.next_at from deliveries f
        where f.tenant_id = s.tenant_id and f.webhook_id = s.webhook_id and f.ordering_key = s.ordering_key and f.place > s.place
        order by f.place limit 1) n
      where n.next_at = 'infinity') n
    where d.tenant_id = n.tenant_id and d.webhook_id = n.webhook_id and d.id = n.id
    returning d.tenant_id, d.lane_id`)
  await makeLanesDue(tx, released)
  return released.length > 0
}

const SEQUENCES_A_LOOK = 2_000

/**
 * Looks through the sequences, some at a time, for those of which the first delivery waits behind nothing. No writer of this
 * version leaves one; a worker of a version before ordering keys does, since it ends a delivery and knows nothing of those
 * behind.
 */
export function createReleaseOfStranded(db: Db) {
  /** The last sequence of the look before; the next one begins behind it. */
  let behind: Sequence = FIRST

  /** @returns how many were made due */
  return async function releaseStranded(): Promise<number> {
    const { tenant_id, webhook_id, ordering_key } = behind
    // From one sequence to the next, the index is skipped through: each may have a million deliveries.
    const seen = await db.query<Sequence & LaneRef & { stranded: boolean }>(sql`
      with recursive s(tenant_id, webhook_id, ordering_key, lane_id, stranded, n) as (
        (select tenant_id, webhook_id, ordering_key, lane_id, next_at = 'infinity', 1 from deliveries
          where ordering_key is not null and (tenant_id, webhook_id, ordering_key) > (${tenant_id}, ${webhook_id}, ${ordering_key})
          order by tenant_id, webhook_id, ordering_key, place limit 1)
        union all
        select f.*, s.n + 1 from s cross join lateral (
          select d.tenant_id, d.webhook_id, d.ordering_key, d.lane_id, d.next_at = 'infinity' from deliveries d
          where d.ordering_key is not null and (d.tenant_id, d.webhook_id, d.ordering_key) > (s.tenant_id, s.webhook_id, s.ordering_key)
          order by d.tenant_id, d.webhook_id, d.ordering_key, d.place limit 1) f
        where s.n < ${SEQUENCES_A_LOOK})
      select tenant_id, webhook_id, ordering_key, lane_id, stranded from s`)
    behind = seen.length === SEQUENCES_A_LOOK ? (seen.at(-1) as Sequence) : FIRST
    const stranded = seen.filter((each) => each.stranded)
    if (stranded.length === 0) return 0
    return db.tx(async (tx) => {
      await lockLanes(tx, stranded)
      const whole = stranded.map((each) => ({ ...each, place: null }))
      return (await releaseNext(tx, whole)) ? stranded.length : 0
    })
  }
}

/** An event of a batch, with what decides whether it keeps its turn. */
interface Turn {
  event: { tenant_id: string; event_id: string; ordering_key: string | null }
  /** Not null while some of its webhooks are left to a later batch. */
  after: string | null
}

/**
 * The taken events without those that would overtake one with the same key, which is left in the outbox or has webhooks
 * left. @param found all events of the batch, in their order
 */
export function inTurn<T extends Turn>(found: readonly Turn['event'][], taken: readonly T[]): T[] {
  const byId = new Map(taken.map((each) => [each.event.event_id, each]))
  const stopped = new Set<string>()
  return found.flatMap(({ tenant_id, event_id, ordering_key }) => {
    const each = byId.get(event_id)
    if (ordering_key === null) return each ?? []
    const sequence = `${tenant_id} ${ordering_key}`
    if (stopped.has(sequence)) return []
    if (each === undefined || each.after !== null) stopped.add(sequence)
    return each ?? []
  })
}
