import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { expectError } from '../../../test/harness/envelope.ts'
import { type Answer, eventually, type Service, startService, type Tenant } from '../../../test/harness/harness.ts'
import {
  create,
  everything,
  executeBeside,
  expectStatus,
  type Holder,
  newHolder,
  newSession,
  type Session,
} from '../delegated.fixture.ts'

/*
 * What a delegate must not be able to do to others by mere use: keep out who ends it, take the database's connections,
 * fill memory or disk.
 */

const CALLERS = 8

let service: Service
beforeAll(async () => {
  service = await startService({ HALFKEY_ROLE: 'api' })
})
afterAll(() => service.stop())

const note = ({ party }: Holder, text = 'x') => create('Note:Note', { author: party, text })

async function begun() {
  const tenant = await service.newTenant()
  const ada = await newHolder(tenant)
  return { tenant, ada, session: await newSession(service, tenant, ada, { policy: everything() }) }
}

/** Executes without a pause, by many callers with an Idempotency-Key each time, until something is refused. */
function storm(session: Session, holder: Holder, until: { over: boolean }): Promise<Answer[]> {
  const callers = Array.from({ length: CALLERS }, async (_, caller) => {
    for (let n = 0; !until.over; n += 1) {
      const headers = { 'idempotency-key': `${caller}-${n}` }
      const beside = { commands: [note(holder)] }
      const answer =
        caller % 2 === 0 ? await session.execute(beside, { headers }) : await executeBeside(session, beside, caller)
      if (answer.status !== 200) return answer
    }
    return session.execute({ commands: [note(holder)] })
  })
  return Promise.all(callers)
}

const countOf = async (tenant: Tenant) => (await tenant.get('/transactions?page_size=1')).body.total

describe('who ends it is not passed by those who execute without a pause:', () => {
  const ends: [string, string, (tenant: Tenant, holder: Holder) => Promise<Answer>][] = [
    [
      'suspending the user',
      'user_suspended',
      (tenant, { userId }) => tenant.patch(`/users/${userId}`, { status: 'suspended' }),
    ],
    ['freezing the wallet', 'wallet_frozen', (tenant, { walletId }) => tenant.post(`/wallets/${walletId}/freeze`)],
    ['deleting the user', 'not_found', (tenant, { userId }) => tenant.delete(`/users/${userId}`)],
  ]
  test.each(ends)('%s', async (_, code, end) => {
    const { tenant, ada, session } = await begun()
    const until = { over: false }
    const all = storm(session, ada, until)
    await eventually('some are executed', async () => (await countOf(tenant)) > 20)
    const answer = await end(tenant, ada)
    const executed = await countOf(tenant)
    until.over = true
    expectStatus(answer, 200)
    for (const refused of await all) expect(refused.body.code, refused.text).toBe(code)
    expect(await countOf(tenant)).toBe(executed)
  })
})

test('calls that wait for their turn hold no connection: others are answered meanwhile', async () => {
  const { tenant, ada, session } = await begun()
  const flood = Array.from({ length: 300 }, (_, n) =>
    session.execute({ commands: [note(ada)] }, { headers: { 'idempotency-key': `flood-${n}` } }),
  )
  const beside = Array.from({ length: 20 }, () => tenant.get(`/users/${ada.userId}`))
  for (const answer of await Promise.all(beside)) expectStatus(answer, 200)
  for (const answer of await Promise.all(flood)) expectStatus(answer, 200)
})

test('a contract of more than 32 KiB is refused, so that a page of them stays small', async () => {
  const tenant = await service.newTenant()
  const ada = await newHolder(tenant)
  const names = ['one', 'two', 'three']
  const fields = Object.fromEntries(names.map((name) => [name, { type: 'text' }]))
  const template = {
    templateId: 'Shop:Letter',
    fields: { author: { type: 'party' }, ...fields },
    signatories: ['author'],
  }
  expectStatus(await tenant.post('/templates', template), 201)
  const session = await newSession(service, tenant, ada, { policy: { allow: [{ templateId: 'Shop:Letter' }] } })
  const letter = (text: string) =>
    create('Shop:Letter', { author: ada.party, ...Object.fromEntries(names.map((name) => [name, text])) })
  expectStatus(await session.execute({ commands: [letter('水'.repeat(3_500))] }), 200)
  const answer = await session.execute({ commands: [letter('水'.repeat(4_000))] })
  expectError(answer, 400, 'arguments_invalid')
  expect(answer.body.details[0].field).toBe('commands.0.create.arguments')
})

