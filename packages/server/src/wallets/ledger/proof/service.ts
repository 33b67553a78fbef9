export type { NotedPlace, WholeLedger } from './check.ts'
export { verifyLedgerFile } from './file.ts'
export { LedgerFault } from './replay.ts'
export { exportLedger, verifyLedger, type Watcher } from './verify.ts'
