import { afterAll, beforeAll, expect, test } from 'vitest'
import { expectError } from '../../../../test/harness/envelope.ts'
import { type Answer, call, type Service, startService, type Tenant } from '../../../../test/harness/harness.ts'
import { eventsOf, newApp, signInAs } from '../../../identity/sessions/sessions.fixture.ts'
import { expectStatus } from '../../delegated.fixture.ts'
import { addPasskey, approve, ask, assertion, DAY_MS } from '../approvals.fixture.ts'
import { type Approver, asksAbove, happened, idsOf, post, shown, stage } from './approvers.fixture.ts'

let service: Service
beforeAll(async () => {
  service = await startService({ HALFKEY_ROLE: 'api' })
})
afterAll(() => service.stop())

/** The same person, signed in again. */
const again = async (tenant: Tenant, one: Approver, how: object = {}): Promise<Approver> => ({
  ...one,
  person: await signInAs(service, tenant, { userId: one.userId, ...how }),
})

const approvedBy = ({ approvedBy: all }: Answer['body']['data']) => all.map(({ userId }: Approver) => userId)

test('users who are not named, other apps and other tenants get the 404 of an approval that does not exist', async () => {
  const { tenant, owner, session, approvers } = await stage(service)
  const asked = await ask(session, owner)
  const { id } = asked.approval
  const credential = await assertion(approvers[0], id)
  const stranger = await signInAs(service, tenant)
  const ofApp = await signInAs(service, tenant, { appId: await newApp(tenant) })
  const other = await service.newTenant()
  const ofTenant = await signInAs(service, other)
  const none = 'apr_00000000000000000000000000'
  for (const person of [stranger, ofApp, ofTenant]) {
    const calls: ((at: string) => Promise<Answer>)[] = [
      (at) => person.get(`/approvals/${at}`),
      (at) => post({ person }, at, credential),
      (at) => person.post(`/approvals/${at}/deny`, {}),
    ]
    for (const attempt of calls) {
      const [found, missing] = [await attempt(id), await attempt(none)]
      expectError(found, 404, 'not_found')
      expect(found.text).toBe(missing.text)
    }
    expect((await person.get('/approvals?role=approver')).body.total).toBe(0)
    expectError(await person.get(`/approvals?role=approver&user_id=${approvers[0].userId}`), 404, 'not_found')
  }
  expect((await other.get(`/approvals?role=approver&user_id=${approvers[0].userId}`)).body.total).toBe(0)
  // Neither the delegate nor a server decides for an approver.
  const path = `/approvals/${id}/approve`
  const asUser = { headers: { 'x-user-id': approvers[0].userId } }
  expectError(await tenant.post(path, { credential }, asUser), 401, 'session_missing')
  expectError(await tenant.post(`/approvals/${id}/deny`, {}, asUser), 401, 'session_missing')
  expectError(
    await call(service.url, 'POST', `/v1${path}`, { ...session.by, body: { credential } }),
    401,
    'session_invalid',
  )
  // While it waits, the delegate wears nobody down with more of them.
  const flood = Array.from({ length: 40 }, (_, n) =>
    session.execute({ commandId: `more-${n}`, commands: asked.commands }),
  )
  for (const answer of await Promise.all(flood)) expectError(answer, 409, 'approval_pending')
  expect((await approvers[0].person.get('/approvals?role=approver')).body.total).toBe(1)
  expect(approvedBy(await shown(owner, id))).toEqual([])
})

test('one user is one approval: with two passkeys, twice at once, or with the assertion of another one', async () => {
  const { tenant, owner, session, approvers } = await stage(service)
  const ada = approvers[0]
  const second = { ...ada, authenticator: await addPasskey(ada.person) }
  service.advance(DAY_MS)
  const [person, by] = [(await again(tenant, ada)).person, await again(tenant, approvers[1])]
  const own = await again(tenant, owner)
  const { id } = (await ask(session, owner)).approval
  const first = await assertion({ ...ada, person }, id)
  const other = await assertion({ ...second, person }, id)
  expect(other).not.toEqual(first)
  const foreign = await assertion(by, id)
  expectError(await post({ person }, id, foreign), 401, 'assertion_invalid')
  const answers = await Promise.all([first, other, first, other].map((one) => post({ person }, id, one)))
  for (const answer of answers) expect(approvedBy(expectStatus(answer, 200))).toEqual([ada.userId])
  expectStatus(await post({ person }, id, other), 200)
  expect(approvedBy(await shown(own, id))).toEqual([ada.userId])
  expect(await happened(tenant)).toBe(0)
  // Another document is another challenge.
  expect(expectStatus(await post(by, id, foreign), 200).status).toBe('executed')
  const next = (await ask(session, owner, '8', 'order-2')).approval
  for (const [who, credential] of [
    [{ person }, first],
    [by, foreign],
  ] as const)
    expectError(await post(who, next.id, credential), 401, 'assertion_invalid')
  expect(approvedBy(await shown(own, next.id))).toEqual([])
  // Who removes the passkey that approved is asked again, and counts once.
  const early = expectStatus(await approve({ ...ada, person }, next.id), 200)
  const passkeys = (await person.get('/auth/passkeys')).body.data
  const { passkeyId } = (await eventsOf(service, tenant, 'approval.approved')).at(-1) as { passkeyId: string }
  expect(passkeys.map(({ id: each }: { id: string }) => each)).toContain(passkeyId)
  expectStatus(await person.delete(`/auth/passkeys/${passkeyId}`), 200)
  const later = expectStatus(await approve({ ...second, person }, next.id), 200)
  expect([later.status, approvedBy(later)]).toEqual(['pending', approvedBy(early)])
  expect(expectStatus(await approve(by, next.id), 200).status).toBe('executed')
})

