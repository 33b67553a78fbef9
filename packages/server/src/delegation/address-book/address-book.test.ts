import { afterAll, beforeAll, expect, test } from 'vitest'
import { expectError } from '../../../test/harness/envelope.ts'
import {
  type Answer,
  call,
  eventually,
  type Service,
  startService,
  type Tenant,
} from '../../../test/harness/harness.ts'
import { statusCounts } from '../../identity/guests/guests.fixture.ts'
import { eventsOf, type Person, signInAs } from '../../identity/sessions/sessions.fixture.ts'
import { asking } from '../approvals/approvals.fixture.ts'
import {
  BOB,
  executeBeside,
  expectStatus,
  newSession,
  type Session,
  type SignedIn,
  signedIn,
  transfer,
  transfers,
} from '../delegated.fixture.ts'

let service: Service
beforeAll(async () => {
  service = await startService({ HALFKEY_ROLE: 'api' })
})
afterAll(() => service.stop())

const HOUR_MS = 3_600_000
const CAROL = `carol::1220${'c0'.repeat(32)}`
const ENTRY = { recipient: BOB, label: 'Bob' }
const many = <T>(n: number, one: (index: number) => T) => Array.from({ length: n }, (_, index) => one(index))

/** A signed-in owner, and a session that pays parties of their address book alone. */
async function withBook(coolingOffSeconds?: number) {
  const tenant = await service.newTenant()
  if (coolingOffSeconds !== undefined)
    expectStatus(await tenant.patch(`/apps/${tenant.appId}`, { addressBook: { coolingOffSeconds } }), 200)
  const owner = await signedIn(service, tenant)
  const policy = transfers(owner, '1000', { conditions: [{ recipients: 'address_book' }] })
  const session = await newSession(service, tenant, owner, { policy, expiresInSeconds: 86_400 * 20 })
  return { tenant, owner, session, path: `/wallets/${owner.walletId}/recipients` }
}

const remove = (person: Person, path: string, id: string) =>
  call(service.url, 'DELETE', `/v1${path}/${id}`, { key: person.key, headers: person.bearer })

const pay = async (session: Session, owner: Pick<SignedIn, 'receive'>, receiver = BOB): Promise<Answer> =>
  session.execute({ commands: [transfer(await owner.receive('1'), '1', receiver)] })

function expectStranger(answer: Answer, recipient = BOB): void {
  expectError(answer, 403, 'policy_denied')
  expect(answer.body.details[0]).toMatchObject({ rule: 'conditions[0]', recipient })
}

const listed = async (tenant: Tenant, path: string) =>
  expectStatus(await tenant.get(path), 200).recipients.map(({ recipient }: { recipient: string }) => recipient)

test('a party is paid once its entry has cooled off for a day, and not after it was removed', async () => {
  const { tenant, owner, session, path } = await withBook()
  expectStranger(await pay(session, owner))
  const made = expectStatus(await owner.person.post(path, ENTRY), 201)
  expect(made).toEqual({
    id: expect.stringMatching(/^rcp_/),
    ...ENTRY,
    countsFrom: new Date(Date.parse(made.createdAt) + 24 * HOUR_MS).toISOString(),
    createdAt: expect.any(String),
  })
  expectStranger(await pay(session, owner))
  service.advance(24 * HOUR_MS - 60_000)
  expectStranger(await pay(session, owner))
  service.advance(60_001)
  expectStatus(await pay(session, owner), 200)
  expectStranger(await pay(session, owner, CAROL), CAROL)
  const person = await signInAs(service, tenant, { userId: owner.userId })
  expect(expectStatus(await person.get(path), 200)).toEqual({ walletId: owner.walletId, recipients: [made] })
  expect(expectStatus(await remove(person, path, made.id), 200)).toEqual(made)
  expectStranger(await pay(session, owner))
  expect(await listed(tenant, path)).toEqual([])
  expectError(await remove(person, path, made.id), 404, 'not_found')
  const [added] = await eventsOf(service, tenant, 'recipient.added')
  expect(added).toMatchObject({
    recipientId: made.id,
    recipient: BOB,
    walletId: owner.walletId,
    countsFrom: made.countsFrom,
  })
  expect((await eventsOf(service, tenant, 'recipient.removed'))[0]).toMatchObject({ recipientId: made.id })
})

