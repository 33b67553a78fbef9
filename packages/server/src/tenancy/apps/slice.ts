import type { Slice } from '../../platform/slice.ts'
import { logoRoutes } from './logo/routes.ts'
import { appRoutes } from './routes.ts'
import { APP_ERRORS } from './service.ts'

/** Apps: the settings under which users sign in. */
export const appSlice: Slice = {
  routes: [...appRoutes, ...logoRoutes],
  errors: APP_ERRORS,
}
