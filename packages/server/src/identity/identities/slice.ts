import { hourly } from '../../platform/maintenance.ts'
import type { Slice } from '../../platform/slice.ts'
import { deleteOldTokens, FOREIGN_TOKEN_ERRORS } from '../foreign-tokens/service.ts'
import { IDENTITY_RECORD } from './identity-record.ts'
import { identityRoutes } from './routes.ts'
import { IDENTITY_ERRORS } from './service.ts'

/** Accounts elsewhere by which users sign in, and sign-in with a token of an issuer that the app trusts. */
export const identitySlice: Slice = {
  routes: identityRoutes,
  errors: { ...FOREIGN_TOKEN_ERRORS, ...IDENTITY_ERRORS },
  records: [IDENTITY_RECORD],
  tasks: () => [hourly(deleteOldTokens)],
}
