import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { expectError } from '../../../test/harness/envelope.ts'
import type { Tenant } from '../../../test/harness/harness.ts'
import { eventsOf } from '../../identity/sessions/sessions.fixture.ts'
import type { Outcome } from '../../platform/ports/ledger.ts'
import { BOB, expectStatus, newSession, type Session, transfer, transfers } from '../delegated.fixture.ts'
import { newRemoteHolder, type RemoteHolder, type RemoteService, startRemote } from './remote.fixture.ts'

const MINUTE_MS = 60_000
const HOUR_MS = 60 * MINUTE_MS

let service: RemoteService
beforeAll(async () => {
  service = await startRemote()
})
afterEach(() => service.remote.heal())
afterAll(() => service.stop())

interface Scene {
  tenant: Tenant
  ada: RemoteHolder
  session: Session
  /** When the transaction was submitted and lost sight of. */
  sentAt: Date
  transactionId: string
  /** The call that ended with the failure. */
  body: object
}

/** A transfer of 3 from 10, with a cap of 5, that the ledger accepted, said nothing of, and that was given up. */
async function newFailed(more: object = {}): Promise<Scene> {
  const tenant = await service.newTenant()
  const ada = await newRemoteHolder(service, tenant)
  const [holding] = await ada.receiveAll(['10', '10'])
  const policy = transfers(ada, '5')
  const session = await newSession(service, tenant, ada, { policy, expiresInSeconds: 30 * 86_400, ...more })
  service.remote.next.submit = ['forget']
  service.remote.always.submit = () => 'lose_before'
  const sentAt = service.deps.now()
  const body = { commandId: 'a', commands: [transfer(holding as string, '3')] }
  const { transactionId } = expectStatus(await session.execute(body), 200)
  service.advance(3 * MINUTE_MS)
  await service.reconcile()
  expectError(await session.execute(body), 410, 'prepared_expired')
  service.remote.heal()
  expect(await spentBy({ tenant, session })).toEqual([0, '0'])
  return { tenant, ada, session, sentAt, transactionId, body }
}

const spentBy = async ({ tenant, session }: Pick<Scene, 'tenant' | 'session'>) => {
  const { uses, remaining } = expectStatus(await tenant.get(`/delegated-sessions/${session.id}`), 200)
  return [uses, remaining.spend[0].spent]
}

const rowOf = async ({ transactionId }: Scene) => {
  const [row] = await service.sql<{ status: string; watched: boolean; spends: unknown[]; mac: boolean }>(
    'select status, check_at is not null as watched, spends, mac is not null as mac from transactions where id = $1',
    [transactionId],
  )
  return row
}

const lateCount = async () =>
  (await service.deps.metrics.registry.getSingleMetric('halfkey_transactions_late_total')?.get())?.values[0]?.value

describe('a transaction that was recorded as failed and happened after all', () => {
  test('is charged to the cap again, counted as a use, told of as completed late, and counted in the metrics', async () => {
    const scene = await newFailed()
    const { tenant, ada, session, sentAt, transactionId, body } = scene
    const before = (await lateCount()) ?? 0
    expect(await service.remote.remember(sentAt)).toBe(0)
    expect(await ada.has(BOB)).toBe('3')
    service.advance(MINUTE_MS)
    await service.reconcile()
    expect(await spentBy(scene)).toEqual([1, '3'])
    const transaction = expectStatus(await tenant.get(`/transactions/${transactionId}`), 200)
    expect(transaction).toMatchObject({ status: 'completed', error: null, offset: expect.any(Number) })
    expect(transaction.effects.map((effect: { type: string }) => effect.type)).toEqual([
      'exercised',
      'archived',
      'created',
      'created',
    ])
    const [told] = await eventsOf(service, tenant, 'tx.completed_late')
    expect(told).toMatchObject({ transactionId, commandId: 'a', updateId: transaction.updateId })
    expect(await eventsOf(service, tenant, 'tx.completed')).toEqual([told])
    expect(await eventsOf(service, tenant, 'tx.failed')).toHaveLength(1)
    expect(await lateCount()).toBe(before + 1)
    expect(await rowOf(scene)).toMatchObject({ status: 'completed', watched: false, mac: false })
    // The cap of 5 has 2 left.
    const [holding] = await ada.receiveAll(['10'])
    const refused = await session.execute({ commands: [transfer(holding as string, '2.1')] })
    expectError(refused, 403, 'spend_limit_exceeded')
    // A repeat of the call that was answered with the failure is answered with what happened.
    expect(expectStatus(await session.execute(body), 200)).toMatchObject({ status: 'completed', transactionId })
    service.advance(2 * HOUR_MS)
    await service.reconcile()
    expect(await spentBy(scene)).toEqual([1, '3'])
    expect(await lateCount()).toBe(before + 1)
  })

  test('is charged even beyond the cap, where others have used what was released: nothing more is signed then', async () => {
    const scene = await newFailed()
    const { ada, session, sentAt } = scene
    const [holding] = await ada.receiveAll(['10'])
    expectStatus(await session.execute({ commands: [transfer(holding as string, '5')] }), 200)
    await service.remote.remember(sentAt)
    service.advance(MINUTE_MS)
    await service.reconcile()
    expect(await spentBy(scene)).toEqual([2, '8'])
    expect(await ada.has(BOB)).toBe('8')
    const [more] = await ada.receiveAll(['10'])
    expectError(await session.execute({ commands: [transfer(more as string, '0.1')] }), 403, 'spend_limit_exceeded')
  })

  test('is charged once, however many look at the same time, and also after the session was revoked', async () => {
    const scene = await newFailed()
    await scene.tenant.delete(`/delegated-sessions/${scene.session.id}`)
    await service.remote.remember(scene.sentAt)
    service.advance(MINUTE_MS)
    await Promise.all(Array.from({ length: 5 }, () => service.reconcile()))
    expect(await spentBy(scene)).toEqual([1, '3'])
    expect(await eventsOf(service, scene.tenant, 'tx.completed_late')).toHaveLength(1)
  })

  test('exhausts the session where it was the last use', async () => {
    const scene = await newFailed({ maxUses: 1 })
    await service.remote.remember(scene.sentAt)
    service.advance(MINUTE_MS)
    await service.reconcile()
    const { status } = expectStatus(await scene.tenant.get(`/delegated-sessions/${scene.session.id}`), 200)
    expect(status).toBe('exhausted')
  })
})

