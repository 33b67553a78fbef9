import { detached } from '../../platform/maintenance.ts'
import type { Slice } from '../../platform/slice.ts'
import { ONBOARDING_ERRORS } from './errors.ts'
import { onboardWallets } from './onboarding.ts'
import { ONBOARDING_RECORD } from './onboarding-record.ts'
import { onboardingRoutes } from './routes.ts'

/** How the parties of wallets come to be on ledgers beyond a network. */
export const onboardingSlice: Slice = {
  routes: onboardingRoutes,
  errors: ONBOARDING_ERRORS,
  records: [ONBOARDING_RECORD],
  tasks: (deps) => [detached(deps, (db) => onboardWallets({ ...deps, db }))],
}
