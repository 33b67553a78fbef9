import type { Db } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import { eventOf, publish } from '../../platform/events/events.ts'
import type { Call } from '../../platform/http/route.ts'
import { type Id, newId } from '../../platform/ids.ts'
import * as store from './store.ts'

/** Makes an account an identity of a user. The account is locked and nobody's. */
export async function addIdentity(
  tx: Db,
  deps: Deps,
  { tenantId, appId, provider, issuer, subject }: store.Account,
  userId: Id<'usr'>,
  username: string | null,
): Promise<store.IdentityRow> {
  const row: store.IdentityRow = {
    tenant_id: tenantId,
    id: newId('idn'),
    app_id: appId,
    user_id: userId,
    provider,
    issuer,
    subject,
    username,
    created_at: deps.now(),
    mac: null,
  }
  await store.insertIdentity(tx, row)
  return row
}

/** Tells that a user has an identity, or has it no more. */
export async function tell(
  tx: Db,
  deps: Deps,
  call: Call | undefined,
  row: store.IdentityRow,
  type: 'identity.linked' | 'identity.unlinked',
): Promise<void> {
  const { provider } = row
  const data = { identityId: row.id, userId: row.user_id, provider, issuer: row.issuer === '' ? null : row.issuer }
  await publish(tx, deps, eventOf(row, type, data, call))
}
