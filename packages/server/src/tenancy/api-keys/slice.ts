import type { Slice } from '../../platform/slice.ts'
import { apiKeyRoutes } from './routes.ts'
import { API_KEY_ERRORS, revokeKeysOfApp } from './service.ts'

/** API keys and their scopes. */
export const apiKeySlice: Slice = {
  routes: apiKeyRoutes,
  errors: API_KEY_ERRORS,
  hooks: { appDeleted: revokeKeysOfApp },
}