test('of approvals at once exactly one is the last, and a refusal among them is not passed over', async () => {
  const { tenant, owner, session, approvers } = await stage(service)
  const keyed = await Promise.all(
    approvers.map(async (one) => {
      const key = await tenant.newKey({ publishable: true })
      return {
        ...one,
        send: (id: string, what: string, body: object) => one.person.post(`/approvals/${id}/${what}`, body, { key }),
      }
    }),
  )
  let expected = 0
  for (let round = 0; round < 5; round += 1) {
    const { id } = (await ask(session, owner, '6', `round-${round}`)).approval
    const credentials = await Promise.all(approvers.map((one) => assertion(one, id)))
    const isRefused = round % 2 === 1
    const sent = keyed.map((one, n) =>
      isRefused && n === 1 ? one.send(id, 'deny', {}) : one.send(id, 'approve', { credential: credentials[n] }),
    )
    const statuses = (await Promise.all(sent)).map(({ status }) => status)
    expect(statuses.every((status) => status === 200 || (isRefused && status === 409))).toBe(true)
    const { status } = await shown(owner, id)
    expect(isRefused ? ['executed', 'denied'] : ['executed']).toContain(status)
    if (status === 'executed') expected += 1
    expect(await happened(tenant)).toBe(expected)
  }
  expect(expected).toBeGreaterThanOrEqual(3)
})

test('who was suspended or deleted, or lost their passkey, no longer counts when the last one approves', async () => {
  const { tenant, owner, session, approvers } = await stage(service)
  const [ada, bert, cleo] = approvers
  const losses: [string, () => Promise<unknown>, (() => Promise<unknown>)?][] = [
    [
      'suspended',
      async () => expectStatus(await tenant.patch(`/users/${ada.userId}`, { status: 'suspended' }), 200),
      async () => expectStatus(await tenant.patch(`/users/${ada.userId}`, { status: 'active' }), 200),
    ],
    [
      'passkey too young',
      async () => {
        await service.sql(`update passkeys set approves_at = approves_at + interval '9 days' where user_id = $1`, [
          ada.userId,
        ])
        await service.recode(tenant.tenantId)
      },
      async () => {
        await service.sql(`update passkeys set approves_at = approves_at - interval '9 days' where user_id = $1`, [
          ada.userId,
        ])
        await service.recode(tenant.tenantId)
      },
    ],
    [
      'passkey removed',
      async () => {
        const { person } = await again(tenant, ada)
        const [{ id: old }] = (await person.get('/auth/passkeys')).body.data
        await addPasskey(person)
        expectStatus(await person.delete(`/auth/passkeys/${old}`), 200)
      },
    ],
    ['deleted', async () => expectStatus(await tenant.delete(`/users/${ada.userId}`), 200)],
  ]
  for (const [n, [what, lose, restore]] of losses.entries()) {
    const { id } = (await ask(session, owner, '6', `order-${n}`)).approval
    const [byBert, byCleo] = [await assertion(bert, id), await assertion(cleo, id)]
    // The user without the old passkey cannot approve for a day, and is deleted.
    if (what !== 'deleted')
      expect(approvedBy(expectStatus(await approve(await again(tenant, ada), id), 200))).toEqual([ada.userId])
    await lose()
    expect(expectStatus(await post(bert, id, byBert), 200).status, what).toBe('pending')
    expect(await happened(tenant)).toBe(n)
    expect(expectStatus(await post(cleo, id, byCleo), 200).status, what).toBe('executed')
    await restore?.()
  }
})

