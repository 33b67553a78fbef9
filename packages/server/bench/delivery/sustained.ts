// Deliveries a second from emission to arrival, over 40 endpoints; then how long each takes at 70 % of that.
import type { Emission, Emitted } from '../child/emitter.ts'
import type { InWindow, Received, Window } from '../child/receiver.ts'
import type { Sending, Sent } from '../child/sender.ts'
import { median, medianSpread, ms, pause, spreadText, whole } from '../figures.ts'
import { memoryMb, watchCpu } from '../proc.ts'
import { cpuText, type Row, step } from '../report.ts'
import { memoryText, type Service } from '../service.ts'
import { clear, leftovers, type Stage, untilReceived, watchedOf } from './stage.ts'

const SUSTAINED_MIN = 2_500
const SHARE = 0.7
const AT_SHARE = { p50Ms: 30, p99Ms: 150 }
const CALM_PER_SECOND = 300
const CALM = { p50Ms: 2, p99Ms: 7 }
const MEMORY_MAX_MB = 250
/** Undelivered events at most: enough that the engine never waits for the emitter. */
const WINDOW = 4_000
const WARM_UP_MS = 2_000

interface Run {
  emitted: Emitted
  received: Received
  window: InWindow
  perSecond: number
  lost: number
  cpu: ReturnType<ReturnType<typeof watchCpu>>
}

/** Tells the emitter what has arrived, so that it keeps to its window. */
function relay(stage: Stage): () => void {
  let over = false
  const loop = async () => {
    while (!over) {
      const { distinct } = await stage.receiver.call<Received>('received')
      await stage.emitter.call('delivered', distinct)
      await pause(20)
    }
  }
  loop().catch((error: unknown) => step(`relay: ${error}`))
  return () => {
    over = true
  }
}

async function emitAndCount(
  stage: Stage,
  service: Service,
  how: Pick<Emission, 'window' | 'perSecond' | 'forMs'>,
): Promise<Run> {
  await stage.receiver.call('reset')
  const stopRelay = how.window === undefined ? () => {} : relay(stage)
  const stopCpu = watchCpu(watchedOf(stage, service))
  const emission: Emission = { tenantId: stage.tenantId, appIds: stage.endpoints.map((each) => each.appId), ...how }
  const stopSampling = await stage.bed.sample()
  const emitted = await stage.emitter.call<Emitted>('emit', emission)
  await stopSampling()
  const cpu = stopCpu()
  stopRelay()
  const received = await untilReceived(stage, emitted.count)
  const { fromMs, toMs } = emitted
  const inside: Window = { fromMs: fromMs + WARM_UP_MS, toMs, prefix: '/w/' }
  const window = await stage.receiver.call<InWindow>('window', inside)
  const perSecond = (window.count / (toMs - fromMs - WARM_UP_MS)) * 1000
  return { emitted, received, window, perSecond, lost: emitted.count - received.distinct, cpu }
}

/** The raw limit, into the stage. */
export async function measureRaw(stage: Stage): Promise<void> {
  const runs: Sent[] = []
  for (let run = 0; run < 3; run += 1) {
    step(`raw limit, run ${run + 1}`)
    const sending: Sending = { ports: stage.ports, concurrency: 8, forMs: stage.quick ? 3_000 : 8_000 }
    runs.push(await stage.sender.call<Sent>('send', sending))
    await stage.receiver.call('reset')
  }
  stage.rawPerSecond = median(runs.map((run) => run.perSecond))
  stage.raw = `${whole(stage.rawPerSecond)}/s, bare undici without a database (${runs.map((run) => whole(run.perSecond)).join(', ')}; ${runs.reduce((sum, run) => sum + run.failed, 0)} failed)`
}

const total = (runs: readonly Run[], pick: (run: Run) => number) => runs.reduce((sum, run) => sum + pick(run), 0)

