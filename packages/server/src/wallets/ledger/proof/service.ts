import type { ChainSource } from '../../../platform/floor/source.ts'
import { ends, entriesAt, lastOffset } from './store.ts'

export type { NotedPlace, WholeLedger } from './check.ts'
export { verifyLedgerFile } from './file.ts'
export { LedgerFault } from './replay.ts'
export { exportLedger, verifyLedger, type Watcher } from './verify.ts'

/** The chains of updates. */
export const ledgerChains: ChainSource = { name: 'ledger', ends, at: entriesAt, counter: lastOffset }
