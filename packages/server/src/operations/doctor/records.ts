import type { Config } from '../../platform/config.ts'
import type { Db } from '../../platform/db/db.ts'
import { createEnforcement } from '../../platform/security/records/enforcement.ts'
import { readTampered } from './database-store.ts'
import { type Finding, firstOfEach, ok, problem, warning } from './finding.ts'

const TENANTS_TOLD = 5
const DAYS = 7

/** Whether records without a MAC are refused, and what was refused in the last days. */
export async function checkRecords(db: Db, config: Config): Promise<Finding[]> {
  const { isEnforced, path } = createEnforcement(config)
  const enforced = await isEnforced()
  const tampered = await readTampered(db, DAYS)
  const times = tampered.reduce((sum, { n }) => sum + n, 0)
  const tenants = tampered.slice(0, TENANTS_TOLD).map(({ tenantId }) => tenantId)
  return firstOfEach([
    problem(
      'records.tampered',
      times > 0 &&
        `Records that something other than Halfkey changed were reported ${times} times in the last ${DAYS} days (${tenants.join(', ')}${tampered.length > TENANTS_TOLD ? ', …' : ''}).`,
      'halfkey records verify   # names them; docs/operating.md#tamper-proof-records says what to do',
    ),
    warning(
      'records',
      !enforced &&
        `Records without a MAC are accepted, because ${path} does not exist or is from an earlier release: write access to the database can forge them.`,
      'halfkey records enforce   # once no process of an earlier release runs',
    ),
    ok('records', 'Records without a MAC are refused.'),
  ])
}
