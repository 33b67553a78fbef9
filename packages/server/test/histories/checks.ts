import { sql } from '../../src/platform/db/db.ts'
import type { History } from './history.ts'
import { RETRY_DELAYS_MS } from './stage.ts'

/** What the engine logs about a worker that was late, which histories make happen. */
const EXPECTED_LOGS = ['leases lost', 'outcomes arrived after their lease had expired and were dropped']

interface Order {
  kind: string
  webhook_id: string
  event_id: string
}

/** Events in the outbox or made by the engine, and deliveries that break the order of their key. */
const NOW = sql`
  select 'waits' as kind, event_id, null as webhook_id, null as type, null as app_id, null as tenant_id, null as about from outbox
  union all
  select 'made', id, null, type, app_id, tenant_id, body::json -> 'data' ->> 'webhookId' from events where type like 'webhook.%'
  union all
  select 'overtakes', d.event_id, d.webhook_id, null, null, null, null from deliveries d
  where d.lease_id is not null and exists (
    select from deliveries f where f.tenant_id = d.tenant_id and f.webhook_id = d.webhook_id and f.ordering_key = d.ordering_key
      and f.event_id < d.event_id)
  union all
  select 'waits behind none', d.event_id, d.webhook_id, null, null, null, null from deliveries d
  where d.next_at = 'infinity' and not exists (
    select from deliveries f where f.tenant_id = d.tenant_id and f.webhook_id = d.webhook_id and f.ordering_key = d.ordering_key
      and f.event_id < d.event_id)`

interface NowRow extends Order {
  type: string
  app_id: string | null
  tenant_id: string
  about: string | null
}

/** What must be true after every step. Notes which events were fanned out in it. */
export async function checkNow(history: History): Promise<void> {
  const { stage, model } = history
  const rows = await stage.engineDb.query<NowRow>(NOW)
  const waiting = new Set<string>()
  for (const row of rows) {
    const { kind, event_id: id } = row
    if (kind === 'waits') waiting.add(id)
    else if (kind === 'made') {
      if (model.events.has(id)) continue
      const { tenant_id: tenantId, app_id: appId, type, about } = row
      const none = { subscriberId: null, colour: null, key: null, receivers: null }
      model.events.set(id, { ...none, id, tenantId, appId, type, about })
    } else history.violated(`${id} ${kind} at ${row.webhook_id}`)
  }
  for (const event of model.events.values())
    if (event.receivers === null && !waiting.has(event.id)) model.fannedOut(event)
  for (const { msg } of stage.logged()) if (!EXPECTED_LOGS.includes(msg)) history.violated(`logged: ${msg}`)
}

interface Done {
  webhook_id: string
  event_id: string
  status: string
  cycle: number
  retry: number
  attempts: number
  stored: number
  succeeded: number
  last_error: string | null
  last_status: number | null
}

const DONE = sql`
  select d.webhook_id, d.event_id, d.status, d.cycle, d.retry, d.attempts, a.stored, a.succeeded, l.error as last_error, l.status_code as last_status
  from deliveries_done d
  cross join lateral (
    select count(*)::int as stored, count(*) filter (where status_code = 200)::int as succeeded from attempts a
    where a.tenant_id = d.tenant_id and a.delivery_id = d.id) a
  left join lateral (
    select error, status_code from attempts a where a.tenant_id = d.tenant_id and a.delivery_id = d.id order by number desc limit 1) l on true`

/** Why a delivery may have become a dead letter; null if there is no reason. */
function reasonOf(history: History, done: Done): string | null {
  if (done.last_error === 'worker_lost') return 'worker lost'
  if (done.retry === RETRY_DELAYS_MS.length && done.last_status === 500) return 'all retries were used'
  const { events } = history.model
  const isDisabled = [...events.values()].some(
    ({ type, about }) => type === 'webhook.disabled' && about === done.webhook_id,
  )
  return isDisabled ? 'the webhook was disabled' : null
}

