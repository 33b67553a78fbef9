import { afterAll, beforeAll, expect, test } from 'vitest'
import { expectError } from '../../../test/harness/envelope.ts'
import { expectStatus, newKeyHolder, newSession, ownSession, transfer, transfers } from '../delegated.fixture.ts'
import { newRemoteHolder, type RemoteService, startRemote } from '../remote/remote.fixture.ts'

let service: RemoteService
beforeAll(async () => {
  service = await startRemote()
})
afterAll(() => service.stop())

const requireApproval = [{ newRecipient: true }]

/** Gives a session a rule that its wallet's owner cannot be asked by, as a record of another time could have. */
async function withRule(sessionId: string): Promise<void> {
  const rule = JSON.stringify({ requireApproval })
  await service.sql('update delegated_sessions set policy = (policy::jsonb || $2::jsonb)::json where id = $1', [
    sessionId,
    rule,
  ])
  await service.recode()
}

test('on a ledger beyond a network nobody is asked: such a session is not made, and such a rule refuses', async () => {
  const tenant = await service.newTenant()
  const holder = await newRemoteHolder(service, tenant)
  const policy = transfers(holder, '10', { requireApproval })
  expectError(await tenant.post('/delegated-sessions', { policy }, holder.asUser), 409, 'approvals_unavailable')
  const session = await newSession(service, tenant, holder, { policy: transfers(holder, '10') })
  const [contractId] = (await holder.receiveAll(['1'])) as [string]
  await withRule(session.id)
  const answer = await session.execute({ commandId: 'order-1', commands: [transfer(contractId)] })
  expectError(answer, 403, 'policy_denied')
  expect(answer.body.details[0]).toMatchObject({ rule: 'requireApproval[0]' })
  expect((await tenant.get('/transactions?status=completed')).body.total).toBe(0)
  const dry = expectStatus(await session.execute({ commands: [transfer(contractId)], dryRun: true }), 200)
  expect(dry.decision).toMatchObject({ allowed: false, code: 'policy_denied', rule: 'requireApproval[0]' })
})

test('of a wallet whose owner signs nothing is prepared for signing by such a rule', async () => {
  const tenant = await service.newTenant()
  const holder = await newKeyHolder(service, tenant)
  const session = await ownSession(service, holder, { policy: transfers(holder, '10') })
  const contractId = await holder.receive('1')
  await withRule(session.id)
  const answer = await session.execute({ commands: [transfer(contractId)] })
  expectError(answer, 403, 'policy_denied')
  expect(answer.body.details[0]).toMatchObject({ rule: 'requireApproval[0]' })
})
