// What tests of published events have in common.
import { expect } from 'vitest'
import { type Answer, eventually, type Service, type Tenant } from '../../../test/harness/harness.ts'

// biome-ignore lint/suspicious/noExplicitAny: answers are looked into by path; the contract is what the tests state
export function ok(answer: Answer, status = 200): any {
  expect(answer.status, answer.text).toBe(status)
  return answer.body.data
}

/** Defines a type of events. @returns its record */
export const newType = async (tenant: Tenant, name: string, more: object = {}) =>
  ok(await tenant.post('/event-types', { name, ...more }), 201)

/** How many events of a type are stored. */
export async function countEvents(service: Service, tenant: Tenant, type: string): Promise<number> {
  const [row] = await service.sql<{ n: number }>(
    'select count(*)::int as n from events where tenant_id = $1 and type = $2',
    [tenant.tenantId, type],
  )
  return row?.n ?? 0
}

/** The feed's events of some types, once there are so many. */
export const inFeed = (tenant: Tenant, query: string, count: number) =>
  eventually(`${count} events of ${query} in the feed`, async () => {
    const { events } = ok(await tenant.get(`/events?limit=1000&type=${query}`))
    return events.length >= count && events
  })
