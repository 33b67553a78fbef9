import type { Db } from '../../../platform/db/db.ts'
import type { Publisher } from '../../../platform/events/events.ts'
import type { Id } from '../../../platform/ids.ts'
import { ALERT_TYPES, type Count, recordAttempts } from './alerts.ts'

const RECORD_MS = 5_000
/** Webhooks whose counts are kept at once. While the database is away, attempts of more of them are not counted. */
const WEBHOOKS_MAX = 20_000

/** What an attempt is counted by. */
interface Attempted {
  tenant_id: string
  webhook_id: string
  lane_id: string
  event_type: string
}

const ALERTS: ReadonlySet<string> = new Set(ALERT_TYPES)

/**
 * Counts a process's attempts in its memory and writes the counts down every few seconds: the statements that store
 * outcomes do no more for it. A process that is killed loses the counts of these seconds.
 */
export function createAttemptCounts(db: Db, publisher: Publisher) {
  let counts = new Map<string, Count>()
  let recordedAt = performance.now()

  function add({ tenantId, webhookId, attempts, failed }: Count): void {
    const count = counts.get(webhookId)
    if (count !== undefined) {
      count.attempts += attempts
      count.failed += failed
    } else if (counts.size < WEBHOOKS_MAX) counts.set(webhookId, { tenantId, webhookId, attempts, failed })
  }

  async function record(): Promise<void> {
    recordedAt = performance.now()
    if (counts.size === 0) return
    const taken = counts
    counts = new Map()
    try {
      await db.tx((tx) => recordAttempts(tx, publisher, [...taken.values()]))
    } catch (error) {
      for (const count of taken.values()) add(count)
      throw error
    }
  }

  return {
    /** As cheap as an addition. */
    count(row: Attempted, succeeded: boolean): void {
      if (row.lane_id !== row.webhook_id || ALERTS.has(row.event_type)) return
      const { tenant_id: tenantId, webhook_id: webhookId } = row as { tenant_id: Id<'ten'>; webhook_id: Id<'wh'> }
      add({ tenantId, webhookId, attempts: 1, failed: succeeded ? 0 : 1 })
    },
    /** Writes the counts down, if that is due. */
    async recordDue(): Promise<void> {
      if (performance.now() - recordedAt >= RECORD_MS) await record()
    },
    /** Writes the counts down now. */
    record,
  }
}

export type AttemptCounts = ReturnType<typeof createAttemptCounts>
