import { type Db, sql } from '../../platform/db/db.ts'

/** Names a lane. Its webhook's own, or the one for test events. */
export interface LaneRef {
  tenantId: string
  laneId: string
}

/** The lane of a webhook's test events: apart, so that a test is neither delayed by a backlog nor stopped by a pause. */
export function testLaneId(webhookId: string): string {
  return `test:${webhookId}`
}

function distinct<T extends LaneRef>(lanes: readonly T[]): T[] {
  return [...new Map(lanes.map((lane) => [lane.laneId, lane])).values()]
}

/**
 * Locks lanes in id order, as every writer does before it touches their deliveries: so two of them never wait for each
 * other in a circle, and none makes a row due behind a claim's back.
 */
export async function lockLanes(tx: Db, lanes: readonly LaneRef[]): Promise<void> {
  const all = distinct(lanes)
  if (all.length === 0) return
  await tx.run(sql`
    select 1 from lanes where (tenant_id, id) in (
      select * from unnest(${all.map((lane) => lane.tenantId)}::text[], ${all.map((lane) => lane.laneId)}::text[]))
    order by tenant_id, id for no key update`)
}

/** The lane rule: whoever makes a row due, in the same transaction and under the lane's lock, makes its lane due. */
export async function makeLanesDue(tx: Db, due: readonly (LaneRef & { inMs: number })[]): Promise<void> {
  const soonest = new Map<string, LaneRef & { inMs: number }>()
  for (const lane of due) {
    const known = soonest.get(lane.laneId)
    if (known === undefined || lane.inMs < known.inMs) soonest.set(lane.laneId, lane)
  }
  const all = [...soonest.values()]
  if (all.length === 0) return
  await tx.run(sql`
    update lanes l set due_at = least(l.due_at, d.next_at), floor_at = least(l.floor_at, d.next_at)
    from (
      select tenant_id, id, now() + in_ms * interval '1 millisecond' as next_at
      from unnest(${all.map((lane) => lane.tenantId)}::text[], ${all.map((lane) => lane.laneId)}::text[],
        ${all.map((lane) => lane.inMs)}::float8[]) as t(tenant_id, id, in_ms)) d
    where l.tenant_id = d.tenant_id and l.id = d.id and (l.due_at > d.next_at or l.floor_at > d.next_at)`)
}
