import type { Slice } from '../../platform/slice.ts'
import { templateRoutes } from './routes.ts'
import { TEMPLATE_ERRORS } from './service.ts'

/** A tenant's contract templates on the embedded ledger. */
export const templateSlice: Slice = {
  routes: templateRoutes,
  errors: TEMPLATE_ERRORS,
}
