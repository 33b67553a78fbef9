// How fast one worker process sends a backlog that is already there.
import type { InWindow, Received, Window } from '../child/receiver.ts'
import { median, whole } from '../figures.ts'
import { watchCpu } from '../proc.ts'
import { cpuText, type Row, step } from '../report.ts'
import { addBacklog, clear, leftovers, type Stage, untilReceived, watchedOf } from './stage.ts'

const DRAIN_MIN = 5_000

interface Run {
  perSecond: number
  received: Received
  bySecond: number[]
  pending: number
  cpu: ReturnType<ReturnType<typeof watchCpu>>
}

async function drainOnce(stage: Stage, count: number): Promise<Run> {
  await clear(stage)
  await addBacklog(stage, stage.endpoints, count)
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

export async function drain(stage: Stage): Promise<Row[]> {
  const count = stage.quick ? 20_000 : 100_000
  const runs: Run[] = []
  for (let run = 0; run < 3; run += 1) {
    step(`draining ${whole(count)}, run ${run + 1}`)
    runs.push(await drainOnce(stage, count))
  }
  const perSecond = median(runs.map((run) => run.perSecond))
  const missing = runs.reduce((sum, run) => sum + count - run.received.distinct + run.pending, 0)
  const repeated = runs.reduce((sum, run) => sum + run.received.repeated, 0)
  return [
    {
      what: `draining a backlog of ${whole(count)} over ${stage.endpoints.length} fast endpoints, one worker process`,
      measured: `${whole(perSecond)}/s; ${missing} missing, ${repeated} repeated`,
      floor: `≥ ${whole(DRAIN_MIN)}/s`,
      holds: perSecond >= DRAIN_MIN && missing === 0,
      raw: stage.raw,
      runs: runs.map((run) => whole(run.perSecond)).join(', '),
      times: `seconds of the last run: ${runs.at(-1)?.bySecond.slice(0, 12).join(', ')}`,
      cpu: cpuText(runs.map((run) => run.cpu)),
    },
  ]
}
