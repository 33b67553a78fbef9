import type { Db } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import type { OfApp } from '../../platform/hooks.ts'
import { deleteChallengesOfApp } from '../../platform/security/challenges.ts'
import { refuseTokensOfApp } from '../../platform/security/revocations.ts'
import * as store from './erasure-store.ts'

/** Deletes the users of an app that is being deleted, with the challenges that know their emails. */
export async function emptyApp(tx: Db, deps: Deps, { tenantId, appId }: OfApp): Promise<void> {
  // Locked, they begin no session that the next statement would not see.
  await store.lockUsersOfApp(tx, tenantId, appId)
  await refuseTokensOfApp(tx, tenantId, appId, deps.now())
  await deleteChallengesOfApp(tx, tenantId, appId)
  await store.deleteUsersOfApp(tx, tenantId, appId)
}

/** Cancels the counts of users who went with their app. */
export async function forgetCounts(tx: Db, _deps: Deps, { tenantId, appId }: OfApp): Promise<void> {
  await store.cancelCounts(tx, tenantId, appId)
}

/** Deletes the counts of an app once it is gone; what a failure leaves behind adds nothing to any sum. */
export async function deleteCounts(deps: Deps, { tenantId, appId }: OfApp): Promise<void> {
  await store
    .deleteCounts(deps.db, tenantId, appId)
    .catch((error: unknown) => deps.log.warn({ err: error }, 'counts of a deleted app were left'))
}
