import { expectStatus } from '../../../src/delegation/delegated.fixture.ts'
import { eventsOf } from '../../../src/identity/sessions/sessions.fixture.ts'
import { followTokens, type TokenLedger } from '../../../src/wallets/tokens/follow.ts'
import type { Tenant } from '../../harness/harness.ts'
import { type CantonHolder, type CantonService, newCantonHolder, startCanton } from '../canton.fixture.ts'
import { FACTORY, HOLDING, INSTRUCTION, SimulatedRegistry } from '../tokens.ts'

export interface HoldingsScene {
  service: CantonService
  tenant: Tenant
  registry: SimulatedRegistry
  /** Follows as a worker would, until there is nothing more. */
  follow(): Promise<void>
  /** Somebody with a wallet that is followed. */
  newHolder(): Promise<CantonHolder>
  /** How much a wallet holds, by token. */
  sums(holder: CantonHolder): Promise<Record<string, string>>
  /** What `token.received` told of a wallet. */
  amounts(holder: CantonHolder): Promise<string[]>
  stop(): Promise<void>
}

/** A participant with one registry whose holdings are followed, and a tenant. `more`: of the ledger's settings. */
export async function startHoldings(more: object = {}): Promise<HoldingsScene> {
  let registry: SimulatedRegistry | undefined
  const service = await startCanton(async (participant) => {
    registry = await new SimulatedRegistry(participant).start()
    const registries = [{ admin: registry.admin, url: registry.url }]
    const interfaces = { holding: HOLDING, transferFactory: FACTORY, transferInstruction: INSTRUCTION }
    return { tokens: { ...interfaces, registries }, ...more }
  })
  const tenant = await service.newTenant()
  const follow = async () => {
    const ledger = service.deps.ledgers.get('canton') as TokenLedger
    for (let step = 0; step < 200; step += 1) if (!(await followTokens(service.deps, ledger))) return
    throw new Error('the follower does not come to an end')
  }
  return {
    service,
    tenant,
    registry: registry as SimulatedRegistry,
    follow,
    async newHolder() {
      const holder = await newCantonHolder(service, tenant)
      await follow()
      return holder
    },
    async sums({ walletId }) {
      const { instruments } = expectStatus(await tenant.get(`/wallets/${walletId}/holdings`), 200)
      const of = (each: { instrument: { id: string }; amount: string }) => [each.instrument.id, each.amount]
      return Object.fromEntries(instruments.map(of))
    },
    async amounts({ walletId }) {
      const told = await eventsOf(service, tenant, 'token.received')
      return told.filter((each) => each.walletId === walletId).map(({ amount }) => amount as string)
    },
    async stop() {
      await service.stop()
      await registry?.stop()
    },
  }
}
