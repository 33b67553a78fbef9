import { expect } from 'vitest'
import type { Answer, Service, Tenant } from '../../../test/harness/harness.ts'

// biome-ignore lint/suspicious/noExplicitAny: looked into by path; the contract is what the tests state
export type Json = any

/** Headers by which a user's own token calls. */
export const bearer = (who: { accessToken: string }) => ({ authorization: `Bearer ${who.accessToken}` })

/** A guest session with its tokens. */
export async function newGuest(tenant: Tenant, body: object = {}, key = tenant.key): Promise<Json> {
  const answer = await tenant.post('/guests', body, { key })
  expect(answer.status, answer.text).toBe(201)
  return answer.body.data
}

/** The data of a tenant's events of a type, oldest first. */
export async function eventsOf(service: Service, tenant: Tenant, type: string): Promise<Json[]> {
  const rows = await service.sql<{ body: string }>(
    'select body from events where tenant_id = $1 and type = $2 order by id',
    [tenant.tenantId, type],
  )
  return rows.map((row) => JSON.parse(row.body).data)
}

/** How many answers have each status and code. */
export function statusCounts(answers: readonly Answer[]): Record<string, number> {
  const counts: Record<string, number> = {}
  for (const { status, body } of answers) {
    const name = status < 300 ? String(status) : `${status} ${body.code}`
    counts[name] = (counts[name] ?? 0) + 1
  }
  return counts
}
