// The delivery engine's reach; the table in the delivery design, row by row.
import { broadcast } from './delivery/broadcast.ts'
import { claiming } from './delivery/claiming.ts'
import { drain } from './delivery/drain.ts'
import { neighbour } from './delivery/neighbour.ts'
import { openStage, type Stage } from './delivery/stage.ts'
import { calm, measureRaw, sustained } from './delivery/sustained.ts'
import type { Outcome } from './main.ts'
import { type Row, step } from './report.ts'

/** In this order: the last one leaves thousands of webhooks behind. */
const PARTS: Record<string, (stage: Stage) => Promise<Row[]>> = {
  sustained,
  calm,
  drain,
  claiming,
  neighbour,
  broadcast,
}

/** A part that could not run misses, and the others are told all the same. */
const failedRow = (name: string) => (error: unknown) => {
  step(`${name} failed: ${error instanceof Error ? error.stack : error}`)
  return [{ what: name, measured: `failed: ${error instanceof Error ? error.message : error}`, holds: false }]
}

/** `npm run bench -- delivery`; `only` runs one part. */
export async function delivery(quick: boolean, only: string | undefined): Promise<Outcome> {
  const stage = await openStage(quick)
  try {
    await measureRaw(stage)
    const rows: Row[] = []
    for (const [name, part] of Object.entries(PARTS)) {
      if (only === undefined || only === name) rows.push(...(await part(stage).catch(failedRow(name))))
    }
    const facts = [
      `PostgreSQL ${stage.bed.postgresVersion} (embedded); ${stage.endpoints.length} endpoints on ports of their own in one receiver process; medians of the runs`,
      'Times from an event to its arrival begin just before the statement that writes the event.',
      `logged: ${JSON.stringify(stage.bed.complaints())}`,
    ]
    return { facts, rows }
  } finally {
    await stage.close()
  }
}
