import type { Deps } from '../../../../platform/deps.ts'
import type { AuditOnlyAction } from '../../../../platform/events/audit-actions.ts'
import { recordAuditOnly } from '../../../../platform/events/audit-only-entries.ts'
import type { Id } from '../../../../platform/ids.ts'

/** Records in a tenant's audit log that an operator wrote its data to a file. */
export async function recordExport(
  deps: Deps,
  tenantId: Id<'ten'>,
  action: Extract<AuditOnlyAction, `${string}.exported`>,
): Promise<void> {
  await recordAuditOnly(deps.db, deps, { tenantId, appId: null, action, target: tenantId, cause: { actor: 'cli' } })
}
