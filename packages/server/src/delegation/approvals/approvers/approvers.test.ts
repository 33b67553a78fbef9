import { createHash } from 'node:crypto'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { expectError } from '../../../../test/harness/envelope.ts'
import { type Service, startService, type Tenant } from '../../../../test/harness/harness.ts'
import { eventsOf, newApp, signInAs } from '../../../identity/sessions/sessions.fixture.ts'
import { canonicalJson } from '../../../platform/security/canonical-json.ts'
import { budget, putBudgets } from '../../budgets/budgets.fixture.ts'
import { BOB, expectStatus, newSession, transfer, transfers } from '../../delegated.fixture.ts'
import { approve, ask, assertion, DAY_MS } from '../approvals.fixture.ts'
import { type Approver, asksAbove, happened, idsOf, post, shown, stage } from './approvers.fixture.ts'

let service: Service
beforeAll(async () => {
  service = await startService({ HALFKEY_ROLE: 'api' })
})
afterAll(() => service.stop())

const typesOf = async (tenant: Tenant) =>
  (
    await service.sql<{ type: string }>('select type from events where tenant_id = $1 and type ~ $2 order by id', [
      tenant.tenantId,
      '^(approval|tx)\\.',
    ])
  ).map(({ type }) => type)

test('two of three named users approve one document, and with the second the payment happens', async () => {
  const { tenant, owner, session, approvers } = await stage(service)
  const [ada, bert, cleo] = approvers
  const asked = await ask(session, owner)
  const { id } = asked.approval
  const quorum = { users: idsOf(approvers).toSorted(), threshold: 2 }
  const before = await shown(ada, id)
  expect(before).toMatchObject({
    status: 'pending',
    userId: owner.userId,
    approvers: [quorum],
    approvedBy: [],
    decidedBy: null,
    document: { version: 'halfkey/approval/v2', approvers: [quorum] },
    rules: [{ message: 'This spends 7 USDX; more than 5 needs the approval of 2 of 3 named users.' }],
  })
  const digest = createHash('sha256')
    .update(`halfkey/approval/v2\0${canonicalJson(before.document)}`)
    .digest()
  for (const one of approvers) expect((await shown(one, id)).publicKey.challenge).toBe(digest.toString('base64url'))
  // The owner sees it, and cannot approve.
  expect((await shown(owner, id)).publicKey).toBeNull()
  const again = await assertion(bert, id)
  expectError(await post(owner, id, again), 403, 'approver_not_named')

  const first = expectStatus(await approve(ada, id), 200)
  expect(first).toMatchObject({ status: 'pending', approvedBy: [{ userId: ada.userId }], decidedBy: null })
  expect(await happened(tenant)).toBe(0)
  expect((await shown(ada, id)).publicKey).toBeNull()
  // The same user again, as often as they like.
  for (let n = 0; n < 3; n += 1) expect(expectStatus(await post(ada, id, again), 200)).toEqual(first)
  const last = expectStatus(await approve(cleo, id), 200)
  expect(last).toMatchObject({ status: 'executed', decidedBy: cleo.userId, passkeyId: null })
  expect(last.approvedBy.map(({ userId }: Approver) => userId)).toEqual([ada.userId, cleo.userId])
  expect(await happened(tenant)).toBe(1)
  expect(expectStatus(await post(bert, id, again), 200)).toEqual(last)

  for (const [role, people] of Object.entries({ approver: [ada, bert, cleo], owner: [owner] }))
    for (const one of people) {
      const other = role === 'owner' ? 'approver' : 'owner'
      expect((await one.person.get(`/approvals?role=${role}`)).body.data).toEqual([last])
      expect((await one.person.get(`/approvals?role=${other}`)).body.total).toBe(0)
      expect((await tenant.get(`/approvals?role=${role}&user_id=${one.userId}`)).body.total).toBe(1)
    }
  const unnamed = await tenant.get('/approvals?role=approver')
  expectError(unnamed, 400, 'validation_failed')
  expect(unnamed.body.details[0].field).toBe('user_id')
  expect(await typesOf(tenant)).toEqual([
    'approval.requested',
    'approval.approved',
    'approval.approved',
    'tx.submitted',
    'tx.completed',
    'approval.granted',
  ])
  const progress = await eventsOf(service, tenant, 'approval.approved')
  expect(progress.map(({ approverId, approvedBy }) => [approverId, approvedBy])).toEqual([
    [ada.userId, [ada.userId]],
    [cleo.userId, [ada.userId, cleo.userId]],
  ])
  expect((await eventsOf(service, tenant, 'approval.granted'))[0]).toMatchObject({
    approvers: [quorum],
    approvedBy: [ada.userId, cleo.userId],
  })
})

