import { APP_RECORD } from '../../platform/security/records/app-record.ts'
import type { Slice } from '../../platform/slice.ts'
import { ISSUER_RECORD } from './issuers/issuer-record.ts'
import { issuerRoutes } from './issuers/routes.ts'
import { ISSUER_ERRORS } from './issuers/service.ts'
import { logoRoutes } from './logo/routes.ts'
import { appRoutes } from './routes.ts'
import { APP_ERRORS } from './service.ts'

/** Apps: the settings under which users sign in. */
export const appSlice: Slice = {
  routes: [...appRoutes, ...logoRoutes, ...issuerRoutes],
  errors: { ...APP_ERRORS, ...ISSUER_ERRORS },
  records: [APP_RECORD, ISSUER_RECORD],
}
