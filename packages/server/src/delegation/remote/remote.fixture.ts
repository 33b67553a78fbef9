import { expect } from 'vitest'
import { createFaultyLedger, type FaultyLedger } from '../../../test/harness/faulty-ledger.ts'
import { type Service, startService, type Tenant } from '../../../test/harness/harness.ts'
import { eventsOf } from '../../identity/sessions/sessions.fixture.ts'
import type { Deps } from '../../platform/deps.ts'
import type { Id } from '../../platform/ids.ts'
import { newId } from '../../platform/ids.ts'
import { formatAmount, parseAmount } from '../../platform/ports/amount.ts'
import type { Command, Contract, FollowableLedger } from '../../platform/ports/ledger.ts'
import { onboardWallets } from '../../wallets/onboarding/onboarding.ts'
import { BOB, expectStatus, type Holder, type Session } from '../delegated.fixture.ts'
import { reconcileTransactions } from './reconcile.ts'

/** A service with a second ledger, `remote`, behind a network whose failures tests control. */
export interface RemoteService extends Service {
  remote: FaultyLedger
  /** What its steps do when they are reached. */
  steps: { [step: string]: (() => Promise<void>) | undefined }
  /** Has all transactions looked at that are due, as a worker would. */
  reconcile(): Promise<void>
}

const embeddedOf = (deps: Deps) => deps.ledgers.get('embedded') as FollowableLedger

/** Starts one without a worker: what a worker does is done when the tests say so. */
export async function startRemote(settings: Record<string, string> = {}): Promise<RemoteService> {
  let remote: FaultyLedger | undefined
  const steps: RemoteService['steps'] = {}
  const service = await startService(
    { HALFKEY_ROLE: 'api', ...settings },
    {
      ledgers: (deps) => {
        remote = createFaultyLedger(embeddedOf(deps), deps.db)
        return [remote]
      },
      failpoint: async (step) => steps[step]?.(),
    },
  )
  return {
    ...service,
    remote: remote as FaultyLedger,
    steps,
    async reconcile() {
      while (await reconcileTransactions(service.deps));
    },
  }
}

/** A holder whose wallet is on the remote ledger. */
export interface RemoteHolder extends Holder {
  /** Gives the wallet holdings, all in one transaction. @returns their contract ids */
  receiveAll(amounts: string[]): Promise<string[]>
  /** The sum of what a party has of the holder's asset, as the ledger says. */
  has(party: string): Promise<string>
}

/** Executes by the tenant's issuer on the ledger behind the remote one; that one's faults are no matter there. */
async function issue(deps: Deps, tenantId: string, issuer: string, commands: Command[]): Promise<string[]> {
  const ledger = embeddedOf(deps)
  const tenant = tenantId as Id<'ten'>
  return deps.db.tx(async (tx) => {
    const now = deps.now()
    const expiresAt = new Date(now.getTime() + 60_000)
    const request = { tenantId: tenant, commandId: newId('tx'), actAs: issuer, commands, now, expiresAt }
    const prepared = await ledger.prepare(tx, request)
    await ledger.submit(tx, tenant, prepared.bytes, await ledger.sign(tx, tenant, issuer, prepared.payload), now)
    return prepared.effects.map(({ contractId }) => contractId)
  })
}

async function holdings(deps: Deps, tenantId: string, party: string): Promise<Contract[]> {
  const query = { tenantId: tenantId as Id<'ten'>, party, templateIds: ['Token:Holding'], accept: null }
  const found: Contract[] = []
  let cursor: string | null = null
  do {
    const page = await embeddedOf(deps).query(deps.db, { ...query, limit: 100, cursor })
    found.push(...page.contracts.filter((each) => each.arguments.owner === party))
    cursor = page.nextCursor
  } while (cursor !== null)
  return found
}

const sumOf = (amounts: readonly unknown[]): bigint =>
  amounts.reduce<bigint>((sum, amount) => sum + (parseAmount(amount as string) as bigint), 0n)

/** The tools that tests need for a wallet on the remote ledger, with any custody. */
export function onRemote<H extends { party: string; issuer: string }>(
  service: RemoteService,
  tenant: Tenant,
  holder: H,
) {
  const receiveAll = (amounts: string[], symbol = 'USDX') => {
    const { issuer, party: owner } = holder
    const commands = amounts.map((amount) => ({
      create: { templateId: 'Token:Holding', arguments: { issuer, owner, symbol, amount } },
    }))
    return issue(service.deps, tenant.tenantId, issuer, commands)
  }
  return {
    ...holder,
    receiveAll,
    receive: async (amount: string, symbol?: string) => (await receiveAll([amount], symbol))[0] as string,
    has: async (party: string) => {
      const found = await holdings(service.deps, tenant.tenantId, party)
      return formatAmount(sumOf(found.map((each) => each.arguments.amount)))
    },
  }
}

/** A new user of the tenant's with an embedded wallet on the remote ledger, which is ready. */
export async function newRemoteHolder(service: RemoteService, tenant: Tenant): Promise<RemoteHolder> {
  const userId = expectStatus(await tenant.post('/users', {}), 201).id as string
  const asUser = { headers: { 'x-user-id': userId } }
  const wallet = expectStatus(await tenant.post('/users/me/wallet', { ledger: 'remote' }, asUser), 201)
  await onboardWallets(service.deps)
  const party = wallet.partyId as string
  return onRemote(service, tenant, {
    userId,
    walletId: wallet.id as string,
    party,
    issuer: `issuer::${party.split('::')[1]}`,
    asUser,
  }) as RemoteHolder
}

/** Lets everything that is open come to its end: all times run out, and a worker looks. */
export async function runOut(service: RemoteService): Promise<void> {
  for (let round = 0; round < 4; round += 1) {
    await service.reconcile()
    service.advance(11 * 60_000)
  }
  await service.reconcile()
}

/**
 * Checks that no transaction is open, that each one has exactly one event with its outcome, and that the session counts
 * exactly what the ledger has moved to Bob. @returns how many completed, and the sum
 */
export async function expectSettled(
  service: RemoteService,
  tenant: Tenant,
  holder: RemoteHolder,
  session: Pick<Session, 'id'>,
): Promise<{ completed: number; failed: number; moved: string }> {
  const rows = await service.sql<{ id: string; status: string; command_id: string; check_at: Date | null }>(
    'select id, status, command_id, check_at from transactions where tenant_id = $1 and delegated_session_id = $2',
    [tenant.tenantId, session.id],
  )
  expect(rows.filter(({ status }) => status !== 'completed' && status !== 'failed')).toEqual([])
  // A failed one may be watched for a while.
  expect(rows.filter(({ status, check_at }) => status === 'completed' && check_at !== null)).toEqual([])
  const idsOf = (status: string) => rows.filter((row) => row.status === status).map(({ id }) => id)
  for (const status of ['completed', 'failed']) {
    const told = (await eventsOf(service, tenant, `tx.${status}`)).filter((e) => e.delegatedSessionId === session.id)
    expect(told.map(({ transactionId }) => transactionId).sort()).toEqual(idsOf(status).sort())
  }
  const state = expectStatus(await tenant.get(`/delegated-sessions/${session.id}`), 200)
  const moved = await holder.has(BOB)
  expect(state.uses).toBe(idsOf('completed').length)
  expect(state.remaining.spend[0].spent).toBe(moved)
  expect(service.remote.asked.filter(({ inTransaction }) => inTransaction)).toEqual([])
  return { completed: idsOf('completed').length, failed: idsOf('failed').length, moved }
}
