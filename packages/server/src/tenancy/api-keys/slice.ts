import { API_KEY_RECORD } from '../../platform/security/records/api-key-record.ts'
import type { Slice } from '../../platform/slice.ts'
import { apiKeyRoutes } from './routes.ts'
import { API_KEY_ERRORS, revokeKeysOfApp } from './service.ts'

/** API keys and their scopes. */
export const apiKeySlice: Slice = {
  routes: apiKeyRoutes,
  errors: API_KEY_ERRORS,
  records: [API_KEY_RECORD],
  hooks: { appDeleted: revokeKeysOfApp },
}
