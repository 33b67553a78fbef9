// What tests of subscribers and their portal have in common.
import {
  type Answer,
  type CallOptions,
  call,
  eventually,
  type Service,
  type Tenant,
} from '../../../test/harness/harness.ts'
import { newId } from '../../platform/ids.ts'
import { ok } from '../events/own-events.fixture.ts'

/** Makes a subscriber. @returns its id */
export const newSubscriber = async (tenant: Tenant, more: object = {}): Promise<string> =>
  ok(await tenant.post('/subscribers', { externalId: newId('job'), ...more }), 201).id

/** Makes a webhook of a subscriber. @returns its id */
export async function newWebhook(tenant: Tenant, url: string, subscriberId: string | null, events = ['*']) {
  const { id } = ok(await tenant.post('/webhooks', { url, events, subscriberId }), 201)
  return id as string
}

/** Publishes an event. @returns its id */
export const publish = async (tenant: Tenant, type: string, subscriberId: string | null = null): Promise<string> =>
  ok(await tenant.post('/events', { type, data: {}, ...(subscriberId === null ? {} : { subscriberId }) }), 201).id

/** The webhooks that an event was sent to, sorted. Feed and deliveries are written together, so none comes later. */
export async function sentTo(tenant: Tenant, eventId: string): Promise<string[]> {
  const isInFeed = async () =>
    ok(await tenant.get('/events?last=1000&limit=1000')).events.some(({ id }: { id: string }) => id === eventId)
  await eventually(`${eventId} in the feed`, isInFeed)
  const deliveries = ok(await tenant.get(`/events/${eventId}/deliveries?page_size=100`))
  return deliveries.map(({ webhookId }: { webhookId: string }) => webhookId).sort()
}

/** A subscriber's portal, as its page calls it. */
export interface OpenPortal {
  url: string
  token: string
  call(method: string, path: string, options?: CallOptions): Promise<Answer>
}

/** Opens the portal of a subscriber. */
export async function openPortal(
  service: Service,
  tenant: Tenant,
  subscriberId: string,
  input: object = {},
): Promise<OpenPortal> {
  const { url } = ok(await tenant.post(`/subscribers/${subscriberId}/portal-link`, input), 201)
  return portalOf(service, url)
}

/** The portal of a link. */
export function portalOf(service: Service, url: string): OpenPortal {
  const token = new URLSearchParams(new URL(url).hash.slice(1)).get('token') as string
  const authorization = `Bearer ${token}`
  return {
    url,
    token,
    call: (method, path, options = {}) =>
      call(service.url, method, `/portal/api${path}`, { ...options, headers: { authorization, ...options.headers } }),
  }
}
