import { APP_RECORD } from '../../platform/security/records/app-record.ts'
import type { Slice } from '../../platform/slice.ts'
import { ISSUER_RECORD } from './issuers/issuer-record.ts'
import { issuerRoutes } from './issuers/routes.ts'
import { ISSUER_ERRORS } from './issuers/service.ts'
import { logoRoutes } from './logo/routes.ts'
import { PROVIDER_RECORD } from './providers/provider-record.ts'
import { providerRoutes } from './providers/routes.ts'
import { PROVIDER_ERRORS } from './providers/service.ts'
import { appRoutes } from './routes.ts'
import { APP_ERRORS } from './service.ts'
import { SIGN_IN_HOOK_ERRORS } from './sign-in-hook.ts'

/** Apps: the settings under which users sign in. */
export const appSlice: Slice = {
  routes: [...appRoutes, ...logoRoutes, ...issuerRoutes, ...providerRoutes],
  errors: { ...APP_ERRORS, ...ISSUER_ERRORS, ...PROVIDER_ERRORS, ...SIGN_IN_HOOK_ERRORS },
  records: [APP_RECORD, ISSUER_RECORD, PROVIDER_RECORD],
}
