import { detached, hourly } from '../../platform/maintenance.ts'
import type { Slice } from '../../platform/slice.ts'
import { mailboxPages } from './mailbox.ts'
import { emailRoutes } from './routes.ts'
import { createSending } from './send.ts'
import { deleteOldEmails, EMAIL_ERRORS } from './service.ts'
import { templateRoutes } from './templates/routes.ts'

/** The queue of emails, and how they are written. */
export const emailSlice: Slice = {
  routes: [...emailRoutes, ...templateRoutes],
  plainRoutes: mailboxPages,
  errors: EMAIL_ERRORS,
  tasks: (deps) => [detached(deps, createSending(deps)), hourly((db) => deleteOldEmails(db, deps.config.retentionMs))],
}