test('a page ends once it has read a mebibyte, and the next one goes on from there', async () => {
  const { ada, session } = await begun()
  const text = 'x'.repeat(4_000)
  for (let n = 0; n < 3; n += 1)
    expectStatus(await session.execute({ commands: Array.from({ length: 100 }, () => note(ada, text)) }), 200)
  const seen: string[] = []
  let cursor: string | null = null
  let pages = 0
  do {
    const answer = await session.query({ limit: 100, cursor, where: [{ path: 'author', op: 'eq', value: ada.party }] })
    const page = expectStatus(answer, 200)
    seen.push(...page.contracts.map((contract: { contractId: string }) => contract.contractId))
    cursor = page.nextCursor
    pages += 1
  } while (cursor !== null)
  expect(new Set(seen).size).toBe(300)
  expect(seen).toHaveLength(300)
  const none = expectStatus(await session.query({ where: [{ path: 'text', op: 'eq', value: 'y' }] }), 200)
  expect([none.contracts, typeof none.nextCursor]).toEqual([[], 'string'])
  expect(pages).toBeGreaterThan(2)
})

test('of what only reads, a large answer is not kept for a repeat: it reads again', async () => {
  const { tenant, ada, session } = await begun()
  expectStatus(await session.execute({ commands: Array.from({ length: 20 }, () => note(ada, 'x'.repeat(4_000))) }), 200)
  const headers = { 'idempotency-key': 'large' }
  const kept = async () =>
    (
      await service.sql<{ n: string }>('select count(*) as n from idempotency_keys where tenant_id = $1', [
        tenant.tenantId,
      ])
    )[0]?.n
  const before = await kept()
  expect((await session.query({ limit: 100 }, { headers })).text.length).toBeGreaterThan(64 * 1024)
  expect((await session.query({ limit: 100 }, { headers })).headers.get('idempotency-replayed')).toBeNull()
  expect(await kept()).toBe(before)
  expectStatus(await session.query({ limit: 1 }, { headers: { 'idempotency-key': 'small' } }), 200)
  const again = await session.query({ limit: 1 }, { headers: { 'idempotency-key': 'small' } })
  expect(again.headers.get('idempotency-replayed')).toBe('true')
})

test('for who may not execute no contract is read', async () => {
  const { tenant, ada, session } = await begun()
  // Reading them takes an offset.
  const offset = async () =>
    (await service.sql<{ at: string }>('select last_value::text as at from ledger_offsets'))[0]?.at
  const other = await newSession(service, tenant, ada, { policy: everything() })
  const before = await offset()
  const foreign = { headers: { authorization: `Bearer ${other.token}` } }
  expectError(await session.execute({ commands: [note(ada)] }, foreign), 404, 'not_found')
  await tenant.delete(`/delegated-sessions/${other.id}`)
  expectError(await other.execute({ commands: [note(ada)] }), 410, 'delegated_session_revoked')
  expect(await offset()).toBe(before)
  expectStatus(await session.execute({ commands: [note(ada)] }), 200)
  expect(await offset()).not.toBe(before)
})

test('fields that are named like what every object has are fields like others', async () => {
  const tenant = await service.newTenant()
  const ada = await newHolder(tenant)
  const field = { type: 'party', optional: true }
  const template = {
    templateId: 'Shop:Odd',
    fields: { author: { type: 'party' }, toString: field, valueOf: { type: 'parties', optional: true } },
    signatories: ['author'],
    observers: ['toString', 'valueOf'],
  }
  expectStatus(await tenant.post('/templates', template), 201)
  const policy = { allow: [{ templateId: 'Shop:Odd' }], query: { templateIds: ['Shop:Odd'] } }
  const session = await newSession(service, tenant, ada, { policy })
  const made = expectStatus(await session.execute({ commands: [create('Shop:Odd', { author: ada.party })] }), 200)
  expect(made.effects[0]).toMatchObject({ arguments: { author: ada.party }, observers: [] })
  expect(expectStatus(await session.query(), 200).contracts).toHaveLength(1)
})

test('a wallet has at most a thousand active sessions', async () => {
  const { tenant, ada, session } = await begun()
  await service.sql(
    `insert into delegated_sessions (tenant_id, id, app_id, user_id, wallet_id, token_hash, policy, server_execute, expires_at,
       created_at, updated_at)
     select tenant_id, 'dse_' || lpad(n::text, 26, '0'), app_id, user_id, wallet_id, sha256(token_hash || n::text::bytea), policy,
       true, expires_at, created_at,
       updated_at from delegated_sessions, generate_series(1, 999) n where id = $1`,
    [session.id],
  )
  await service.recode()
  const body = { policy: everything() }
  expectError(await tenant.post('/delegated-sessions', body, ada.asUser), 409, 'session_limit_reached')
  expectStatus(await tenant.delete(`/delegated-sessions/${session.id}`), 200)
  expectStatus(await tenant.post('/delegated-sessions', body, ada.asUser), 201)
})
