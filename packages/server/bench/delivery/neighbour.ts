// A healthy endpoint beside one that never answers and has a long backlog.
import type { Emission, Emitted } from '../child/emitter.ts'
import type { InWindow, Received, Window } from '../child/receiver.ts'
import { medianSpread, ms, pause, spreadText, whole } from '../figures.ts'
import { watchCpu } from '../proc.ts'
import { cpuText, type Row, step } from '../report.ts'
import { addBacklog, addEndpoint, clear, type Stage, untilReceived, watchedOf } from './stage.ts'

const P99_MAX_MS = 200
const PER_SECOND = 300
const WARM_UP_MS = 2_000

interface Run {
  window: InWindow
  lost: number
  cpu: ReturnType<ReturnType<typeof watchCpu>>
}

export async function neighbour(stage: Stage): Promise<Row[]> {
  const backlog = stage.quick ? 20_000 : 100_000
  const forMs = stage.quick ? 7_000 : 25_000
  await clear(stage)
  const setUp = await stage.bed.start()
  const hanging = await addEndpoint(stage, setUp, `http://127.0.0.1:${stage.ports[0]}/hang`)
  await setUp.stop()
  const [healthy] = stage.endpoints
  if (healthy === undefined) return []
  step(`a backlog of ${whole(backlog)} behind an endpoint that hangs`)
  await addBacklog(stage, [hanging], backlog)
  const service = await stage.bed.start()
  // Past the first time-outs, so that retries and the lane's slow marks are there too.
  await pause(stage.quick ? 2_000 : 35_000)
  const runs: Run[] = []
  for (let run = 0; run < (stage.quick ? 1 : 3); run += 1) {
    step(`healthy neighbour at ${PER_SECOND}/s, run ${run + 1}`)
    await stage.receiver.call('reset')
    const stop = watchCpu(watchedOf(stage, service))
    const emission: Emission = { tenantId: stage.tenantId, appIds: [healthy.appId], perSecond: PER_SECOND, forMs }
    const emitted = await stage.emitter.call<Emitted>('emit', emission)
    const cpu = stop()
    const received: Received = await untilReceived(stage, emitted.count)
    const inside: Window = {
      fromMs: emitted.fromMs + WARM_UP_MS,
      toMs: Math.max(emitted.toMs, received.lastAt) + 1,
      prefix: '/w/',
    }
    runs.push({
      window: await stage.receiver.call<InWindow>('window', inside),
      lost: emitted.count - received.distinct,
      cpu,
    })
  }
  await service.stop()
  const latency = medianSpread(runs.map((run) => run.window.latencyMs))
  const lost = runs.reduce((sum, run) => sum + run.lost, 0)
  return [
    {
      what: `healthy endpoint at ${PER_SECOND}/s beside a hanging one with a backlog of ${whole(backlog)}, event to arrival`,
      measured: `p99 ${ms(latency.p99)}; ${lost} missing`,
      floor: `p99 < ${P99_MAX_MS} ms`,
      holds: latency.p99 < P99_MAX_MS && lost === 0,
      runs: runs.map((run) => ms(run.window.latencyMs.p99)).join(', '),
      times: spreadText(latency),
      cpu: cpuText(runs.map((run) => run.cpu)),
    },
  ]
}
