import { type Db, sql } from '../../../platform/db/db.ts'
import { type Publisher, publish } from '../../../platform/events/events.ts'
import type { Id } from '../../../platform/ids.ts'
import { type RecentAttempts, recentSums, WINDOW_MINUTES } from './recent.ts'

/** Percent of the attempts in the window; each is announced once an episode. */
const THRESHOLDS = [100, 90, 75, 50]
/** With fewer attempts, a share says little. */
const ATTEMPTS_MIN = 20
/** Below this share an episode ends. Well under the lowest threshold, so that one that hovers around it is one episode. */
const RECOVERED_PERCENT = 25
const EPISODES_A_SWEEP = 5_000

/** Their deliveries do not count, and a webhook gets none about itself: alerts never cause alerts. */
export const ALERT_TYPES = ['webhook.failing', 'webhook.recovered'] as const

/** Attempts of one webhook that are not written down yet. */
export interface Count extends RecentAttempts {
  tenantId: Id<'ten'>
  webhookId: Id<'wh'>
}

interface Judged extends RecentAttempts {
  tenant_id: Id<'ten'>
  id: Id<'wh'>
  app_id: Id<'app'> | null
  url: string
  /** Of the open episode; null without one. */
  threshold: number | null
  since: Date | null
}

/** The highest threshold that is reached; 0 for none. */
function reachedBy({ attempts, failed }: RecentAttempts): number {
  if (attempts < ATTEMPTS_MIN) return 0
  return THRESHOLDS.find((percent) => failed * 100 >= percent * attempts) ?? 0
}

/** Where little is sent, a window in which nothing failed has to do. */
function isRecovered({ attempts, failed }: RecentAttempts): boolean {
  if (attempts === 0) return false
  return failed === 0 || (attempts >= ATTEMPTS_MIN && failed * 100 < RECOVERED_PERCENT * attempts)
}

const dataOf = ({ id, url, attempts, failed }: Judged, threshold: number) => ({
  webhookId: id,
  host: new URL(url).host,
  threshold,
  windowMinutes: WINDOW_MINUTES,
  attempts,
  failed,
  failureRate: Math.round((failed / attempts) * 10_000) / 10_000,
})

/** Opens an episode or raises its threshold, and announces it. Of several processes that see it, one does. */
async function raise(tx: Db, publisher: Publisher, row: Judged, threshold: number): Promise<void> {
  const raised = await tx.run(sql`
    insert into webhook_alerts as a (tenant_id, webhook_id, threshold, since)
    values (${row.tenant_id}, ${row.id}, ${threshold}, date_trunc('milliseconds', now()))
    on conflict (tenant_id, webhook_id) do update set threshold = excluded.threshold where a.threshold < excluded.threshold`)
  if (raised === 0) return
  const data = dataOf(row, threshold)
  await publish(tx, publisher, { tenantId: row.tenant_id, appId: row.app_id, type: 'webhook.failing', data })
}

async function end(tx: Db, publisher: Publisher, row: Judged, since: Date): Promise<void> {
  const ended = await tx.run(
    sql`delete from webhook_alerts where tenant_id = ${row.tenant_id} and webhook_id = ${row.id} and since = ${since}`,
  )
  if (ended === 0) return
  const data = { ...dataOf(row, row.threshold as number), failingSince: since.toISOString() }
  await publish(tx, publisher, { tenantId: row.tenant_id, appId: row.app_id, type: 'webhook.recovered', data })
}

interface Looked {
  tenantId: string
  webhookId: string
}

const FIRST: Looked = { tenantId: '', webhookId: '' }

/** Compares webhooks with the thresholds. */
async function judge(tx: Db, publisher: Publisher, webhooks: readonly Looked[]): Promise<void> {
  const rows = await tx.query<Judged>(sql`
    select w.tenant_id, w.id, w.app_id, w.url, a.threshold, a.since, s.attempts, s.failed
    from unnest(${webhooks.map((each) => each.tenantId)}::text[], ${webhooks.map((each) => each.webhookId)}::text[]) as c(tenant_id, id)
    join webhooks w on w.tenant_id = c.tenant_id and w.id = c.id and w.deleted_at is null and w.status <> 'disabled'
    left join webhook_alerts a on a.tenant_id = c.tenant_id and a.webhook_id = c.id
    cross join lateral (${recentSums(sql`m.tenant_id = c.tenant_id and m.webhook_id = c.id`)}) s
    where a.threshold is not null or s.attempts >= ${ATTEMPTS_MIN}
    order by w.tenant_id, w.id`)
  for (const row of rows) {
    const threshold = reachedBy(row)
    if (threshold > (row.threshold ?? 0)) await raise(tx, publisher, row, threshold)
    else if (row.since !== null && isRecovered(row)) await end(tx, publisher, row, row.since)
  }
}

/**
 * Writes counts down and announces what they change, in one transaction. Two processes that count the same webhook wait
 * for each other at its row of this minute; at a change of the minute, the row of the episode decides.
 */
export async function recordAttempts(tx: Db, publisher: Publisher, counts: readonly Count[]): Promise<void> {
  // In the order of all who lock several.
  const sorted = counts.toSorted((a, b) => (a.webhookId < b.webhookId ? -1 : 1))
  await tx.run(sql`
    insert into webhook_minutes as m (tenant_id, webhook_id, minute, attempts, failed)
    select c.tenant_id, c.webhook_id, date_trunc('minute', now()), c.attempts, c.failed
    from unnest(${sorted.map((each) => each.tenantId)}::text[], ${sorted.map((each) => each.webhookId)}::text[],
      ${sorted.map((each) => each.attempts)}::int[], ${sorted.map((each) => each.failed)}::int[]) as c(tenant_id, webhook_id, attempts, failed)
    order by c.webhook_id
    on conflict (tenant_id, webhook_id, minute) do update set attempts = m.attempts + excluded.attempts, failed = m.failed + excluded.failed`)
  await judge(tx, publisher, sorted)
}

/** Forgets minutes outside the window, and the episodes of webhooks that were disabled: those have had an event of their own. */
export async function forgetOldMinutes(tx: Db): Promise<number> {
  await tx.run(sql`delete from webhook_minutes where minute < now() - ${WINDOW_MINUTES + 5} * interval '1 minute'`)
  return tx.run(sql`
    delete from webhook_alerts a using webhooks w where w.tenant_id = a.tenant_id and w.id = a.webhook_id and w.status = 'disabled'`)
}

/** Looks through the open episodes, some at a time, and ends those that end because time passes. */
export function createSweepOfAlerts(publisher: Publisher) {
  /** The last episode of the look before; the next one begins behind it. */
  let behind: Looked = FIRST

  /** @returns how many were looked at */
  return async function sweepAlerts(tx: Db): Promise<number> {
    const open = await tx.query<Looked>(sql`
      select tenant_id as "tenantId", webhook_id as "webhookId" from webhook_alerts
      where (tenant_id, webhook_id) > (${behind.tenantId}, ${behind.webhookId})
      order by tenant_id, webhook_id limit ${EPISODES_A_SWEEP}`)
    if (open.length > 0) await judge(tx, publisher, open)
    behind = open.length === EPISODES_A_SWEEP ? (open.at(-1) as Looked) : FIRST
    return open.length
  }
}
