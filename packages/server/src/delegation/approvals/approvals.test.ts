import { afterAll, beforeAll, expect, test } from 'vitest'
import { expectError } from '../../../test/harness/envelope.ts'
import { eventually, type Service, startService } from '../../../test/harness/harness.ts'
import { eventsOf, signInAs } from '../../identity/sessions/sessions.fixture.ts'
import { budget, leftIn, putBudgets } from '../budgets/budgets.fixture.ts'
import {
  BOB,
  exercise,
  expectStatus,
  holdingsOf,
  newKeyHolder,
  newSession,
  transfer,
  transfers,
} from '../delegated.fixture.ts'
import { approve, ask, asking, askingAbove, assertion, DAY_MS, newOwner } from './approvals.fixture.ts'

let service: Service
beforeAll(async () => {
  service = await startService()
})
afterAll(() => service.stop())

const kinds = async (tenant: Parameters<typeof eventsOf>[1]) =>
  (
    await service.sql<{ type: string }>('select type from events where tenant_id = $1 and type ~ $2 order by id', [
      tenant.tenantId,
      '^(approval|tx)\\.',
    ])
  ).map(({ type }) => type)

test('a payment above the amount waits for the owner, and happens when they approve with a passkey', async () => {
  const { tenant, owner, session } = await asking(service)
  const small = expectStatus(await session.execute({ commands: [transfer(await owner.receive('5'))] }), 200)
  expect(small).toMatchObject({ status: 'completed', approval: null })

  const asked = await ask(session, owner)
  expect(asked).toMatchObject({ status: 'approval_required', updateId: null, commandId: 'order-1' })
  expect(asked.remaining.spend[0]).toMatchObject({ spent: '12', remaining: '88' })
  const { id, link, expiresAt } = asked.approval
  expect(link).toBe(`${service.url.replace('127.0.0.1', 'localhost')}/approve?app=${tenant.appId}&id=${id}`)
  expect(Date.parse(expiresAt) - service.deps.now().getTime()).toBeGreaterThan(DAY_MS - 60_000)
  // The same command asks the same, and does nothing.
  const again = expectStatus(await session.execute({ commandId: 'order-1', commands: asked.commands }), 200)
  expect(again).toMatchObject({ status: 'approval_required', transactionId: asked.transactionId, approval: { id } })

  const shown = expectStatus(await owner.person.get(`/approvals/${id}`), 200)
  const asset = { issuer: owner.issuer, symbol: 'USDX' }
  expect(shown).toMatchObject({
    id,
    status: 'pending',
    userId: owner.userId,
    transactionId: asked.transactionId,
    commandId: 'order-1',
    rules: [{ rule: 'requireApproval[0]', message: "This spends 7 USDX; more than 5 needs the owner's approval." }],
    costs: [{ asset, amount: '7' }],
    recipients: [BOB],
    publicKey: { userVerification: 'required' },
    document: { delegatedSessionId: session.id, nonce: expect.stringMatching(/^[0-9a-f]{64}$/) },
    decidedAt: null,
  })
  expect(shown.effects.map(({ type }: { type: string }) => type)).toEqual(['exercised', 'archived', 'created'])
  const granted = expectStatus(await approve(owner, id), 200)
  expect(granted).toMatchObject({ id, status: 'executed', passkeyId: expect.stringMatching(/^pky_/) })
  const done = expectStatus(await session.execute({ commandId: 'order-1', commands: asked.commands }), 200)
  expect(done).toMatchObject({ status: 'completed', transactionId: asked.transactionId, approval: null })
  expect(done.remaining.spend[0]).toMatchObject({ spent: '12' })
  expect(await holdingsOf(session)).toEqual([])
  expect(await kinds(tenant)).toEqual([
    'tx.submitted',
    'tx.completed',
    'approval.requested',
    'tx.submitted',
    'tx.completed',
    'approval.granted',
  ])
  // A repeat answers the same, and executes nothing.
  const credential = await assertion(owner, (await ask(session, owner, '6', 'order-2')).approval.id)
  expect(expectStatus(await owner.person.post(`/approvals/${id}/approve`, { credential }), 200)).toEqual(granted)
  expect((await eventsOf(service, tenant, 'approval.granted')).length).toBe(1)
})

test('what the owner refuses is answered with their reason, and its part of cap and budget is free again', async () => {
  const { tenant, owner, session } = await asking(service)
  expectStatus(await putBudgets(service, tenant, owner, [budget(owner, '20')]), 200)
  const asked = await ask(session, owner)
  expect(await leftIn(tenant, owner)).toEqual(['13'])
  const credential = await assertion(owner, asked.approval.id)
  const reason = 'I did not order this.'
  const refused = expectStatus(await owner.person.post(`/approvals/${asked.approval.id}/deny`, { reason }), 200)
  expect(refused).toMatchObject({ status: 'denied', reason })
  const answer = await session.execute({ commandId: 'order-1', commands: asked.commands })
  expectError(answer, 403, 'approval_denied')
  expect(answer.body.details[0]).toMatchObject({ reason, approvalId: asked.approval.id })
  expect(await leftIn(tenant, owner)).toEqual(['20'])
  const { remaining } = expectStatus(await tenant.get(`/delegated-sessions/${session.id}`), 200)
  expect(remaining.spend[0]).toMatchObject({ spent: '0' })
  const late = await owner.person.post(`/approvals/${asked.approval.id}/approve`, { credential })
  expectError(late, 409, 'approval_decided')
  expect((await eventsOf(service, tenant, 'approval.denied'))[0]).toMatchObject({ reason })
})

