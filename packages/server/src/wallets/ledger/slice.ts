import type { Slice } from '../../platform/slice.ts'
import { createLedgerFollower } from './proof/follow.ts'

/** The embedded ledger, whose updates are chained behind its transactions. */
export const ledgerSlice: Slice = {
  tasks: (deps) => [createLedgerFollower(deps)],
}
