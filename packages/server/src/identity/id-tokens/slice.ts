import type { Slice } from '../../platform/slice.ts'
import { discoveryRoutes } from './discovery.ts'
import { ID_TOKEN_KEY_RECORD } from './key-record.ts'
import { idTokenRoutes } from './routes.ts'
import { ID_TOKEN_ERRORS } from './service.ts'

/** Each app as an OpenID issuer: ID tokens of its users, which others verify. */
export const idTokenSlice: Slice = {
  routes: idTokenRoutes,
  plainRoutes: discoveryRoutes,
  errors: ID_TOKEN_ERRORS,
  records: [ID_TOKEN_KEY_RECORD],
}
