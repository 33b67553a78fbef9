import { afterAll, beforeAll, expect, test } from 'vitest'
import { expectError, expectRefusal } from '../../../test/harness/envelope.ts'
import { type Answer, type Service, startService, type Tenant } from '../../../test/harness/harness.ts'
import {
  create,
  digestOf,
  everything,
  expectStatus,
  type Holder,
  newHolder,
  newKeyHolder,
  newSession,
  ownSession,
  type Session,
  transfer,
  unlimited,
} from '../../delegation/delegated.fixture.ts'
import { newApp, publishableKey, signInAs } from '../../identity/sessions/sessions.fixture.ts'

let service: Service
beforeAll(async () => {
  service = await startService({ HALFKEY_ROLE: 'api' })
})
afterAll(() => service.stop())

const idsOf = (answer: Answer): string[] => answer.body.data.map(({ id }: { id: string }) => id)
const listed = async (tenant: Tenant, query = '', key = tenant.key) =>
  idsOf(await tenant.get(`/transactions?${query}`, { key }))

/** Writes a note. @returns the transaction's id */
async function write(session: Session, { party }: Pick<Holder, 'party'>, more: object = {}): Promise<string> {
  const commands = [create('Note:Note', { author: party, text: 'x' })]
  return expectStatus(await session.execute({ commands, ...more }), 200).transactionId
}

async function begun(tenant: Tenant, body: object = {}) {
  const holder = await newHolder(tenant, body)
  // Made by the session's own app, whichever it is.
  const made = expectStatus(
    await tenant.post('/delegated-sessions', { policy: everything([unlimited(holder.issuer)]) }, holder.asUser),
    201,
  )
  const execute = (input: object) => tenant.post(`/delegated-sessions/${made.id}/execute`, input)
  return { holder, session: { id: made.id, execute } as Session }
}

test('a transaction is answered whole alone, and without its effects in the list', async () => {
  const tenant = await service.newTenant()
  const { holder, session } = await begun(tenant)
  const holding = await holder.receive('10')
  const done = expectStatus(await session.execute({ commandId: 'order-1', commands: [transfer(holding, '3')] }), 200)
  const transaction = expectStatus(await tenant.get(`/transactions/${done.transactionId}`), 200)
  expect(transaction).toEqual({
    id: done.transactionId,
    appId: tenant.appId,
    userId: holder.userId,
    walletId: holder.walletId,
    partyId: holder.party,
    delegatedSessionId: session.id,
    ledger: 'embedded',
    commandId: 'order-1',
    status: 'completed',
    operations: [{ type: 'exercise', templateId: 'Token:Holding', choice: 'Transfer', contractId: holding }],
    effects: done.effects,
    updateId: done.updateId,
    offset: done.offset,
    error: null,
    expiresAt: null,
    completedAt: expect.stringMatching(/Z$/),
    createdAt: expect.stringMatching(/Z$/),
    updatedAt: expect.stringMatching(/Z$/),
  })
  const { effects: _, ...summary } = transaction
  expect((await tenant.get('/transactions')).body).toEqual({
    data: [summary],
    total: 1,
    page: 1,
    pageSize: 20,
    hasMore: false,
  })
})

test('one that waits for its owner says until when, and shows nothing that could be signed', async () => {
  const tenant = await service.newTenant()
  const ada = await newKeyHolder(service, tenant)
  const session = await ownSession(service, ada, { policy: everything() })
  const commands = [create('Note:Note', { author: ada.party, text: 'x' })]
  const { transactionId, signingRequest } = expectStatus(await session.execute({ commands }), 200)
  const waiting = expectStatus(await tenant.get(`/transactions/${transactionId}`), 200)
  expect(waiting).toMatchObject({
    status: 'signature_required',
    expiresAt: signingRequest.expiresAt,
    completedAt: null,
    updateId: null,
  })
  expect(JSON.stringify(waiting)).not.toContain(signingRequest.digest)
  const signature = ada.sign(digestOf(signingRequest.preparedTransaction))
  expectStatus(await session.execute({ signingRequestId: transactionId, signature }), 200)
  const done = expectStatus(await tenant.get(`/transactions/${transactionId}`), 200)
  expect(done).toMatchObject({ status: 'completed', expiresAt: null, createdAt: waiting.createdAt })
})

test('the list is newest first, in pages, each transaction once', async () => {
  const tenant = await service.newTenant()
  const { holder, session } = await begun(tenant)
  const made: string[] = []
  for (let n = 0; n < 5; n += 1) made.unshift(await write(session, holder))
  expect(await listed(tenant)).toEqual(made)
  const pages = [
    await listed(tenant, 'page_size=2'),
    await listed(tenant, 'page_size=2&page=2'),
    await listed(tenant, 'page_size=2&page=3'),
  ]
  expect(pages.map(({ length }) => length)).toEqual([2, 2, 1])
  expect(pages.flat()).toEqual(made)
  expect((await tenant.get('/transactions?page_size=2&page=2')).body).toMatchObject({ total: 5, hasMore: true })
})

