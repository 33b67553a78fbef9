import type { Service } from '../../../../test/harness/harness.ts'
import type { Id } from '../../../platform/ids.ts'
import type { FollowableLedger } from '../../../platform/ports/ledger.ts'
import type { Stage } from '../stage.fixture.ts'

/** The embedded ledger of a new tenant, with a separate clock. */
export async function embeddedStage(service: Service): Promise<Stage> {
  const { tenantId } = await service.newTenant()
  const [tenant] = await service.sql<{ node_public_key: Buffer }>('select node_public_key from tenants where id = $1', [
    tenantId,
  ])
  const ledger = service.deps.ledgers.get('embedded') as FollowableLedger
  let aheadMs = 0
  return {
    ledger,
    db: service.deps.db,
    tenantId: tenantId as Id<'ten'>,
    nodeParty: ledger.deriveParty('node', tenant?.node_public_key as Buffer),
    now: () => new Date(Date.now() + aheadMs),
    advance: async (ms) => {
      aheadMs += ms
    },
    close: async () => {},
  }
}
