import { hourly } from '../../platform/maintenance.ts'
import type { Slice } from '../../platform/slice.ts'
import { x402Routes } from './routes.ts'
import { deleteOldSettlements } from './service.ts'

/** Payments for HTTP requests by x402. */
export const x402Slice: Slice = {
  routes: x402Routes,
  tasks: (deps) => [hourly((db) => deleteOldSettlements(db, deps.now()))],
}
