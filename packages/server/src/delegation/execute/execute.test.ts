import { afterAll, beforeAll, expect, test } from 'vitest'
import { expectError } from '../../../test/harness/envelope.ts'
import { type Service, startService } from '../../../test/harness/harness.ts'
import { eventsOf } from '../../identity/sessions/sessions.fixture.ts'
import { expectStatus, holdingsOf, newHolder, newSession, transfer, transfers } from '../delegated.fixture.ts'

let service: Service
beforeAll(async () => {
  service = await startService()
})
afterAll(() => service.stop())

test('the whole story: wallet, tokens, a session with a cap of 10, 3 of it spent, 8 more denied, the rest queried', async () => {
  const tenant = await service.newTenant()
  const ada = await newHolder(tenant)
  const holding = await ada.receive('100.00')
  const session = await newSession(service, tenant, ada, { policy: transfers(ada, '10') })

  const done = expectStatus(await session.execute({ commandId: 'order-1', commands: [transfer(holding, '3')] }), 200)
  expect(done).toMatchObject({ commandId: 'order-1', status: 'completed', signingRequest: null, decision: null })
  expect(done.remaining.spend[0]).toMatchObject({ limit: '10', spent: '3', remaining: '7' })
  const change = done.effects.find(
    (effect: { type: string; arguments: { owner: string } }) =>
      effect.type === 'created' && effect.arguments.owner === ada.party,
  )

  const denied = await session.execute({ commands: [transfer(change.contractId, '8')] })
  expectError(denied, 403, 'spend_limit_exceeded')
  expect(denied.body.details[0]).toMatchObject({ rule: 'spend[0]', remaining: '7', asked: '8' })

  expect((await holdingsOf(session)).map(({ amount }) => amount)).toEqual(['97'])
  expect(await eventsOf(service, tenant, 'tx.submitted')).toHaveLength(1)
  expect(await eventsOf(service, tenant, 'tx.completed')).toEqual([
    {
      transactionId: done.transactionId,
      commandId: 'order-1',
      userId: ada.userId,
      walletId: ada.walletId,
      partyId: ada.party,
      delegatedSessionId: session.id,
      ledger: 'embedded',
      updateId: done.updateId,
      offset: done.offset,
      completedAt: expect.stringMatching(/Z$/),
      operations: [{ type: 'exercise', templateId: 'Token:Holding', choice: 'Transfer', contractId: holding }],
    },
  ])
  expect(await eventsOf(service, tenant, 'delegated_session.denied')).toHaveLength(1)
})
