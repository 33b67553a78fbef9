import { USER_RECORD } from '../../platform/security/records/user-record.ts'
import type { Slice } from '../../platform/slice.ts'
import { stepBulk } from './bulk.ts'
import { blankErased, deleteCounts, emptyApp, forgetCounts } from './erasure.ts'
import { userRoutes } from './routes.ts'
import { userSeen } from './service.ts'

/** Users, their import and their erasure. */
export const userSlice: Slice = {
  routes: userRoutes,
  records: [USER_RECORD],
  hooks: { userSeen, appEmptied: emptyApp, appDeleted: forgetCounts, appGone: deleteCounts },
  tasks: (deps) => [blankErased, (db) => stepBulk(deps, db)],
}
