// One run of the load generator against the service, with what it cost every process.
import type { Load, LoadResult } from './child/load.ts'
import type { Helper } from './children.ts'
import { pause } from './figures.ts'
import { type Watched, watchCpu } from './proc.ts'
import { step } from './report.ts'
import type { Bed, Service } from './service.ts'

/** What a run needs. */
export interface Measured {
  bed: Bed
  service: Service
  load: Helper
  forMs: number
  watched: Watched
}

export interface Run extends LoadResult {
  cpu: ReturnType<ReturnType<typeof watchCpu>>
}

/** Waits until the events of what came before are fanned out and everything is written: that is not this measurement's. */
async function untilQuiet(bed: Bed): Promise<void> {
  while ((await bed.sql('select from outbox limit 1')).length > 0) await pause(50)
  await bed.checkpoint()
}

/** Runs a load that expects 200. */
export async function measure(
  stage: Measured,
  load: Partial<Load> & Pick<Load, 'connections' | 'warmUpMs'>,
): Promise<Run> {
  await untilQuiet(stage.bed)
  const stop = watchCpu(stage.watched)
  const stopSampling = await stage.bed.sample()
  const result = await stage.load.call<LoadResult>('run', {
    key: stage.bed.key,
    port: stage.service.port,
    expectedStatus: 200,
    forMs: stage.forMs,
    ...load,
  })
  await stopSampling()
  if (result.firstError !== null) step(`first error: ${result.firstError}`)
  return { ...result, cpu: stop() }
}

/** Of all runs. */
export const errorsOf = (runs: readonly Run[]) => runs.reduce((sum, run) => sum + run.errors, 0)
