import { setTimeout as delay } from 'node:timers/promises'
import type { Delivery, HalfkeyClient, Webhook } from '../../../../sdk/src/index.ts'
import { makeEach, type Sample, type Seeding } from './sample.ts'
import { all } from './service.ts'

const DEAD_LETTERS = 5
/** More retries than any realistic schedule has. */
const RETRIES_MAX = 20
const WAIT_MS = 10_000
const POLL_MS = 50

async function until(condition: () => Promise<boolean>): Promise<boolean> {
  const deadline = performance.now() + WAIT_MS
  while (!(await condition())) {
    if (performance.now() > deadline) return false
    await delay(POLL_MS)
  }
  return true
}

async function countOf({ webhooks }: HalfkeyClient, { id }: Webhook, status: Delivery['status']): Promise<number> {
  return (await webhooks.deliveries.list(id, { status, pageSize: 1 })).total
}

/** Waits until every delivery has been tried. */
const firstAttempts = (api: HalfkeyClient, webhook: Webhook) =>
  until(async () => (await countOf(api, webhook, 'pending')) === 0 && (await countOf(api, webhook, 'delivering')) === 0)

/** Retries a delivery by hand until it has no retries left. Every attempt is a real one. */
async function makeDeadLetter({ webhooks }: HalfkeyClient, webhookId: string, { id }: Delivery): Promise<void> {
  let now: Delivery = await webhooks.deliveries.get(webhookId, id)
  for (let retries = 0; now.status === 'retrying' && retries < RETRIES_MAX; retries += 1) {
    const { length } = now.attempts
    await webhooks.deliveries.retry(webhookId, id)
    const attempted = await until(async () => {
      now = await webhooks.deliveries.get(webhookId, id)
      return now.attempts.length > length && now.status !== 'delivering'
    })
    if (!attempted) return
  }
}

/** Waits for the first attempts and makes dead letters of a few that failed. If no worker delivers, it stops waiting. */
export async function makeDeliveries(seeding: Seeding, { shop, courier }: Sample): Promise<void> {
  const { api } = seeding
  await makeEach(seeding, 'Deliveries', [shop, courier], ({ webhook }) => firstAttempts(api, webhook))
  const { id } = courier.webhook
  const failed = await all((page) => api.webhooks.deliveries.list(id, { ...page, status: 'retrying' }))
  await Promise.all(failed.slice(-DEAD_LETTERS).map((delivery) => makeDeadLetter(api, id, delivery)))
  await api.webhooks.test(shop.webhook.id)
}

/** Waits for the deliveries of a seed's last events, after which the shop was updated this often, so that lists later show these counts. */
export async function countDeliveries({ api }: Seeding, { shop, courier }: Sample, updates: number) {
  const { deliveries } = api.webhooks
  const query = { eventType: 'app.updated', status: 'succeeded', pageSize: 1 } as const
  await until(async () => (await deliveries.list(shop.webhook.id, query)).total >= updates)
  await firstAttempts(api, shop.webhook)
  return {
    succeeded: await countOf(api, shop.webhook, 'succeeded'),
    retrying: await countOf(api, courier.webhook, 'retrying'),
    deadLetters: await countOf(api, courier.webhook, 'dead_letter'),
  }
}