describe('a transaction that failed', () => {
  test('is watched for a day, while the ledger is down too, and then keeps nothing', async () => {
    const scene = await newFailed()
    expect(await rowOf(scene)).toMatchObject({ status: 'failed', watched: true, mac: true })
    for (let hours = 0; hours < 25; hours += 1) {
      service.remote.isDown = hours % 2 === 0
      service.advance(HOUR_MS)
      await service.reconcile()
    }
    service.advance(HOUR_MS)
    await service.reconcile()
    expect(await rowOf(scene)).toEqual({ status: 'failed', watched: false, spends: [], mac: false })
    expect(await spentBy(scene)).toEqual([0, '0'])
    expect(await eventsOf(service, scene.tenant, 'tx.failed')).toHaveLength(1)
  })

  test('before anything was signed is not watched', async () => {
    const tenant = await service.newTenant()
    const ada = await newRemoteHolder(service, tenant)
    const session = await newSession(service, tenant, ada, { policy: transfers(ada, '5') })
    expectError(await session.execute({ commands: [transfer(`00${'9'.repeat(64)}`, '1')] }), 404, 'contract_not_found')
    const rows = await service.sql('select status, check_at from transactions where delegated_session_id = $1', [
      session.id,
    ])
    expect(rows).toEqual([{ status: 'failed', check_at: null }])
  })

  test('takes no charge that somebody with the database alone wrote into it', async () => {
    const scene = await newFailed()
    await service.sql('update transactions set spends = $2::json where id = $1', [
      scene.transactionId,
      JSON.stringify([{ entry: 0, bucket: 'all', units: '1' }]),
    ])
    await service.remote.remember(scene.sentAt)
    service.advance(MINUTE_MS)
    await service.reconcile()
    expect(await rowOf(scene)).toMatchObject({ status: 'failed' })
    expect(await spentBy(scene)).toEqual([0, '0'])
  })
})

describe('what a ledger says became of a transaction', () => {
  /** A transaction that was submitted, and whose ledger says this of it. */
  async function newSaid(outcome: Outcome) {
    const tenant = await service.newTenant()
    const ada = await newRemoteHolder(service, tenant)
    const [holding] = await ada.receiveAll(['10'])
    const session = await newSession(service, tenant, ada, { policy: transfers(ada, '5') })
    service.remote.always.submit = () => 'lose_before'
    service.remote.says = outcome
    const body = { commandId: 'a', commands: [transfer(holding as string, '3')] }
    const answer = await session.execute(body)
    service.advance(5_000)
    await service.reconcile()
    return { tenant, session, answer, again: await session.execute(body) }
  }

  test.each(['replaced', 'never'] as const)(
    '%s: it has failed at once, and its part of the cap is free',
    async (state) => {
      const { tenant, session, again } = await newSaid(state === 'replaced' ? { state, by: 'other' } : { state })
      expectError(again, 409, 'transaction_failed')
      expect(again.body.details[0].code).toBe(state)
      expect(await spentBy({ tenant, session })).toEqual([0, '0'])
    },
  )

  test('included, and not final: it stays submitted and holds its part of the cap, even past its expiry', async () => {
    const receipt = { updateId: 'u1', offset: 7, recordedAt: service.deps.now() }
    const { tenant, session, again } = await newSaid({ state: 'included', depth: 2, receipt })
    expect(expectStatus(again, 200).status).toBe('submitted')
    // It is there already: nothing is sent a second time.
    expect(service.remote.sent.filter(({ commandId }) => commandId === `${session.id}/a`)).toHaveLength(1)
    service.advance(HOUR_MS)
    await service.reconcile()
    expect(await spentBy({ tenant, session })).toEqual([1, '3'])
    expect(await eventsOf(service, tenant, 'tx.completed')).toEqual([])
    service.remote.says = { state: 'final', receipt }
    service.advance(HOUR_MS)
    await service.reconcile()
    expect(await spentBy({ tenant, session })).toEqual([1, '3'])
    expect(await eventsOf(service, tenant, 'tx.completed')).toHaveLength(1)
    expect(await eventsOf(service, tenant, 'tx.completed_late')).toEqual([])
  })
})
