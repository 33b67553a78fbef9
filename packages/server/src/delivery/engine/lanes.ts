import { type Db, sql } from '../../platform/db/db.ts'

/** Names a lane, as rows of `deliveries` do: its webhook's own, or the one for test events. */
export interface LaneRef {
  tenant_id: string
  lane_id: string
}

/** The lane of a webhook's test events: apart, so that a test is neither delayed by a backlog nor stopped by a pause. */
export function testLaneId(webhookId: string): string {
  return `test:${webhookId}`
}

/** Part of a statement: the lanes, each once, as rows of tenant and id. */
function distinct(lanes: readonly LaneRef[]) {
  const once = [...new Map(lanes.map((lane) => [lane.lane_id, lane])).values()]
  return sql`unnest(${once.map((lane) => lane.tenant_id)}::text[], ${once.map((lane) => lane.lane_id)}::text[])`
}

/**
 * Locks lanes in id order, as every writer does before it touches their deliveries: so two of them never wait for each
 * other in a circle, and none makes a row due behind a claim's back.
 */
export async function lockLanes(tx: Db, lanes: readonly LaneRef[]): Promise<void> {
  if (lanes.length === 0) return
  await tx.run(sql`
    select 1 from lanes where (tenant_id, id) in (select * from ${distinct(lanes)})
    order by tenant_id, id for no key update`)
}

/**
 * Makes lanes due now. The lane rule: a writer that makes a row due makes its lane due, in the same transaction and
 * under the lane's lock.
 */
export async function makeLanesDue(tx: Db, lanes: readonly LaneRef[]): Promise<void> {
  if (lanes.length === 0) return
  await tx.run(sql`
    update lanes l set due_at = least(l.due_at, now()), floor_at = least(l.floor_at, now())
    from ${distinct(lanes)} as t(tenant_id, id)
    where l.tenant_id = t.tenant_id and l.id = t.id and (l.due_at > now() or l.floor_at > now())`)
}