function checkOne(history: History, path: string, done: Done): void {
  const { network, model } = history
  const name = `${done.event_id} at ${path}`
  const sends = network.of(path, done.event_id)
  if (done.stored !== done.attempts) history.violated(`${name} has ${done.stored} of ${done.attempts} attempts`)
  if (done.cycle > 0 && !model.exempt.has(`${path} ${done.event_id}`))
    history.violated(`${name} was sent again, which nobody asked for`)
  if (sends.filter(({ status }) => status === 200).length < done.succeeded)
    history.violated(`${name} has successes that were not`)
  if (done.status === 'succeeded') {
    if (done.last_status !== 200 || !sends.some(({ status }) => status === 200))
      history.violated(`${name} succeeded without an answer`)
  } else if (done.status === 'cancelled') {
    if (!model.hooks.get(path)?.deleted) history.violated(`${name} is cancelled, and its webhook exists`)
  } else if (done.status !== 'dead_letter' || reasonOf(history, done) === null)
    history.violated(`${name} is ${done.status} for no reason`)
}

/** Every event reached exactly the webhooks that get it. */
function checkReached(history: History, rows: readonly Done[]): void {
  const { model, network } = history
  const pathOf = new Map([...model.hooks.values()].map(({ id, path }) => [id, path]))
  const reached = new Map<string, Done>()
  for (const row of rows) {
    const path = pathOf.get(row.webhook_id) as string
    reached.set(`${path} ${row.event_id}`, row)
    checkOne(history, path, row)
    if (!model.events.get(row.event_id)?.receivers?.may.has(path))
      history.violated(`${row.event_id} has a delivery at ${path}, which must not get it`)
  }
  for (const event of model.events.values())
    for (const path of event.receivers?.must ?? [])
      if (!reached.has(`${path} ${event.id}`)) history.violated(`${event.id} is lost at ${path}`)
  for (const { webhookId: path, eventId } of network.sends)
    if (!model.events.get(eventId)?.receivers?.may.has(path))
      history.violated(`${eventId} was sent to ${path}, which must not get it`)
}

/** With a key, each webhook got the events in their order, and none before the one ahead of it had ended. */
function checkOrder(history: History, rows: readonly Done[]): void {
  const { model, network } = history
  const pathOf = new Map([...model.hooks.values()].map(({ id, path }) => [id, path]))
  const statusOf = new Map(rows.map((row) => [`${pathOf.get(row.webhook_id)} ${row.event_id}`, row.status]))
  const sequences = new Map<string, { eventId: string; first: number; succeeded: number }[]>()
  for (const event of [...model.events.values()].sort((a, b) => (a.id < b.id ? -1 : 1)))
    for (const path of event.key === null ? [] : (event.receivers?.may ?? [])) {
      const sends = network.of(path, event.id)
      if (model.exempt.has(`${path} ${event.id}`) || sends.length === 0) continue
      const succeeded = sends.find(({ status }) => status === 200)?.number ?? Number.POSITIVE_INFINITY
      const name = `${path} ${event.key}`
      const own = { eventId: event.id, first: sends[0]!.number, succeeded }
      sequences.set(name, [...(sequences.get(name) ?? []), own])
    }
  for (const [name, sequence] of sequences)
    sequence.forEach((each, at) => {
      for (const ahead of sequence.slice(0, at)) {
        if (each.first < ahead.first) history.violated(`${each.eventId} overtook ${ahead.eventId} (${name})`)
        const status = statusOf.get(`${name.split(' ')[0]} ${ahead.eventId}`)
        if (status === 'succeeded' && each.first < ahead.succeeded)
          history.violated(`${each.eventId} was sent before ${ahead.eventId} had ended (${name})`)
      }
    })
}

interface FeedRow {
  tenant_id: string
  seq: number
  event_id: string
}

/** The feed has every event once, without gaps. */
async function checkFeed(history: History): Promise<void> {
  const feed = await history.stage.engineDb.query<FeedRow>(
    sql`select tenant_id, seq::int, event_id from feed order by tenant_id, seq`,
  )
  const ids = new Set(feed.map(({ event_id }) => event_id))
  if (ids.size !== feed.length || [...history.model.events.keys()].some((id) => !ids.has(id)))
    history.violated('the feed does not have each event once')
  const last = new Map<string, number>()
  for (const { tenant_id, seq } of feed) {
    if (seq !== (last.get(tenant_id) ?? 0) + 1) history.violated('the feed has a gap')
    last.set(tenant_id, seq)
  }
}

/** What must be true once nothing is left to do. */
export async function checkEnd(history: History): Promise<void> {
  const rows = await history.stage.engineDb.query<Done>(DONE)
  checkReached(history, rows)
  checkOrder(history, rows)
  await checkFeed(history)
}
