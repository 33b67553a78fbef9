import type { Slice } from '../../platform/slice.ts'
import { FACTOR_RECORD } from './factor-record.ts'
import { mfaRoutes } from './routes.ts'
import { MFA_ERRORS } from './service.ts'

/** Second factors: one-time codes and recovery codes. */
export const mfaSlice: Slice = {
  routes: mfaRoutes,
  errors: MFA_ERRORS,
  records: [FACTOR_RECORD],
}
