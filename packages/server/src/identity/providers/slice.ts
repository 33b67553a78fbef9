import type { Slice } from '../../platform/slice.ts'
import { providerPages, providerSignInRoutes } from './routes.ts'

/** Sign-in with an account at a provider: OpenID Connect, and GitHub. */
export const providerSlice: Slice = { routes: providerSignInRoutes, plainRoutes: providerPages }