test('the cooling-off time is a setting of the app alone, and holds for entries that come after it', async () => {
  const { tenant, owner, session, path } = await withBook(0)
  expectError(
    await owner.person.post(path, { ...ENTRY, countsFrom: '2020-01-01T00:00:00.000Z' }),
    400,
    'validation_failed',
  )
  expectStatus(await owner.person.post(path, ENTRY), 201)
  expectStatus(await pay(session, owner), 200)
  expectStatus(await tenant.patch(`/apps/${tenant.appId}`, { addressBook: { coolingOffSeconds: 3_600 } }), 200)
  expectStatus(await owner.person.post(path, { recipient: CAROL, label: 'Carol' }), 201)
  expectStranger(await pay(session, owner, CAROL), CAROL)
  for (const coolingOffSeconds of [-1, 604_801, 1.5, '0', null])
    expectError(
      await tenant.patch(`/apps/${tenant.appId}`, { addressBook: { coolingOffSeconds } }),
      400,
      'validation_failed',
    )
  expectStatus(await tenant.patch(`/apps/${tenant.appId}`, { addressBook: { coolingOffSeconds: 0 } }), 200)
  expectStranger(await pay(session, owner, CAROL), CAROL)
})

test('only the owner adds, with a recent sign-in; a server reads and removes, a delegate does neither', async () => {
  const { tenant, owner, session, path } = await withBook(0)
  expectError(await tenant.post(path, ENTRY, owner.asUser), 401, 'session_missing')
  expectError(await tenant.post(path, ENTRY), 401, 'session_missing')
  expectError(await call(service.url, 'POST', `/v1${path}`, { ...session.by, body: ENTRY }), 401, 'session_invalid')
  expectError(await call(service.url, 'GET', `/v1${path}`, session.by), 401, 'session_invalid')
  expectError(await call(service.url, 'GET', `/v1${path}`, { key: owner.person.key }), 404, 'not_found')
  service.advance(6 * 60_000)
  expectError(await owner.person.post(path, ENTRY), 403, 'reauthentication_required')
  const person = await signInAs(service, tenant, { userId: owner.userId })
  const { id } = expectStatus(await person.post(path, ENTRY), 201)
  const reader = await tenant.newKey({ scopes: ['wallets:read'] })
  expectStatus(await call(service.url, 'GET', `/v1${path}`, { key: reader }), 200)
  expectError(await call(service.url, 'DELETE', `/v1${path}/${id}`, { key: reader }), 403, 'insufficient_scope')
  expectStatus(await tenant.delete(`${path}/${id}`), 200)
  expectStranger(await pay(session, owner))
})

test("other tenants, other users and keys of other apps reach no address book, nor another wallet's entries by their ids", async () => {
  const { tenant, owner, path } = await withBook(0)
  const { id } = expectStatus(await owner.person.post(path, ENTRY), 201)
  const stranger = await service.newTenant()
  const eve = await signedIn(service, tenant)
  const appId = expectStatus(await tenant.post('/apps', { name: 'Other' }), 201).id as string
  const foreign = { key: await tenant.newKey({ scopes: ['wallets:read', 'wallets:write'], appId }) }
  const none = path.replace(/wal_\w+/, 'wal_00000000000000000000000000')
  const missing = await tenant.get(none)
  for (const by of [{ key: stranger.key }, foreign, { key: eve.person.key, headers: eve.person.bearer }])
    for (const [method, to] of [
      ['GET', path],
      ['POST', path],
      ['DELETE', `${path}/${id}`],
    ] as const) {
      const answer = await call(service.url, method, `/v1${to}`, {
        ...by,
        ...(method === 'POST' ? { body: ENTRY } : {}),
      })
      if (method === 'POST' && !('headers' in by)) expect(answer.status, answer.text).toBeGreaterThanOrEqual(401)
      else {
        expectError(answer, 404, 'not_found')
        expect(answer.text).toBe(missing.text)
      }
    }
  const own = `/wallets/${eve.walletId}/recipients`
  expectError(await remove(eve.person, own, id), 404, 'not_found')
  for (const wrong of ['x', id.replace('rcp_', 'wal_'), '%00', "' OR 1=1"])
    expectError(await remove(owner.person, path, encodeURIComponent(wrong)), 404, 'not_found')
  expect(await listed(tenant, path)).toEqual([BOB])
})

test('a party is in it once, and entries that say nothing are refused', async () => {
  const { tenant, owner, path } = await withBook()
  for (const [body, field] of [
    [{ label: 'Bob' }, 'recipient'],
    [{ recipient: BOB }, 'label'],
    [{ ...ENTRY, recipient: 'bob' }, 'recipient'],
    [{ ...ENTRY, recipient: BOB.toUpperCase() }, 'recipient'],
    [{ ...ENTRY, recipient: [BOB] }, 'recipient'],
    [{ ...ENTRY, label: '  ' }, 'label'],
    [{ ...ENTRY, label: 'x'.repeat(101) }, 'label'],
    [{ ...ENTRY, label: 1 }, 'label'],
  ] as const) {
    const answer = await owner.person.post(path, body)
    expectError(answer, 400, 'validation_failed')
    expect(answer.body.details[0].field).toBe(field)
  }
  const answers = await Promise.all(many(6, () => owner.person.post(path, ENTRY)))
  expect(statusCounts(answers)).toEqual({ 201: 1, '409 recipient_exists': 5 })
  expect(await listed(tenant, path)).toEqual([BOB])
  expect(await eventsOf(service, tenant, 'recipient.added')).toHaveLength(1)
})