test('a new recipient needs the owner once: after that, payments to them are made at once', async () => {
  const { owner, session } = await asking(service, (one) =>
    transfers(one, '100', { requireApproval: [{ newRecipient: true }] }),
  )
  const asked = await ask(session, owner, '1')
  expect(asked.status).toBe('approval_required')
  // What was only asked for makes nobody known.
  const beside = await session.execute({ commands: [transfer(await owner.receive('1'))] })
  expectError(beside, 409, 'approval_pending')
  expect(beside.body.details[0]).toMatchObject({ rule: 'requireApproval[0]', approvalId: asked.approval.id })
  expectStatus(await approve(owner, asked.approval.id), 200)
  const again = expectStatus(await session.execute({ commands: [transfer(await owner.receive('1'))] }), 200)
  expect(again.status).toBe('completed')
  const carol = `carol::1220${'c0'.repeat(32)}`
  const other = await session.execute({ commands: [transfer(await owner.receive('1'), '1', carol)] })
  expect(expectStatus(other, 200).status).toBe('approval_required')
})

test('an offer to who issues the asset needs the owner like an offer to others', async () => {
  const { owner, session } = await asking(service, (one) =>
    transfers(one, '100', { requireApproval: [{ newRecipient: true }] }),
  )
  for (const receiver of [BOB, owner.issuer]) {
    const offer = exercise('Token:Holding', await owner.receive('1'), 'Offer', { receiver })
    const { status, approval } = expectStatus(await session.execute({ commands: [offer] }), 200)
    expect(status).toBe('approval_required')
    expect(expectStatus(await owner.person.get(`/approvals/${approval.id}`), 200).recipients).toEqual([receiver])
    expectStatus(await approve(owner, approval.id), 200)
  }
})

test('without a decision it expires, and what was held is released', async () => {
  const { tenant, owner, session } = await asking(service, (one) =>
    askingAbove(one, '5', {
      requireApproval: [{ asset: { issuer: one.issuer, symbol: 'USDX' }, above: '5', expiresInSeconds: 60 }],
    }),
  )
  const asked = await ask(session, owner)
  const credential = await assertion(owner, asked.approval.id)
  service.advance(61_000)
  expectError(
    await owner.person.post(`/approvals/${asked.approval.id}/approve`, { credential }),
    410,
    'approval_expired',
  )
  const answer = await eventually('it is released', async () => {
    const repeat = await session.execute({ commandId: 'order-1', commands: asked.commands })
    return repeat.status === 410 && repeat
  })
  expectError(answer, 410, 'approval_expired')
  expect(expectStatus(await tenant.get(`/approvals/${asked.approval.id}`), 200).status).toBe('expired')
  const { remaining } = expectStatus(await tenant.get(`/delegated-sessions/${session.id}`), 200)
  expect(remaining.spend[0]).toMatchObject({ spent: '0' })
  expect(await kinds(tenant)).toEqual(['approval.requested', 'tx.failed', 'approval.expired'])
})

test('revoking the session, or all sessions of the wallet, cancels what it asked for and releases the budget', async () => {
  for (const how of ['one', 'all'] as const) {
    const { tenant, owner, session } = await asking(service)
    expectStatus(await putBudgets(service, tenant, owner, [budget(owner, '20')]), 200)
    const asked = await ask(session, owner)
    const credential = await assertion(owner, asked.approval.id)
    if (how === 'one') expectStatus(await tenant.delete(`/delegated-sessions/${session.id}`), 200)
    else expectStatus(await tenant.post(`/wallets/${owner.walletId}/sessions/revoke-all`), 200)
    const late = await owner.person.post(`/approvals/${asked.approval.id}/approve`, { credential })
    expect(late.status, late.text).toBe(410)
    await eventually('the budget is free', async () => (await leftIn(tenant, owner))[0] === '20')
    expect(expectStatus(await owner.person.get(`/approvals/${asked.approval.id}`), 200).status).toBe('canceled')
    expect(await kinds(tenant)).toEqual(['approval.requested', 'tx.failed', 'approval.canceled'])
  }
})

