// How fast one worker process sends a backlog that is already there.

import { newId } from '../../src/platform/ids.ts'
import type { InWindow, Received, Window } from '../child/receiver.ts'
import { median, whole } from '../figures.ts'
import { watchCpu } from '../proc.ts'
import { cpuText, type Row, step } from '../report.ts'
import { call, forEachOf } from '../tenant.ts'
import { addBacklog, clear, type Endpoint, leftovers, type Stage, untilReceived, watchedOf } from './stage.ts'

const DRAIN_MIN = 5_000
const OUTBOX_MIN = 3_000
const ALONE_MIN = 2_000

/** Leaves so much to send. To be called while no worker runs. */
type Queue = (stage: Stage, count: number) => Promise<void>

interface Run {
  perSecond: number
  received: Received
  bySecond: number[]
  pending: number
  cpu: ReturnType<ReturnType<typeof watchCpu>>
}

async function drainOnce(stage: Stage, count: number, queue: Queue): Promise<Run> {
  await clear(stage)
  await queue(stage, count)
  const worker = await stage.bed.start({ HALFKEY_ROLE: 'worker', PORT: '' })
  const stop = watchCpu(watchedOf(stage, worker))
  const received = await untilReceived(stage, count)
  const cpu = stop()
  const window: Window = { fromMs: received.firstAt, toMs: received.lastAt + 1, prefix: '/w/' }
  const { bySecond } = await stage.receiver.call<InWindow>('window', window)
  const { pending } = await leftovers(stage)
  await worker.stop()
  return {
    perSecond: (received.distinct / (received.lastAt - received.firstAt)) * 1000,
    received,
    bySecond,
    pending,
    cpu,
  }
}

async function drainRow(
  stage: Stage,
  queued: { what: string; endpoints?: number; count: number; min: number; queue: Queue },
): Promise<Row> {
  const { what, endpoints = stage.endpoints.length, count, min, queue } = queued
  const runs: Run[] = []
  for (let run = 0; run < 3; run += 1) {
    step(`draining ${whole(count)} ${what}, run ${run + 1}`)
    runs.push(await drainOnce(stage, count, queue))
  }
  const perSecond = median(runs.map((run) => run.perSecond))
  const missing = runs.reduce((sum, run) => sum + count - run.received.distinct + run.pending, 0)
  const repeated = runs.reduce((sum, run) => sum + run.received.repeated, 0)
  return {
    what: `draining ${whole(count)} ${what} over ${endpoints} fast endpoints, one worker process`,
    measured: `${whole(perSecond)}/s; ${missing} missing, ${repeated} repeated`,
    floor: `≥ ${whole(min)}/s`,
    holds: perSecond >= min && missing === 0,
    raw: stage.raw,
    runs: runs.map((run) => whole(run.perSecond)).join(', '),
    times: `seconds of the last run: ${runs.at(-1)?.bySecond.slice(0, 12).join(', ')}`,
    cpu: cpuText(runs.map((run) => run.cpu)),
  }
}

/** Writes deliveries that are due, to so many endpoints. */
const queueDeliveries =
  (endpoints: number): Queue =>
  (stage, count) =>
    addBacklog(stage, stage.endpoints.slice(0, endpoints), count)

/** Creates users by the API while no worker runs: what is left is an outbox. */
async function queueEvents(stage: Stage, count: number): Promise<void> {
  const api = await stage.bed.start({ HALFKEY_ROLE: 'api' })
  await forEachOf(count, (at) => {
    const { appId } = stage.endpoints[at % stage.endpoints.length] as Endpoint
    return call({ bed: stage.bed, service: api }, 'POST', '/users', { appId, email: `${newId('usr')}@example.com` })
  })
  await api.stop()
}

export async function drain(stage: Stage): Promise<Row[]> {
  const deliveries = {
    count: stage.quick ? 20_000 : 100_000,
    min: DRAIN_MIN,
    queue: queueDeliveries(stage.endpoints.length),
  }
  const alone = { count: stage.quick ? 10_000 : 50_000, min: ALONE_MIN, endpoints: 1, queue: queueDeliveries(1) }
  const events = { count: stage.quick ? 5_000 : 50_000, min: OUTBOX_MIN, queue: queueEvents }
  return [
    await drainRow(stage, { what: 'due deliveries', ...deliveries }),
    await drainRow(stage, { what: 'due deliveries', ...alone }),
    await drainRow(stage, { what: 'events that no worker has seen', ...events }),
  ]
}
