import { ACCEPTED_RESTORE_RECORD } from '../../platform/security/records/accepted-restore-record.ts'
import type { Slice } from '../../platform/slice.ts'

/** What operators do after the database went back to an earlier state. */
export const restoreSlice: Slice = { records: [ACCEPTED_RESTORE_RECORD] }
