import { hourly } from '../../platform/maintenance.ts'
import type { Slice } from '../../platform/slice.ts'
import { messengerRoutes } from './routes.ts'
import { deleteOldPayloads, MESSENGER_ERRORS } from './service.ts'

/** Sign-in with Telegram. */
export const messengerSlice: Slice = {
  routes: messengerRoutes,
  errors: MESSENGER_ERRORS,
  tasks: () => [hourly(deleteOldPayloads)],
}
