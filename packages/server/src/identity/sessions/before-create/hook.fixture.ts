import { createHmac } from 'node:crypto'
import { expect } from 'vitest'
import type { Service, Tenant } from '../../../../test/harness/harness.ts'
import { answer, type Received, type Receiver, startReceiver } from '../../../../test/harness/receiver.ts'

export const SECRET = `whsec_${Buffer.alloc(32, 7).toString('base64')}`

/** A server of an app's that decides about sign-ins. */
export interface HookServer extends Receiver {
  decide(decision: unknown): void
}

export async function startHookServer(): Promise<HookServer> {
  const receiver = await startReceiver()
  const server: HookServer = {
    ...receiver,
    decide: (decision) => receiver.behave(answer(200, JSON.stringify(decision))),
  }
  server.decide({ decision: 'allow' })
  return server
}

/** From now on, this server decides about the sign-ins of the tenant's app. */
export async function setHook(tenant: Tenant, { url }: Receiver, more: object = {}): Promise<void> {
  const signInHook = { url, secret: SECRET, ...more }
  const set = await tenant.patch(`/apps/${tenant.appId}`, { signInHook })
  expect(set.status, set.text).toBe(200)
}

/** How many sessions and users a tenant has. */
export async function counted(service: Service, { tenantId }: Tenant): Promise<{ sessions: number; users: number }> {
  const [row] = await service.sql<{ sessions: number; users: number }>(
    `select (select count(*)::int from sessions where tenant_id = $1) as sessions,
      (select count(*)::int from users where tenant_id = $1) as users`,
    [tenantId],
  )
  return row as { sessions: number; users: number }
}

/** Fails unless the app's secret signed the question as webhooks are signed. */
export function expectSigned({ headers, body }: Received): void {
  const text = `${headers['webhook-id']}.${headers['webhook-timestamp']}.${body}`
  const mac = createHmac('sha256', Buffer.alloc(32, 7)).update(text).digest('base64')
  expect(headers['webhook-signature']).toBe(`v1,${mac}`)
  const specified = createHmac('sha256', SECRET).update(`${headers['x-service-timestamp']}.${body}`).digest('hex')
  expect(headers['x-service-signature']).toBe(`sha256=${specified}`)
}
