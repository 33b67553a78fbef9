// What the delivery benchmarks share: the database, the receiver's endpoints, prepared backlogs, exact counting.

import type { Received } from '../child/receiver.ts'
import { type Helper, startHelper } from '../children.ts'
import { pause } from '../figures.ts'
import type { Watched } from '../proc.ts'
import { type Bed, openBed, type Service } from '../service.ts'
import { call, firstTenant, forEachOf } from '../tenant.ts'

const ENDPOINTS = 40
const SETTLED_MS = 500
const SILENCE_MAX_MS = 20_000

/** An app and the webhook that gets its events. */
export interface Endpoint {
  appId: string
  webhookId: string
}

export interface Stage {
  bed: Bed
  tenantId: string
  receiver: Helper
  emitter: Helper
  sender: Helper
  ports: number[]
  endpoints: Endpoint[]
  quick: boolean
  /** Posts a second by bare undici to the same receiver; measured once, before everything else. */
  rawPerSecond: number
  raw: string
}

export async function addEndpoint(stage: Pick<Stage, 'bed'>, service: Service, url: string): Promise<Endpoint> {
  const target = { bed: stage.bed, service }
  const { data: app } = await call<{ data: { id: string } }>(target, 'POST', '/apps', { name: 'Bench' })
  const hook = { url, events: ['user.created'], appId: app.id }
  const { data: webhook } = await call<{ data: { id: string } }>(target, 'POST', '/webhooks', hook)
  return { appId: app.id, webhookId: webhook.id }
}

/** Opens the database, starts the helpers and subscribes 40 endpoints, each to an app of its own. No service runs afterwards. */
export async function openStage(quick: boolean): Promise<Stage & { close(): Promise<void> }> {
  const bed = await openBed()
  const [receiver, emitter, sender] = [startHelper('receiver'), startHelper('emitter'), startHelper('sender')] as const
  const close = async () => {
    for (const helper of [emitter, sender, receiver]) await helper.end()
    await bed.close()
  }
  try {
    const service = await bed.start()
    const { tenantId } = await firstTenant(bed)
    const ports = await receiver.call<number[]>('open', ENDPOINTS)
    await emitter.call('open', bed.connection)
    const endpoints: Endpoint[] = new Array(ENDPOINTS)
    await forEachOf(ENDPOINTS, async (at) => {
      endpoints[at] = await addEndpoint({ bed }, service, `http://127.0.0.1:${ports[at]}/w/${at}`)
    })
    await service.stop()
    return {
      bed,
      tenantId,
      receiver,
      emitter,
      sender,
      ports,
      endpoints,
      quick,
      rawPerSecond: Number.NaN,
      raw: '',
      close,
    }
  } catch (error) {
    await close()
    throw error
  }
}

export function watchedOf(stage: Stage, service: Service): Watched {
  return {
    service: { pid: service.pid },
    PostgreSQL: { pid: stage.bed.postgresPid, family: true },
    emitter: { pid: stage.emitter.pid },
    receiver: { pid: stage.receiver.pid },
  }
}

/** Waits until so many different deliveries came, or none comes any more; then a moment for what comes twice. */
export async function untilReceived(stage: Stage, expected: number): Promise<Received> {
  let last = -1
  let changedAt = performance.now()
  for (;;) {
    const { distinct } = await stage.receiver.call<Received>('received')
    if (distinct !== last) changedAt = performance.now()
    if (distinct >= expected || performance.now() - changedAt > SILENCE_MAX_MS) break
    last = distinct
    await pause(25)
  }
  await pause(SETTLED_MS)
  return stage.receiver.call<Received>('received')
}

/**
 * Writes due deliveries straight into the engine's tables, spread evenly over `webhooks`, as a fan-out would have left
 * them. To be called while no worker runs.
 */
export async function addBacklog(stage: Stage, webhooks: readonly Endpoint[], count: number): Promise<void> {
  const { sql } = stage.bed
  const tag = Date.now().toString(16).padStart(12, '0').slice(-12)
  const at = new Date().toISOString()
  const chunk = 50_000
  for (let from = 0; from < count; from += chunk) {
    await sql(
      `with n as (
         select n, 'evt_00' || $2 || lpad(to_hex(n), 12, '0') as id, ($4::text[])[1 + n % cardinality($4::text[])] as app_id,
           ($5::text[])[1 + n % cardinality($5::text[])] as webhook_id
         from generate_series($6::int, $7::int) n),
       e as (
         insert into events (tenant_id, id, app_id, type, body, created_at, context)
         select $1, id, app_id, 'user.created', json_build_object('id', id, 'type', 'user.created', 'created_at', $3::text,
           'api_version', '2026-11-01', 'data', json_build_object('userId', 'usr_' || substr(id, 5), 'email', 'prepared-' || n || '@example.com',
           'partyId', 'usr_' || substr(id, 5) || '::1220123087e6bf66d225d047e6af8b0944bc50cc470cb46afd9515a558bf55605441'))::text, now(), '{}' from n)
       insert into deliveries (tenant_id, webhook_id, id, lane_id, event_id, event_type, next_at, created_at)
       select $1, webhook_id, 'dlv_' || substr(id, 5), webhook_id, id, 'user.created', now() - interval '1 minute' + n * interval '1 microsecond', now() from n`,
      [
        stage.tenantId,
        tag,
        at,
        webhooks.map((each) => each.appId),
        webhooks.map((each) => each.webhookId),
        from,
        Math.min(count, from + chunk) - 1,
      ],
    )
  }
  await sql(
    `update lanes set due_at = now() - interval '1 minute', floor_at = '-infinity', saturated = false where tenant_id = $1 and id = any($2::text[])`,
    [stage.tenantId, webhooks.map((each) => each.webhookId)],
  )
  await sql('vacuum analyze deliveries, events, lanes')
  await stage.bed.checkpoint()
}

/** What the engine still has to do for these webhooks, and attempts that did not succeed: both 0 when all went well. */
export async function leftovers(stage: Stage): Promise<{ pending: number; outbox: number; retried: number }> {
  const [row] = await stage.bed.sql<{ pending: number; outbox: number; retried: number }>(
    `select (select count(*) from deliveries)::int as pending, (select count(*) from outbox)::int as outbox,
       (select count(*) from attempts where error is not null)::int as retried`,
  )
  return row ?? { pending: Number.NaN, outbox: Number.NaN, retried: Number.NaN }
}

/** Empties the engine's tables between two benchmarks, so that the second does not pay for the first. */
export async function clear(stage: Stage): Promise<void> {
  await stage.bed.sql('truncate deliveries, deliveries_done, attempts, events, outbox, feed')
  await stage.bed.sql(
    `update lanes set due_at = 'infinity', floor_at = '-infinity', saturated = false, slow = false, timeouts = 0, failing_since = null`,
  )
  await stage.bed.sql('vacuum analyze lanes')
  await stage.receiver.call('reset')
}
