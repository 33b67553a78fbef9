import { type Db, sql } from '../../../platform/db/db.ts'
import { insertion, json } from '../../../platform/db/rows.ts'
import type { Id } from '../../../platform/ids.ts'
import { readRecords, sealed } from '../../../platform/security/records/access.ts'
import { ASSERTION_RECORD, type AssertionRow } from './assertion-record.ts'

/** Stores by which assertion a user approved, in place of an earlier one of theirs. The approval's transaction is locked. */
export async function insertAssertion(tx: Db, row: AssertionRow): Promise<void> {
  await tx.run(sql`
    delete from approval_assertions
    where tenant_id = ${row.tenant_id} and approval_id = ${row.approval_id} and user_id = ${row.user_id}`)
  const { assertion, ...rest } = await sealed(tx, ASSERTION_RECORD, row)
  await tx.run(insertion('approval_assertions', { ...rest, assertion: json(assertion) }))
}

/** The assertions of these approvals, by approval in the order of time. */
export async function assertionsOf(
  db: Db,
  tenantId: Id<'ten'>,
  approvalIds: readonly Id<'apr'>[],
): Promise<ReadonlyMap<Id<'apr'>, AssertionRow[]>> {
  if (approvalIds.length === 0) return new Map()
  const rows = await readRecords<AssertionRow>(
    db,
    ASSERTION_RECORD,
    sql`
    select * from approval_assertions where tenant_id = ${tenantId} and approval_id = any(${approvalIds}::text[])
    order by approved_at, user_id`,
  )
  return Map.groupBy(rows, ({ approval_id }) => approval_id)
}