async function exactness(stage: Stage, runs: readonly Run[]): Promise<{ exact: boolean; text: string }> {
  const left = await leftovers(stage)
  const lost = total(runs, (run) => run.lost)
  const text = `of ${whole(total(runs, (run) => run.emitted.count))} ${lost} missing, ${total(runs, (run) => run.received.repeated)} repeated, ${left.retried} failed attempts, ${left.pending + left.outbox} left in the database`
  return { exact: lost === 0 && left.pending + left.outbox === 0, text }
}

async function paced(
  stage: Stage,
  service: Service,
  { perSecond, forMs }: Pick<Emission, 'forMs'> & { perSecond: number },
  floor: { p50Ms: number; p99Ms: number },
): Promise<Row> {
  const runs: Run[] = []
  for (let run = 0; run < (stage.quick ? 1 : 3); run += 1) {
    step(`open loop at ${whole(perSecond)}/s, run ${run + 1}`)
    runs.push(await emitAndCount(stage, service, { perSecond, forMs }))
  }
  const latency = medianSpread(runs.map((run) => run.window.latencyMs))
  const { exact, text } = await exactness(stage, runs)
  return {
    what: `event to arrival at ${whole(perSecond)}/s, open loop`,
    measured: `p50 ${ms(latency.p50)}, p99 ${ms(latency.p99)}; ${text}`,
    floor: `p50 ≤ ${floor.p50Ms} ms, p99 ≤ ${floor.p99Ms} ms`,
    holds: latency.p50 <= floor.p50Ms && latency.p99 <= floor.p99Ms && exact,
    runs: runs.map((run) => `${ms(run.window.latencyMs.p50)}/${ms(run.window.latencyMs.p99)}`).join(', '),
    times: `the emitting statement: ${spreadText(medianSpread(runs.map((run) => run.emitted.publishMs)))}; schedule at worst ${ms(Math.max(...runs.map((run) => run.emitted.latestMs)))} late`,
    cpu: cpuText(runs.map((run) => run.cpu)),
  }
}

/** At 70 % of what was measured, and at 70 % of what must hold. */
export async function sustained(stage: Stage): Promise<Row[]> {
  await clear(stage)
  const service = await stage.bed.start()
  const forMs = stage.quick ? 8_000 : 25_000
  const runs: Run[] = []
  for (let run = 0; run < 3; run += 1) {
    step(`sustained, run ${run + 1}`)
    runs.push(await emitAndCount(stage, service, { window: WINDOW, forMs }))
  }
  const perSecond = median(runs.map((run) => run.perSecond))
  const { exact, text } = await exactness(stage, runs)
  const rows: Row[] = [
    {
      what: `deliveries/s sustained end to end, ${stage.endpoints.length} endpoints, one match per event, events by publish()`,
      measured: `${whole(perSecond)}/s; ${text}`,
      floor: `≥ ${whole(SUSTAINED_MIN)}/s, none missing`,
      holds: perSecond >= SUSTAINED_MIN && exact,
      raw: stage.raw,
      runs: runs.map((run) => whole(run.perSecond)).join(', '),
      times: `with up to ${whole(WINDOW)} waiting: ${spreadText(medianSpread(runs.map((run) => run.window.latencyMs)))}`,
      cpu: cpuText(runs.map((run) => run.cpu)),
    },
  ]
  for (const pace of [SHARE * perSecond, SHARE * SUSTAINED_MIN])
    rows.push(await paced(stage, service, { perSecond: pace, forMs }, AT_SHARE))
  rows.push({ what: 'memory of the service in these runs', measured: memoryText(service) })
  await service.stop()
  return rows
}

/** Where the engine has time: what an event waits for is the path itself. */
export async function calm(stage: Stage): Promise<Row[]> {
  await clear(stage)
  const service = await stage.bed.start()
  const pace = { perSecond: CALM_PER_SECOND, forMs: stage.quick ? 8_000 : 25_000 }
  const row = await paced(stage, service, pace, CALM)
  const { share } = memoryMb(service.pid)
  const floor = { floor: `≤ ${MEMORY_MAX_MB} MB (PSS)`, holds: share <= MEMORY_MAX_MB }
  const rows = [row, { what: 'memory of the service after that', measured: memoryText(service), ...floor }]
  await service.stop()
  return rows
}