test('has at most two hundred entries', async () => {
  const { tenant, owner, path } = await withBook()
  for (let n = 0; n < 200; n += 1) {
    const recipient = `p${n}::1220${'ab'.repeat(32)}`
    expectStatus(await owner.person.post(path, { recipient, label: 'x' }), 201)
  }
  expectError(await owner.person.post(path, ENTRY), 409, 'recipient_limit_reached')
  expect(await listed(tenant, path)).toHaveLength(200)
})

test('a removal holds for calls at the same time: after its answer nothing is paid', async () => {
  const { tenant, owner, session, path } = await withBook(0)
  const { id } = expectStatus(await owner.person.post(path, ENTRY), 201)
  const holdings = await Promise.all(many(24, () => owner.receive('1')))
  const paying = holdings.map((one, n) => executeBeside(session, { commands: [transfer(one)] }, n % 4))
  await paying[0]
  expectStatus(await tenant.delete(`${path}/${id}`), 200)
  const paid = (await tenant.get('/transactions?status=completed&page_size=1')).body.total
  const answers = await Promise.all(paying)
  for (const answer of answers) if (answer.status !== 200) expectStranger(answer)
  expect((await tenant.get('/transactions?status=completed&page_size=1')).body.total).toBe(paid)
})

test('to somebody who is not in it, a condition that asks asks the owner', async () => {
  const { owner, session } = await asking(service, (one) =>
    transfers(one, '100', { conditions: [{ recipients: 'address_book', otherwise: 'require_approval' }] }),
  )
  const asked = await pay(session, owner)
  expect(expectStatus(asked, 200)).toMatchObject({ status: 'approval_required' })
  const { approval } = asked.body.data
  const { rules } = expectStatus(await owner.person.get(`/approvals/${approval.id}`), 200)
  expect(rules[0]).toMatchObject({ rule: 'conditions[0]', message: expect.stringContaining(BOB) })
})

test('an offer is for whom it is made to, and a transfer to oneself or a split is for nobody', async () => {
  const { owner, session, path } = await withBook(0)
  const exercise = async (choice: string, given: object) => ({
    commands: [
      { exercise: { templateId: 'Token:Holding', contractId: await owner.receive('2'), choice, arguments: given } },
    ],
  })
  expectStatus(await session.execute(await exercise('Split', { amount: '1' })), 200)
  expectStatus(await session.execute(await exercise('Transfer', { receiver: owner.party })), 200)
  expectStranger(await session.execute(await exercise('Offer', { receiver: BOB })))
  expectStatus(await owner.person.post(path, ENTRY), 201)
  expectStatus(await session.execute(await exercise('Offer', { receiver: BOB })), 200)
  // Who issues the asset signs every offer, and is paid by one that is made to them.
  expectStranger(await session.execute(await exercise('Offer', { receiver: owner.issuer })), owner.issuer)
})

test('an entry that SQL changed, brought forward or put back pays nobody, and is reported', async () => {
  const fresh = async () => {
    const made = await withBook(3_600)
    const { id } = expectStatus(await made.owner.person.post(made.path, ENTRY), 201)
    return { ...made, id }
  }
  const earlier = "counts_from = now() - interval '2 hours'"
  const changes: Record<string, (one: Awaited<ReturnType<typeof fresh>>) => Promise<unknown>> = {
    'another party': ({ id }) => service.sql('update wallet_recipients set recipient = $2 where id = $1', [id, CAROL]),
    'an earlier time': ({ id }) => service.sql(`update wallet_recipients set ${earlier} where id = $1`, [id]),
    'no MAC': ({ id }) => service.sql(`update wallet_recipients set ${earlier}, mac = null where id = $1`, [id]),
    'put back after its removal': async ({ tenant, path, id }) => {
      service.advance(HOUR_MS + 1)
      await service.sql('create table kept_recipients as select * from wallet_recipients where id = $1', [id])
      expectStatus(await tenant.delete(`${path}/${id}`), 200)
      await service.sql('insert into wallet_recipients select * from kept_recipients')
      await service.sql('drop table kept_recipients')
    },
  }
  for (const [name, change] of Object.entries(changes)) {
    const one = await fresh()
    await change(one)
    const receiver = name === 'another party' ? CAROL : BOB
    expectError(await pay(one.session, one.owner, receiver), 500, 'record_tampered')
    const reported = await eventually(
      'it is reported',
      async () => (await eventsOf(service, one.tenant, 'record.tampered'))[0],
    )
    expect(reported, name).toMatchObject({ record: 'wallet_recipient', recordId: one.id })
    // Removing works nevertheless, and what is left is no error.
    expectStatus(await one.tenant.delete(`${one.path}/${one.id}`), 200)
    expectStranger(await pay(one.session, one.owner, receiver), receiver)
  }
})
