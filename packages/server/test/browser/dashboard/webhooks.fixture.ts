// What the tests of webhooks in the dashboard have in common: a service, a browser, receivers, and what becomes of them.
import { afterAll } from 'vitest'
import { createUser, deliveriesIn, subscribe } from '../../../src/delivery/engine/delivery.fixture.ts'
import type { Tenant } from '../../harness/harness.ts'
import { answer, type Receiver, startReceiver } from '../../harness/receiver.ts'
import { type Dashboard, type DashboardOptions, useDashboard } from './support.ts'

/** Sets up what a file of tests needs, and clears it away. A delivery is sent twice, and is then a dead letter. */
export function useWebhookTests() {
  const receivers: Receiver[] = []
  const stage = useDashboard(async () => ({ HALFKEY_WEBHOOK_RETRY_DELAYS: '50ms' }))
  afterAll(async () => {
    for (const receiver of receivers) await receiver.close()
  })

  async function newReceiver(behaviour = answer(204)): Promise<Receiver> {
    const receiver = await startReceiver(behaviour)
    receivers.push(receiver)
    return receiver
  }

  return {
    newTenant: (): Promise<Tenant> => stage.service.newTenant(),
    /** Rows out of the service's own database. */
    sql: (text: string, values: unknown[]) => stage.service.sql(text, values),
    newReceiver,
    /** Signs in, and goes to a path below `/dashboard`. */
    async open(tenant: Tenant, path: string, options: DashboardOptions = {}): Promise<Dashboard> {
      return stage.arrive(tenant, { path, ...options })
    },
    /** A webhook with so many dead letters, whose receiver takes everything from then on. */
    async withDeadLetters(tenant: Tenant, count: number) {
      const receiver = await newReceiver(answer(503, 'try later'))
      const webhook = await subscribe(tenant, `${receiver.url}/hook`)
      for (let made = 0; made < count; made++) await createUser(tenant)
      const dead = await deliveriesIn(tenant, webhook.id, 'dead_letter', count)
      receiver.received.length = 0
      receiver.behave(answer(200, 'thanks'))
      return { receiver, webhook, dead }
    },
  }
}