test('one refusal is enough: of a named user, or of the owner', async () => {
  const { tenant, owner, session, approvers } = await stage(service)
  for (const [n, one] of [approvers[2], owner].entries()) {
    const asked = await ask(session, owner, '7', `order-${n}`)
    const { id } = asked.approval
    const late = await assertion(approvers[1], id)
    expectStatus(await approve(approvers[0], id), 200)
    const refused = expectStatus(await one.person.post(`/approvals/${id}/deny`, { reason: 'No.' }), 200)
    expect(refused).toMatchObject({ status: 'denied', reason: 'No.', decidedBy: one.userId })
    expectError(await post(approvers[1], id, late), 409, 'approval_decided')
    const repeat = await session.execute({ commandId: `order-${n}`, commands: asked.commands })
    expectError(repeat, 403, 'approval_denied')
    expect(repeat.body.details[0].message).toContain(n === 0 ? "The approver's reason" : "The owner's reason")
  }
  expect((await eventsOf(service, tenant, 'approval.denied')).map(({ deniedBy }) => deniedBy)).toEqual([
    approvers[2].userId,
    owner.userId,
  ])
  expect(await happened(tenant)).toBe(0)
})

test('rules that ask different people need all of them, and a recipient is known to those who approved it', async () => {
  const { tenant, owner, session, approvers } = await stage(service, (one, users) =>
    transfers(one, '100', {
      requireApproval: [
        { newRecipient: true, approvers: { users, threshold: 1 } },
        { asset: { issuer: one.issuer, symbol: 'USDX' }, above: '5' },
        {
          asset: { issuer: one.issuer, symbol: 'USDX' },
          above: '50',
          approvers: { users: [one.userId], threshold: 1 },
        },
      ],
    }),
  )
  const both = await ask(session, owner)
  const { id } = both.approval
  const users = idsOf(approvers).toSorted()
  expect((await shown(owner, id)).approvers).toEqual([
    { users, threshold: 1 },
    { users: [owner.userId], threshold: 1 },
  ])
  expect((await shown(owner, id)).rules[0].message).toBe(
    `A payment to ${BOB} has not been approved by 1 of 3 named users before.`,
  )
  expect(expectStatus(await approve(owner, id), 200).status).toBe('pending')
  expect(expectStatus(await approve(approvers[1], id), 200).status).toBe('executed')
  // Bob is known to these users by now: only the owner is asked, as ever.
  const alone = await ask(session, owner, '60', 'order-2')
  expect(await shown(owner, alone.approval.id)).toMatchObject({
    approvers: [{ users: [owner.userId], threshold: 1 }],
    document: { version: 'halfkey/approval/v1' },
  })
  expect((await shown(owner, alone.approval.id)).document).not.toHaveProperty('approvers')
  expect(expectStatus(await approve(owner, alone.approval.id), 200)).toMatchObject({
    approvedBy: [{ userId: owner.userId }],
    decidedBy: owner.userId,
  })
  expectStatus(await session.execute({ commands: [transfer(await owner.receive('1'))] }), 200)
  // To others he is not.
  const policy = transfers(owner, '100', {
    requireApproval: [{ newRecipient: true, approvers: { users: users.slice(1), threshold: 1 } }],
  })
  const other = await newSession(service, tenant, owner, { policy })
  expect((await ask(other, owner, '1', 'order-3')).status).toBe('approval_required')
  const own = transfers(owner, '100', { requireApproval: [{ newRecipient: true }] })
  const known = await newSession(service, tenant, owner, { policy: own })
  expect((await ask(known, owner, '1', 'order-4').catch(() => ({ status: 'asked' }))).status).toBe('completed')
})

test('a condition asks approvers, also one that asks only by the time of the last approval', async () => {
  const start = service.deps.now().getTime()
  // The hours below are open at noon.
  service.advance(2 * DAY_MS + DAY_MS / 2 - (start % DAY_MS))
  const hours = { from: '10:00', to: '14:00', timeZone: 'UTC' }
  const { tenant, owner, session, approvers } = await stage(service, (one, [a, b, c]) =>
    asksAbove(
      one,
      '5',
      { users: [a, b], threshold: 2 },
      {
        conditions: [{ hours, otherwise: 'require_approval', approvers: { users: [c], threshold: 1 } }],
      },
    ),
  )
  const [ada, bert, cleo] = approvers
  const within = await ask(session, owner)
  const { id } = within.approval
  expectError(await cleo.person.get(`/approvals/${id}`), 404, 'not_found')
  expectStatus(await approve(ada, id), 200)
  const byBert = await assertion(bert, id)
  service.advance(3 * 3_600_000)
  const later = { ...bert, person: await signInAs(service, tenant, { userId: bert.userId }) }
  const outside = await post(later, id, byBert)
  expectError(outside, 403, 'policy_denied')
  expect(outside.body.details[0]).toMatchObject({ rule: 'conditions[0]' })
  expect(outside.body.details[0].message).toContain('needs the approval of the named user.')
  expect(await shown(later, id)).toMatchObject({ status: 'pending', approvedBy: [{}, {}], publicKey: null })
  service.advance(19.5 * 3_600_000)
  const back = { person: await signInAs(service, tenant, { userId: bert.userId }) }
  expect(expectStatus(await post(back, id, byBert), 200).status).toBe('executed')
  expect(await happened(tenant)).toBe(1)
})

