import { afterAll, beforeAll, expect, test } from 'vitest'
import { eventually, type Tenant } from '../../../test/harness/harness.ts'
import { eventsOf } from '../../identity/sessions/sessions.fixture.ts'
import { expectStatus, newHolder, newSession, transfer, transfers } from '../delegated.fixture.ts'
import { expectSettled, newRemoteHolder, type RemoteService, startRemote } from './remote.fixture.ts'

let service: RemoteService
beforeAll(async () => {
  service = await startRemote({ HALFKEY_ROLE: 'all' })
})
afterAll(() => service.stop())

async function newOwner(tenant: Tenant) {
  const userId = expectStatus(await tenant.post('/users', {}), 201).id
  const asUser = { headers: { 'x-user-id': userId } }
  const wallet = expectStatus(await tenant.post('/users/me/wallet', { ledger: 'remote' }, asUser), 201)
  expect(wallet.status).toBe('pending')
  return async () => (await tenant.get('/users/me/wallet', asUser)).body.data.status
}

test('a worker makes wallets ready by itself, and a ledger that hangs holds no other work up', async () => {
  const { remote } = service
  const tenant = await service.newTenant()
  remote.always.prepareOnboarding = () => 'hang'
  const status = await newOwner(tenant)
  await eventually('the ledger is asked', async () => remote.asked.some(({ ask }) => ask === 'prepareOnboarding'))
  const ada = await newHolder(tenant)
  const session = await newSession(service, tenant, ada, { policy: transfers(ada, '5'), expiresInSeconds: 60 })
  service.advance(61_000)
  await eventually('the session is swept', async () => {
    const [row] = await service.sql<{ status: string }>('select status from delegated_sessions where id = $1', [
      session.id,
    ])
    return row?.status === 'expired'
  })
  expect(await status()).toBe('pending')
  remote.heal()
  remote.next.prepareOnboarding = ['break']
  await eventually('the wallet is ready', async () => {
    service.advance(1_000)
    return (await status()) === 'ready'
  })
  expect(await eventsOf(service, tenant, 'wallet.ready')).toHaveLength(2)
})

test('a worker finds out by itself what became of what got no answer', async () => {
  const tenant = await service.newTenant()
  const ada = await newRemoteHolder(service, tenant)
  const [one, two] = await ada.receiveAll(['1', '1'])
  const session = await newSession(service, tenant, ada, { policy: transfers(ada, '5') })
  service.remote.next.submit = ['lose_before', 'lose_after']
  for (const id of [one, two]) {
    const { status } = expectStatus(await session.execute({ commands: [transfer(id as string)] }), 200)
    // The worker may be quicker: it sends again what got lost, and uses up the second loss.
    expect(['submitted', 'completed']).toContain(status)
  }
  await eventually('both are told of as completed', async () => {
    return (await eventsOf(service, tenant, 'tx.completed')).length === 2
  })
  expect(await expectSettled(service, tenant, ada, session)).toEqual({ completed: 2, failed: 0, moved: '2' })
})
