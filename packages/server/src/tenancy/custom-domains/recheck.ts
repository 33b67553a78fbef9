import type { Deps } from '../../platform/deps.ts'
import { DnsBusy } from './dns-records.ts'
import type { DomainRow } from './store.ts'
import * as store from './store.ts'
import { readRecord, recordCheck } from './verify.ts'

/** How many domains are looked at together. */
const PORTION = 20
/** For so long a domain that was taken is left to who took it; more than a look-up and its outcome take. */
const TAKEN_MS = 60_000

/**
 * Looks at a portion of the domains that are due, of all tenants: pending ones, and verified ones every day. No connection
 * is held meanwhile. @returns whether there may be more
 */
export async function recheckDomains(deps: Deps): Promise<boolean> {
  const now = deps.now()
  const rows = await store.takeDue(deps.db, now, new Date(now.getTime() + TAKEN_MS), PORTION)
  const one = async (row: DomainRow) => {
    try {
      await recordCheck(deps, row, await readRecord(deps, row, 'recheck'))
    } catch (error) {
      // It is due again when it is no longer left to us.
      if (error instanceof DnsBusy) return
      deps.log.warn({ err: error, tenantId: row.tenant_id, domainId: row.id }, 'a custom domain could not be looked at')
    }
  }
  await Promise.all(rows.map(one))
  return rows.length === PORTION
}
