import type { Slice } from '../../platform/slice.ts'
import { PASSKEY_RECORD } from './passkey-record.ts'
import { passkeyRoutes } from './routes.ts'
import { PASSKEY_ERRORS } from './service.ts'

/** Passkeys: registration and sign-in (WebAuthn). */
export const passkeySlice: Slice = {
  routes: passkeyRoutes,
  errors: PASSKEY_ERRORS,
  records: [PASSKEY_RECORD],
}
