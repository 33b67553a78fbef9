import type { Db } from '../db/db.ts'
import type { ErrorTable } from '../http/errors.ts'
import type { Id } from '../ids.ts'

/** What can be refused once a plan's quota of it is used up. */
export type RefusedMeter = 'users' | 'transactions'

/** Holds tenants to the quotas of their plans. */
export interface Quotas {
  /**
   * Lets one more of a meter be, by figures that are a few seconds old at most: parallel calls may overshoot by what they
   * do in that time. Answers at once where nothing has to be looked up. `db` is the caller's own, so that nobody who holds
   * a connection waits for another. @throws quota_exceeded
   */
  require(db: Db, tenantId: Id<'ten'>, meter: RefusedMeter): void | Promise<void>
}

/** What a call may answer that is held to a quota. */
export const QUOTA_ERRORS = {
  quota_exceeded: [429, 'A quota of your plan is used up. `details` says which one, and what you can do.'],
} as const satisfies ErrorTable
