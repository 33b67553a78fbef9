import type { Slice } from '../../platform/slice.ts'
import { TEMPLATE_RECORD } from './embedded/template-record.ts'
import { createLedgerFollower } from './proof/follow.ts'

/** The embedded ledger, whose updates are chained behind its transactions. */
export const ledgerSlice: Slice = {
  records: [TEMPLATE_RECORD],
  tasks: (deps) => [createLedgerFollower(deps)],
}
