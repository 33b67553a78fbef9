import { appendFileSync } from 'node:fs'
import type { TestContext } from 'vitest'

/** 1 in the quick run; `npm run faults` sets more: faults are repeated so many times, and waits that a minute needs are taken. */
export const scale = Math.max(1, Number(process.env.HALFKEY_FAULT_ROUNDS ?? '1'))
export const long = scale > 1

/** Whether `npm run faults` runs, which takes its time. */
export const reporting = Boolean(process.env.HALFKEY_FAULT_REPORT)

/** What a fault did, for the table. Null where the figure means nothing. */
export interface FaultRow {
  fault: string
  /** Requests that were answered with success. */
  acknowledged: number | null
  /** Distinct deliveries that arrived: event and endpoint. */
  delivered: number | null
  lost: number | null
  /** Arrivals of a delivery that had arrived before. */
  duplicates: number | null
  /** Arrivals, the first of each event, after one with its ordering key that was published later. Left out where none has a key. */
  outOfOrder?: number
  /** The most that may arrive twice: deliveries claimed, their outcome not stored, when the fault came. */
  inFlight: number | null
  /** From the last fault until every acknowledged event had arrived; where the fault has an end of its own, from there until it served again. */
  recoveredMs: number | null
  /** What that may be at most. Told beside it, and no condition: a test says nothing about the speed of its machine. */
  limitMs?: number
}

/** Adds a row to the table that `npm run faults` prints. To be called before the expectations, so that it shows what failed too. */
export function report(context: TestContext, row: FaultRow): void {
  const file = process.env.HALFKEY_FAULT_REPORT
  if (!file) return
  context.onTestFinished(({ task }) => {
    appendFileSync(file, `${JSON.stringify({ ...row, held: task.result?.state === 'pass' })}\n`)
  })
}