test('filters find by user, wallet, session, command, app and status, and by several at once', async () => {
  const tenant = await service.newTenant()
  const appId = await newApp(tenant)
  const [ada, eve, bob] = [await begun(tenant), await begun(tenant), await begun(tenant, { appId })]
  const keeper = await newKeyHolder(service, tenant)
  const own = await ownSession(service, keeper, { policy: everything() })
  const a1 = await write(ada.session, ada.holder, { commandId: 'first' })
  const a2 = await write(ada.session, ada.holder)
  const e1 = await write(eve.session, eve.holder, { commandId: 'first' })
  const b1 = await write(bob.session, bob.holder)
  const k1 = await write(own, keeper)
  const cases: [string, string[]][] = [
    [`user_id=${ada.holder.userId}`, [a2, a1]],
    [`wallet_id=${eve.holder.walletId}`, [e1]],
    [`delegated_session_id=${ada.session.id}`, [a2, a1]],
    ['command_id=first', [e1, a1]],
    [`command_id=${a2}`, [a2]],
    [`app_id=${appId}`, [b1]],
    ['status=signature_required', [k1]],
    ['status=completed', [b1, e1, a2, a1]],
    ['status=failed', []],
    [`user_id=${ada.holder.userId}&command_id=first&status=completed`, [a1]],
    [`user_id=${ada.holder.userId}&wallet_id=${eve.holder.walletId}`, []],
    ['command_id=FIRST', []],
    ['command_id=', []],
    ["command_id=' OR 1=1", []],
    [`command_id=${'x'.repeat(5_000)}`, []],
  ]
  for (const [query, ids] of cases) expect(await listed(tenant, query), query.slice(0, 60)).toEqual(ids)
  for (const status of ['', 'done', 'COMPLETED', 'completed,failed'])
    expect(expectRefusal(await tenant.get(`/transactions?status=${status}`), 'validation_failed')[0].field).toBe(
      'status',
    )
})

test("a key sees its tenant's only, a bound one its app's; all else is the 404 of what is not there", async () => {
  const tenant = await service.newTenant()
  const appId = await newApp(tenant)
  const [ada, bob] = [await begun(tenant), await begun(tenant, { appId })]
  const [mine, his] = [await write(ada.session, ada.holder), await write(bob.session, bob.holder)]
  const bound = await tenant.newKey({ scopes: ['wallets:read'], appId })
  const stranger = await service.newTenant()
  expect(await listed(tenant, '', bound)).toEqual([his])
  for (const query of [
    `user_id=${ada.holder.userId}`,
    `wallet_id=${ada.holder.walletId}`,
    `delegated_session_id=${ada.session.id}`,
    `command_id=${mine}`,
  ]) {
    expect(await listed(tenant, query, bound)).toEqual([])
    expect(await listed(stranger, query)).toEqual([])
  }
  const unknown = await tenant.get('/transactions/tx_01jb2m7x9kq4t8v6w0r3s5y1zn')
  expectError(unknown, 404, 'not_found')
  expect((await tenant.get(`/transactions/${mine}`, { key: bound })).text).toBe(unknown.text)
  expect((await stranger.get(`/transactions/${mine}`)).text).toBe(unknown.text)
  expectStatus(await tenant.get(`/transactions/${his}`, { key: bound }), 200)
  for (const [app, key] of [
    [tenant.appId, bound],
    [stranger.appId, tenant.key],
    ['app_none', tenant.key],
  ] as const) {
    const answer = await tenant.get(`/transactions?app_id=${app}`, { key })
    expectError(answer, 404, 'not_found')
    expect(answer.body.details[0].field).toBe('app_id')
  }
})

test('a browser reads none, and a secret key none without wallets:read', async () => {
  const tenant = await service.newTenant()
  const { holder, session } = await begun(tenant)
  const id = await write(session, holder)
  const person = await signInAs(service, tenant, { userId: holder.userId })
  const delegate = await newSession(service, tenant, holder, { policy: everything() })
  const blind = await tenant.newKey({
    scopes: ['delegated_sessions:write', 'users:act_as', 'delegated_sessions:execute'],
  })
  const key = await publishableKey(tenant)
  for (const path of ['/transactions', `/transactions/${id}`]) {
    expectError(await person.get(path), 403, 'key_type_not_allowed')
    expectError(await tenant.get(path, { key }), 403, 'key_type_not_allowed')
    expectError(await tenant.get(path, delegate.by), 403, 'key_type_not_allowed')
    expectError(await tenant.get(path, { key: blind }), 403, 'insufficient_scope')
    expectError(await tenant.get(path, { key: blind, headers: holder.asUser.headers }), 403, 'insufficient_scope')
    expectStatus(await tenant.get(path, { key: await tenant.newKey({ scopes: ['wallets:read'] }) }), 200)
  }
})