test('what was changed in the database is not believed: threshold, approvers, assertions', async () => {
  const { tenant, owner, session, approvers } = await stage(service)
  const { id } = (await ask(session, owner)).approval
  const [first, last] = [await assertion(approvers[0], id), await assertion(approvers[1], id)]
  expectStatus(await post(approvers[0], id, first), 200)
  const list = `array['${idsOf(approvers).toSorted().join("','")}']`
  const mallory = 'usr_00000000000000000000000000'
  const threshold = (table: string, column: string, from: number, to: number) =>
    `update ${table} set ${column} = replace(${column}::text, '"threshold":${from}', '"threshold":${to}')::json`
  const [own] = await service.sql<{ passkey: string }>(
    'select passkey_id as passkey from approval_assertions where user_id = $1',
    [approvers[0].userId],
  )
  const changes: Record<string, [change: string, undo: string]> = {
    'the threshold that is asked for': [
      threshold('approvals', 'document', 2, 1),
      threshold('approvals', 'document', 1, 2),
    ],
    'nobody named': ['update approvals set approvers = null', `update approvals set approvers = ${list}`],
    'one named more': [
      `update approvals set approvers = array_append(approvers, '${mallory}')`,
      `update approvals set approvers = ${list}`,
    ],
    'the threshold of the policy': [
      threshold('delegated_sessions', 'policy', 2, 1),
      threshold('delegated_sessions', 'policy', 1, 2),
    ],
    // What a process of a release without approvers reads: it must not ask the owner alone.
    'a session that names nobody': [
      'update delegated_sessions set approvers = null',
      `update delegated_sessions set approvers = ${list}`,
    ],
    'another passkey': [
      `update approval_assertions set passkey_id = 'pky_00000000000000000000000000'`,
      `update approval_assertions set passkey_id = '${own?.passkey}'`,
    ],
    'an assertion for somebody else': [
      `update approval_assertions set user_id = '${approvers[2].userId}'`,
      `update approval_assertions set user_id = '${approvers[0].userId}'`,
    ],
  }
  for (const [what, [change, undo]] of Object.entries(changes)) {
    await service.sql(`${change} where tenant_id = $1`, [tenant.tenantId])
    expectError(await post(approvers[1], id, last), 500, 'record_tampered', what)
    expect(await happened(tenant)).toBe(0)
    await service.sql(`${undo} where tenant_id = $1`, [tenant.tenantId])
    await service.recode(tenant.tenantId)
  }
  expect(expectStatus(await post(approvers[1], id, last), 200).status).toBe('executed')
})

test('a session that began with an email decides nothing for an approver, and refuses for the owner', async () => {
  const { tenant, owner, session, approvers } = await stage(service)
  const { id } = (await ask(session, owner)).approval
  const credential = await assertion(approvers[0], id)
  const weak = await again(tenant, approvers[0], { byEmail: true })
  expectError(await post(weak, id, credential), 403, 'stronger_sign_in_required')
  expectError(await weak.person.post(`/approvals/${id}/deny`, {}), 403, 'stronger_sign_in_required')
  expect(await shown(weak, id)).toMatchObject({ status: 'pending', approvedBy: [] })
  const young = { ...approvers[0], authenticator: await addPasskey(approvers[0].person) }
  const { publicKey } = await shown(young, id)
  const credentials = { ...publicKey, allowCredentials: [] }
  expectError(await post(young, id, young.authenticator.get(credentials)), 403, 'passkey_cannot_approve')
  const own = await again(tenant, owner, { byEmail: true })
  expect(expectStatus(await own.person.post(`/approvals/${id}/deny`, {}), 200).status).toBe('denied')
  // An owner who is among the approvers approves as the others do.
  const policy = asksAbove(owner, '5', { users: [owner.userId, ...idsOf(approvers)], threshold: 1 })
  const both = expectStatus(await tenant.post('/delegated-sessions', { policy }, owner.asUser), 201)
  const execute = { commandId: 'order-2', commands: (await ask(session, owner, '7', 'order-1b')).commands }
  const headers = { authorization: `Bearer ${both.token}` }
  const asked = await call(service.url, 'POST', `/v1/delegated-sessions/${both.id}/execute`, {
    key: owner.person.key,
    headers,
    body: execute,
  })
  const next = expectStatus(asked, 200).approval.id
  expectError(await post(own, next, await assertion(owner, next)), 403, 'stronger_sign_in_required')
  expect(expectStatus(await approve(owner, next), 200)).toMatchObject({ status: 'executed', decidedBy: owner.userId })
})
