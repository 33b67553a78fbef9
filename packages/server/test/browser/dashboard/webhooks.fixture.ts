// What the tests of webhooks in the dashboard have in common: a service, a browser, receivers, and what becomes of them.
import type { Browser } from 'playwright-core'
import { afterAll, afterEach, beforeAll } from 'vitest'
import { createUser, deliveriesIn, subscribe } from '../../../src/webhooks/engine/delivery.fixture.ts'
import { type Service, startService, type Tenant } from '../../harness.ts'
import { answer, type Receiver, startReceiver } from '../../receiver.ts'
import { startChromium } from '../person.ts'
import { type Dashboard, type DashboardOptions, openDashboard } from './support.ts'

/** Sets up what a file of tests needs, and clears it away. A delivery is sent twice, and is then a dead letter. */
export function useWebhookTests() {
  let service: Service
  let browser: Browser
  let dashboard: Dashboard | undefined
  const receivers: Receiver[] = []
  beforeAll(async () => {
    service = await startService({ HALFKEY_WEBHOOK_RETRY_DELAYS: '50ms' })
    browser = await startChromium()
  })
  afterAll(async () => {
    await browser.close()
    for (const receiver of receivers) await receiver.close()
    await service.stop()
  })
  afterEach(async () => {
    const leaving = dashboard
    dashboard = undefined
    await leaving?.leave()
  })

  async function newReceiver(behaviour = answer(204)): Promise<Receiver> {
    const receiver = await startReceiver(behaviour)
    receivers.push(receiver)
    return receiver
  }

  return {
    newTenant: (): Promise<Tenant> => service.newTenant(),
    /** Rows out of the service's own database. */
    sql: (text: string, values: unknown[]) => service.sql(text, values),
    newReceiver,
    /** Signs in, and goes to a path below `/dashboard`. */
    async open(tenant: Tenant, path: string, options: DashboardOptions = {}): Promise<Dashboard> {
      dashboard = await openDashboard(browser, service, tenant, { path, ...options })
      return dashboard
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
