import { createHmac } from 'node:crypto'
import { fileURLToPath } from 'node:url'
import { expect, type TestContext } from 'vitest'
import { eventually } from '../harness/harness.ts'
import { answer, startReceiver } from '../harness/receiver.ts'
import { startApart } from './apart.ts'
import { expectNothingLost, settle, subscribe, UserLoad } from './load.ts'

const RETRY_MS = 1_000
const ORDERED = 60
const CLOCK = fileURLToPath(new URL('./clock-ahead.mjs', import.meta.url))

/**
 * A worker under a shifted clock, an endpoint that fails first: when sends come, what they are signed with, what is
 * stored. Then ordering keys, whose events two API processes take, one of them under that clock too.
 */
export async function keepsTime(context: TestContext, shiftMs: number): Promise<void> {
  const apart = await startApart(context, { HALFKEY_WEBHOOK_RETRY_DELAYS: '1s,1s' })
  const { api, key } = apart
  const startShifted = (role: 'api' | 'worker') =>
    apart.start(role, { CLOCK_SHIFT_MS: String(shiftMs), HALFKEY_LOG_LEVEL: 'info' }, ['--import', CLOCK])
  const worker = await startShifted('worker')
  const receiver = await startReceiver(answer(500))
  context.onTestFinished(() => receiver.close())
  const webhook = await api.call(key, 'POST', '/webhooks', { body: { url: receiver.url, events: ['user.created'] } })
  const made = await api.call(key, 'POST', '/users', { body: {} })
  const answeredAt = Date.now()
  expect(made.status).toBe(201)
  const [first, second] = await receiver.count('a first send and its retry', 2)
  receiver.behave(answer(200))
  const third = (await receiver.count('the last send', 3))[2]!
  // The clock is really wrong, and in the engine only. All limits below tell ten minutes from none, however slow the machine.
  const logged = /"time":"([^"]+)"/.exec(worker.stderr)?.[1] ?? ''
  expect(Math.abs(Date.parse(logged) - Date.now() - shiftMs)).toBeLessThan(60_000)
  expect(first!.atMs - answeredAt).toBeLessThan(30_000)
  expect(second!.atMs - first!.atMs).toBeGreaterThanOrEqual(RETRY_MS)
  expect(second!.atMs - first!.atMs).toBeLessThan(RETRY_MS + 30_000)
  for (const { headers, body, atMs } of [first!, second!, third]) {
    const timestamp = Number(headers['x-service-timestamp'])
    expect(Math.abs(timestamp * 1_000 - atMs)).toBeLessThan(30_000)
    const signature = createHmac('sha256', webhook.body.data.secret).update(`${timestamp}.${body}`).digest('hex')
    expect(headers['x-service-signature']).toContain(signature)
  }
  const delivery = await eventually('a stored success', async () => {
    const { body } = await api.call(key, 'GET', `/webhooks/${webhook.body.data.id}/deliveries`)
    return body.data[0]?.status === 'succeeded' && body.data[0]
  })
  expect(delivery.attempts).toHaveLength(3)
  for (const [index, received] of [first!, second!, third].entries())
    expect(Math.abs(Date.parse(delivery.attempts[index].at) - received.atMs)).toBeLessThan(30_000)
  expect(await worker.stop()).toEqual({ code: 0, signal: null })
  const other = await startShifted('api')
  const orderly = await startReceiver()
  context.onTestFinished(() => orderly.close())
  const paths = await subscribe(api.url, key, orderly, 1, { ordered: true })
  const load = new UserLoad({ urls: [api.url, other.url], key }).start(2, 2)
  await load.more(ORDERED)
  await load.stop()
  expect(load.failures).toEqual([])
  // Only now: all of them wait for the fan-out, whose order is that of the ids which both processes made.
  const next = await startShifted('worker')
  expectNothingLost(load, new Map(), await settle(load, orderly, paths))
  for (const process of [next, other, api]) expect(await process.stop()).toEqual({ code: 0, signal: null })
}
