import { setTimeout as delay } from 'node:timers/promises'
import type { Delivery, Webhook } from '../../delivery/webhooks/schema.ts'
import type { Api } from './api.ts'
import type { Sample, Seeding } from './sample.ts'

const DEAD_LETTERS = 5
/** More retries than any schedule has that somebody would have configured for a try. */
const RETRIES_MAX = 20
const SETTLE_MS = 10_000
const LOOK_MS = 50

async function until(look: () => Promise<boolean>): Promise<boolean> {
  const deadline = performance.now() + SETTLE_MS
  while (!(await look())) {
    if (performance.now() > deadline) return false
    await delay(LOOK_MS)
  }
  return true
}

const countOf = (api: Api, { id }: Webhook, status: Delivery['status']): Promise<number> =>
  api.count(`/webhooks/${id}/deliveries?status=${status}`)

/** Whether every delivery has been tried. */
async function allTried(api: Api, webhook: Webhook): Promise<boolean> {
  return (await countOf(api, webhook, 'pending')) === 0 && (await countOf(api, webhook, 'delivering')) === 0
}

/** Retries a delivery by hand until its schedule is used up: every attempt is a real one. @returns whether it is one now */
async function letDie(api: Api, { id: webhookId }: Webhook, { id }: Delivery): Promise<boolean> {
  const path = `/webhooks/${webhookId}/deliveries/${id}`
  let now = await api.get<Delivery>(path)
  for (let retries = 0; now.status === 'retrying' && retries < RETRIES_MAX; retries += 1) {
    const { length } = now.attempts
    now = await api.post<Delivery>(`${path}/retry`)
    const moved = await until(async () => {
      now = await api.get<Delivery>(path)
      return now.attempts.length > length && now.status !== 'delivering'
    })
    if (!moved) return false
  }
  return now.status === 'dead_letter'
}

/** How the deliveries stand. */
export interface Delivered {
  succeeded: number
  retrying: number
  deadLetters: number
}

/**
 * Waits for the first attempts and makes dead letters out of a few that failed. Where no worker delivers, it goes on
 * without.
 */
export async function makeDeliveries({ api, progress }: Seeding, { webhooks }: Sample): Promise<Delivered> {
  progress.begin('Deliveries', DEAD_LETTERS + 2)
  await until(() => allTried(api, webhooks.shop))
  progress.add(1)
  await until(() => allTried(api, webhooks.courier))
  progress.add(1)
  const failed = await api.all<Delivery>(`/webhooks/${webhooks.courier.id}/deliveries?status=retrying`)
  const die = async (delivery: Delivery) => {
    if (await letDie(api, webhooks.courier, delivery)) progress.add(1)
  }
  await Promise.all(failed.slice(-DEAD_LETTERS).map(die))
  await api.post(`/webhooks/${webhooks.shop.id}/test`, {})
  return {
    succeeded: await countOf(api, webhooks.shop, 'succeeded'),
    retrying: await countOf(api, webhooks.courier, 'retrying'),
    deadLetters: await countOf(api, webhooks.courier, 'dead_letter'),
  }
}
