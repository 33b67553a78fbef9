// What tests of deliveries have in common: subscribing a receiver, causing events, watching records.
import { eventually, type Service, type Tenant } from '../../../test/harness/harness.ts'
import { idTime } from '../../platform/ids.ts'

/** A webhook as a test needs it. */
export interface Subscribed {
  id: string
  secret: string
}

// biome-ignore lint/suspicious/noExplicitAny: answers are looked into by path; the contract is what the tests state
type Answered = any

/** Makes a webhook of this tenant; without `events` it gets `user.created`. */
export async function subscribe(
  tenant: Tenant,
  url: string,
  input: { events?: string[]; appId?: string } = {},
): Promise<Subscribed> {
  const made = await tenant.post('/webhooks', { url, events: ['user.created'], ...input })
  if (made.status !== 201) throw new Error(`no webhook: ${made.text}`)
  return { id: made.body.data.id, secret: made.body.data.secret }
}

/** Causes one `user.created`; answers the user's id. */
export async function createUser(tenant: Tenant, body: object = {}): Promise<string> {
  const made = await tenant.post('/users', body)
  if (made.status !== 201) throw new Error(`no user: ${made.text}`)
  return made.body.data.id as string
}

/** The newest hundred deliveries that a query such as `&status=succeeded` finds. */
export async function deliveriesOf(tenant: Tenant, webhookId: string, query = ''): Promise<Answered[]> {
  const answer = await tenant.get(`/webhooks/${webhookId}/deliveries?page_size=100${query}`)
  if (answer.status !== 200) throw new Error(`no deliveries: ${answer.text}`)
  return answer.body.data
}

/** Waits until a webhook has so many deliveries in a state; answers them, newest first. */
export function deliveriesIn(
  tenant: Tenant,
  webhookId: string,
  status: string,
  count = 1,
  timeoutMs?: number,
): Promise<Answered[]> {
  return eventually(
    `${count} deliveries ${status}`,
    async () => {
      const found = await deliveriesOf(tenant, webhookId, `&status=${status}`)
      return found.length >= count && found
    },
    timeoutMs,
  )
}

/** A delivery with its payload. */
export async function deliveryOf(tenant: Tenant, webhookId: string, id: string): Promise<Answered> {
  return (await tenant.get(`/webhooks/${webhookId}/deliveries/${id}`)).body.data
}

/** Waits until a job has ended. */
export function jobEnded(tenant: Tenant, id: string, timeoutMs?: number): Promise<Answered> {
  return eventually(
    'the job ends',
    async () => {
      const job = (await tenant.get(`/jobs/${id}`)).body.data
      return (job.status === 'succeeded' || job.status === 'failed') && job
    },
    timeoutMs,
  )
}

/** An id's part that is the same for all that one statement makes: the time, and chance. */
const idStem = (atMs = Date.now()) => idTime(atMs) + String(Math.random()).slice(2, 10).padEnd(8, '0')

const NEW_EVENTS = `
  ids as (select 'evt_' || $3 || lpad(n::text, 8, '0') as id, 'dlv_' || $3 || lpad(n::text, 8, '0') as delivery from generate_series(1, $2::int) n),
  event_rows as (
    insert into events (tenant_id, id, app_id, type, body, created_at, context)
    select $1, id, null, 'user.created', json_build_object('id', id, 'type', 'user.created')::text, now(), '{}' from ids)`

/** Writes so many events with their outbox rows, as one business transaction that began at `atMs` would. */
export async function insertEvents(service: Service, tenant: Tenant, count: number, atMs?: number): Promise<void> {
  await service.sql(
    `with ${NEW_EVENTS}
     insert into outbox (tenant_id, event_id, app_id, type) select $1, id, null, 'user.created' from ids`,
    [tenant.tenantId, count, idStem(atMs)],
  )
}

/** Writes so many due deliveries of one new event each, by the engine's lane rule. */
export async function insertDue(service: Service, tenant: Tenant, webhookId: string, count: number): Promise<void> {
  await service.sql(
    `with ${NEW_EVENTS},
     lane as (update lanes set due_at = least(due_at, now()), floor_at = least(floor_at, now()) where tenant_id = $1 and id = $4)
     insert into deliveries (tenant_id, webhook_id, id, lane_id, event_id, event_type, next_at, created_at)
     select $1, $4, delivery, $4, id, 'user.created', now(), now() from ids`,
    [tenant.tenantId, count, idStem(), webhookId],
  )
}

/** Writes so many dead letters of one new event each. */
export async function insertDeadLetters(
  service: Service,
  tenant: Tenant,
  webhookId: string,
  count: number,
): Promise<void> {
  await service.sql(
    `with ${NEW_EVENTS}
     insert into deliveries_done (tenant_id, webhook_id, id, event_id, event_type, status, cycle, retry, attempts, created_at, done_at)
     select $1, $4, delivery, id, 'user.created', 'dead_letter', 0, 5, 6, now(), now() from ids`,
    [tenant.tenantId, count, idStem(), webhookId],
  )
}
