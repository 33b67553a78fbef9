import type { Slice } from '../../platform/slice.ts'
import { stepBulk } from './bulk.ts'
import { DELIVERY_ERRORS } from './deliveries.ts'
import { stepRecovery } from './recover.ts'
import { webhookRoutes } from './routes.ts'
import { deleteWebhooksOfApp, deleteWebhooksOfSubscriber, WEBHOOK_ERRORS } from './service.ts'

/** Webhooks and their deliveries. */
export const webhookSlice: Slice = {
  routes: webhookRoutes,
  errors: { ...WEBHOOK_ERRORS, ...DELIVERY_ERRORS },
  hooks: { appDeleted: deleteWebhooksOfApp, subscriberDeleted: deleteWebhooksOfSubscriber },
  tasks: (deps) => [(db) => stepRecovery(db, deps.log), (db) => stepBulk(db, deps.log)],
}