test('owners list their own approvals, servers those of all users', async () => {
  const { tenant, owner, session } = await asking(service)
  const asked = await ask(session, owner)
  const own = await owner.person.get('/approvals?status=pending')
  expect(own.body, own.text).toMatchObject({ total: 1, data: [{ id: asked.approval.id }] })
  expect(own.body.data[0]).not.toHaveProperty('publicKey')
  const all = await tenant.get(`/approvals?wallet_id=${owner.walletId}`)
  expect(all.body).toMatchObject({ total: 1, data: [{ id: asked.approval.id }] })
  expect((await tenant.get('/approvals?status=denied')).body.total).toBe(0)
})

test('a dry run says that the owner would be asked', async () => {
  const { owner, session } = await asking(service)
  const commands = [transfer(await owner.receive('7'))]
  const { decision, approval } = expectStatus(await session.execute({ commands, dryRun: true }), 200)
  expect(decision).toMatchObject({ allowed: false, code: 'approval_required', rule: 'requireApproval[0]' })
  expect(approval).toBeNull()
})

test('a session asks at most twenty times within an hour', async () => {
  const { owner, session } = await asking(service)
  for (let n = 0; n < 20; n += 1) {
    const asked = await ask(session, owner, '7', `order-${n}`)
    expectStatus(await owner.person.post(`/approvals/${asked.approval.id}/deny`, {}), 200)
  }
  const commands = [transfer(await owner.receive('7'))]
  expectError(await session.execute({ commands }), 409, 'approval_limit_reached')
  service.advance(61 * 60_000)
  expect(expectStatus(await session.execute({ commands }), 200).status).toBe('approval_required')
})

test('rules that cannot be asked by are refused when the session is made', async () => {
  const tenant = await service.newTenant()
  const owner = await newOwner(service, tenant)
  const asset = { issuer: owner.issuer, symbol: 'USDX' }
  for (const [rule, field] of [
    [{}, 'above'],
    [{ above: '5' }, 'asset'],
    [{ newRecipient: true, above: '5' }, 'above'],
    [{ newRecipient: false }, 'newRecipient'],
    [{ asset, above: '-1' }, 'above'],
    [{ asset, above: '5', expiresInSeconds: 59 }, 'expiresInSeconds'],
    [{ asset, above: '5', expiresInSeconds: 8 * 86_400 }, 'expiresInSeconds'],
  ] as const) {
    const policy = transfers(owner, '10', { requireApproval: [rule] })
    const answer = await tenant.post('/delegated-sessions', { policy }, owner.asUser)
    expectError(answer, 400, 'validation_failed')
    expect(answer.body.details[0].field, answer.text).toBe(`policy.requireApproval.0.${field}`)
  }
  const holder = await newKeyHolder(service, tenant)
  const policy = askingAbove(holder as never, '5')
  expectError(await holder.person.post('/delegated-sessions', { policy }), 409, 'approvals_unavailable')
})

test('a budget that was lowered meanwhile holds when the owner approves', async () => {
  const { tenant, owner, session } = await asking(service)
  expectStatus(await putBudgets(service, tenant, owner, [budget(owner, '20')]), 200)
  const asked = await ask(session, owner)
  expectStatus(await putBudgets(service, tenant, owner, [budget(owner, '6')]), 200)
  expectError(await approve(owner, asked.approval.id), 403, 'budget_exceeded')
  expect(expectStatus(await owner.person.get(`/approvals/${asked.approval.id}`), 200).status).toBe('pending')
  expectStatus(await putBudgets(service, tenant, owner, [budget(owner, '7')]), 200)
  expectStatus(await approve(owner, asked.approval.id), 200)
  expect(await leftIn(tenant, owner)).toEqual(['0'])
})

test('an amount counts within the window in which it is spent, not in which it was asked for', async () => {
  // Far from midnight.
  service.advance(DAY_MS + DAY_MS / 2 - (service.deps.now().getTime() % DAY_MS))
  const tenant = await service.newTenant()
  const owner = await newOwner(service, tenant)
  const asset = { issuer: owner.issuer, symbol: 'USDX' }
  const policy = transfers(owner, '10', {
    spend: [{ asset, amount: '10', window: 'day_utc' }],
    requireApproval: [{ asset, above: '5', expiresInSeconds: 7 * 86_400 }],
  })
  const session = await newSession(service, tenant, owner, { policy, expiresInSeconds: 7 * 86_400 })
  const asked = await ask(session, owner)
  service.advance(DAY_MS)
  const today = { ...owner, person: await signInAs(service, tenant, { userId: owner.userId }) }
  expectStatus(await session.execute({ commands: [transfer(await owner.receive('4'))] }), 200)
  expectError(await approve(today, asked.approval.id), 403, 'spend_limit_exceeded')
  service.advance(DAY_MS)
  const tomorrow = { ...owner, person: await signInAs(service, tenant, { userId: owner.userId }) }
  expectStatus(await approve(tomorrow, asked.approval.id), 200)
  const { remaining } = expectStatus(await tenant.get(`/delegated-sessions/${session.id}`), 200)
  expect(remaining.spend[0]).toMatchObject({ spent: '7', remaining: '3' })
})