test('where a budget has no room, the approvals stay, and any approver completes it later', async () => {
  const { tenant, owner, session, approvers } = await stage(service)
  expectStatus(await putBudgets(service, tenant, owner, [budget(owner, '20')]), 200)
  const { id } = (await ask(session, owner)).approval
  const [first, second] = [await assertion(approvers[0], id), await assertion(approvers[1], id)]
  expectStatus(await putBudgets(service, tenant, owner, [budget(owner, '6')]), 200)
  expectStatus(await post(approvers[0], id, first), 200)
  expectError(await post(approvers[1], id, second), 403, 'budget_exceeded')
  expect((await shown(owner, id)).approvedBy.length).toBe(2)
  expectStatus(await putBudgets(service, tenant, owner, [budget(owner, '7')]), 200)
  expect(expectStatus(await post(approvers[0], id, first), 200).status).toBe('executed')
  expect(await happened(tenant)).toBe(1)
})

test('approvers are explained and simulated, and refused where nobody could approve', async () => {
  const { tenant, owner, approvers } = await stage(service)
  const users = idsOf(approvers)
  const policy = asksAbove(
    owner,
    '0',
    { users, threshold: 3 },
    {
      conditions: [
        {
          rate: { executions: 1, withinSeconds: 60 },
          otherwise: 'require_approval',
          approvers: { users: users.slice(0, 1), threshold: 1 },
        },
      ],
    },
  )
  const validated = expectStatus(await tenant.post('/policies/validate', { policy }), 200)
  expect(validated.policy.requireApproval[0].approvers).toEqual({ users, threshold: 3 })
  const words = validated.words.map(({ text }: { text: string }) => text).join('\n')
  expect(words).toContain(`Asks all 3 named users (${users.map((id) => `"${id}"`).join(', ')}) before one`)
  expect(words).toContain(`otherwise asks the named user ("${users[0]}").`)
  const paid = await newSession(service, tenant, owner, { policy: transfers(owner, '100') })
  expectStatus(await paid.execute({ commands: [transfer(await owner.receive('1'))] }), 200)
  const simulated = await tenant.post('/policies/simulate', { policy, walletId: owner.walletId })
  expect(expectStatus(simulated, 200)).toMatchObject({ asked: 1, transactions: [{ rule: 'requireApproval[0]' }] })

  const foreign = await signInAs(service, tenant, { appId: await newApp(tenant) })
  const elsewhere = await signInAs(service, await service.newTenant())
  const guest = expectStatus(await tenant.post('/guests', {}), 201).userId
  const suspended = await signInAs(service, tenant)
  expectStatus(await tenant.patch(`/users/${suspended.userId}`, { status: 'suspended' }), 200)
  const none = 'usr_00000000000000000000000000'
  const answers = new Set<string>()
  for (const id of [foreign.userId, elsewhere.userId, guest, suspended.userId, none]) {
    const wrong = asksAbove(owner, '5', { users: [users[0], id], threshold: 1 })
    const made = await tenant.post('/delegated-sessions', { policy: wrong }, owner.asUser)
    expectError(made, 400, 'validation_failed')
    expect(made.body.details[0].field).toBe('policy.requireApproval.0.approvers.users.1')
    answers.add(made.text)
    for (const answer of [
      await owner.person.post('/policies/validate', { policy: wrong }),
      await tenant.post('/policies/validate', { policy: wrong }),
      await tenant.post('/policies/simulate', { policy: wrong, walletId: owner.walletId }),
    ])
      expectError(answer, 400, 'validation_failed')
  }
  // What somebody else's id and no id at all give cannot be told apart.
  expect(answers.size).toBe(1)
  const ten = Array.from({ length: 11 }, (_, n) => `usr_${String(n).padStart(26, '0')}`)
  const rule = (approvers: unknown) => ({ asset: { issuer: owner.issuer, symbol: 'USDX' }, above: '5', approvers })
  for (const [approvers_, field] of [
    [{ users, threshold: 4 }, 'approvers.threshold'],
    [{ users, threshold: 0 }, 'approvers.threshold'],
    [{ users }, 'approvers.threshold'],
    [{ users: [], threshold: 1 }, 'approvers.users'],
    [{ users: ten, threshold: 1 }, 'approvers.users'],
    [{ users: [users[0], users[0]], threshold: 2 }, 'approvers.users'],
    [{ users: [paid.id], threshold: 1 }, 'approvers.users.0'],
    [{ threshold: 1 }, 'approvers.users'],
    [{ users, threshold: 1, members: [] }, 'approvers.members'],
    [null, 'approvers'],
  ] as const)
    for (const path of ['/delegated-sessions', '/policies/validate']) {
      const body = { policy: transfers(owner, '10', { requireApproval: [rule(approvers_)] }) }
      const answer = await tenant.post(path, body, owner.asUser)
      expectError(answer, 400, 'validation_failed', field)
      expect(answer.body.details[0].field).toBe(`policy.requireApproval.0.${field}`)
    }
  const idle = transfers(owner, '10', {
    conditions: [{ recipients: 'address_book', approvers: { users, threshold: 1 } }],
  })
  const refused = await tenant.post('/delegated-sessions', { policy: idle }, owner.asUser)
  expectError(refused, 400, 'validation_failed')
  expect(refused.body.details[0].field).toBe('policy.conditions.0.approvers')
})
