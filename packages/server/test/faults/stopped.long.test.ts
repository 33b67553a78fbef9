import { Agent, request } from 'undici'
import { afterAll, expect, it, type TestContext } from 'vitest'
import { eventually } from '../harness/harness.ts'
import { answer, startReceiver } from '../harness/receiver.ts'
import { killAll } from '../harness/service-process.ts'
import { startApart } from './apart.ts'
import { expectOrder, subscribe, UserLoad, untilDelivered } from './load.ts'
import { report } from './report.ts'

const CONNECTIONS = 16
/** A process that has not stopped by itself shortly before this ends with 1. */
const STOP_MS = 10_000
/** Leaves as much to the failing probes as to the rest of the stop. */
const DRAIN = '4s'
/** What a load balancer does: so many failed probes, and it sends nothing more. */
const FAILED_PROBES = 3
const PROBE_MS = 50
/** How long a receiver then takes for an answer: the worker is at its own part of the stop before. */
const ANSWER_MS = 1_500

afterAll(killAll)

const TEST_MS = 120_000

it.concurrent(
  'SIGTERM under keep-alive load: readiness fails first, no request fails, the process ends with 0',
  async (context: TestContext) => {
    const apart = await startApart(context)
    const service = await apart.start('all', { HALFKEY_DRAIN: DRAIN })
    const slow = await startReceiver((_, response) => setTimeout(() => response.writeHead(200).end(), 800))
    context.onTestFinished(() => slow.close())
    const webhook = await service.call(apart.key, 'POST', '/webhooks', {
      body: { url: slow.url, events: ['wallet.ready'] },
    })
    const agent = new Agent({ connections: CONNECTIONS, pipelining: 1, keepAliveTimeout: 60_000 })
    const failures: unknown[] = []
    let answered = 0
    let answeredWhileUnready = 0
    let stopping = false
    let unready = false
    const send = async () => {
      while (!stopping) {
        try {
          const response = await request(`${service.url}/v1/users`, {
            method: 'POST',
            headers: { 'x-api-key': apart.key, 'content-type': 'application/json' },
            body: '{}',
            dispatcher: agent,
          })
          await response.body.dump()
          if (response.statusCode !== 201) failures.push(response.statusCode)
          answered += 1
          if (unready) answeredWhileUnready += 1
        } catch (error) {
          failures.push(error)
        }
      }
    }
    const senders = Array.from({ length: CONNECTIONS }, send)
    await eventually('load', async () => answered > 200)
    // An answer that needs the worker, the database and most of a second must still come.
    const tested = service.call(apart.key, 'POST', `/webhooks/${webhook.body.data.id}/test`)
    await slow.count('the test event', 1)
    const stoppedAt = performance.now()
    service.signal('SIGTERM')
    let failedProbes = 0
    let nextProbeAt = 0
    await eventually('a load balancer to turn away', async () => {
      if (performance.now() < nextProbeAt) return false
      nextProbeAt = performance.now() + PROBE_MS
      const status = await service.readyz()
      if (status === 200) failedProbes = 0
      else failedProbes += 1
      unready ||= status === 503
      return failedProbes >= FAILED_PROBES
    })
    stopping = true
    await Promise.all(senders)
    const exit = await service.exited
    const tookMs = Math.round(performance.now() - stoppedAt)
    const rows = await apart.sql<{ n: number }>('select count(*)::int as n from users')
    report(context, {
      fault: 'SIGTERM under keep-alive load: ended after',
      acknowledged: answered,
      delivered: null,
      lost: answered - (rows[0]?.n ?? 0),
      duplicates: null,
      inFlight: CONNECTIONS,
      recoveredMs: tookMs,
      limitMs: STOP_MS,
    })
    expect(failures).toEqual([])
    expect(await tested).toMatchObject({ status: 200, body: { data: { status: 'succeeded' } } })
    expect(unready).toBe(true)
    expect(answeredWhileUnready).toBeGreaterThan(0)
    expect(rows[0]?.n).toBe(answered)
    expect(exit).toEqual({ code: 0, signal: null })
    await agent.close()
    expect(await apart.api.stop()).toEqual({ code: 0, signal: null })
  },
  TEST_MS,
)

it.concurrent(
  'a graceful stop with a hundred deliveries in flight stores their outcomes: none is sent again',
  async (context: TestContext) => {
    const apart = await startApart(context, { HALFKEY_WEBHOOK_CONCURRENCY: '100' })
    // Nothing is answered before the stop has begun: so a hundred are in flight then, on a slow machine too.
    const held: (() => void)[] = []
    let isStopping = false
    const receiver = await startReceiver((_, response) => {
      const end = () => void setTimeout(() => response.writeHead(200).end(), ANSWER_MS)
      if (isStopping) end()
      else held.push(end)
    })
    context.onTestFinished(() => receiver.close())
    const paths = await subscribe(apart.api.url, apart.key, receiver, 1, { ordered: true })
    const load = new UserLoad({ url: apart.api.url, key: apart.key }).start(6, 1)
    await load.more(250)
    await load.stop()
    const worker = await apart.start('worker')
    await receiver.count('a hundred in flight', 100)
    const stoppedAt = performance.now()
    const stopping = worker.stop()
    await eventually('the stop has begun', async () => (await worker.readyz()) === null)
    isStopping = true
    for (const end of held) end()
    expect(await stopping).toEqual({ code: 0, signal: null })
    const tookMs = Math.round(performance.now() - stoppedAt)
    const sent = receiver.received.length
    const [state] = await apart.sql<{ held: number; done: number; workers: number }>(
      `select (select count(*)::int from deliveries where lease_id is not null) as held,
      (select count(*)::int from deliveries_done where status = 'succeeded') as done, (select count(*)::int from workers) as workers`,
    )
    receiver.behave(answer(200))
    const next = await apart.start('worker')
    const result = await untilDelivered(receiver, paths, load, 60_000)
    report(context, {
      fault: 'graceful stop with deliveries in flight: ended after',
      acknowledged: load.acknowledged.size,
      delivered: result.delivered,
      lost: result.missing.length,
      duplicates: result.duplicates,
      outOfOrder: result.overtaking.length,
      inFlight: receiver.mostAtOnce(),
      recoveredMs: tookMs,
      limitMs: STOP_MS,
    })
    expect(receiver.mostAtOnce()).toBe(100)
    // There was more to send, and what had been sent was settled.
    expect(sent).toBeLessThan(load.acknowledged.size)
    expect(state).toEqual({ held: 0, done: sent, workers: 0 })
    expect(result.missing).toEqual([])
    expectOrder(result)
    expect(result.duplicates).toBe(0)
    for (const process of [next, apart.api]) expect(await process.stop()).toEqual({ code: 0, signal: null })
  },
  TEST_MS,
)
