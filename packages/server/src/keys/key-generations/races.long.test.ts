import { afterAll, beforeAll, expect, test } from 'vitest'
import { expectError } from '../../../test/harness/envelope.ts'
import { type Answer, eventually, type Service, startService, type Tenant } from '../../../test/harness/harness.ts'
import { statusCounts } from '../../identity/guests/guests.fixture.ts'
import { eventsOf, type Person, signInAs } from '../../identity/sessions/sessions.fixture.ts'
import { lockAnyUser, type UserRow, updateUser } from '../../identity/users/store.ts'
import { sql } from '../../platform/db/db.ts'
import type { Id } from '../../platform/ids.ts'
import {
  beginDkg,
  confirmBody,
  expectData,
  finishDkg,
  newClient,
  round2Body,
  twoRounds,
} from './key-generations.fixture.ts'

const TWENTY = Array.from({ length: 20 }, (_, n) => n)

let service: Service
beforeAll(async () => {
  service = await startService({ HALFKEY_ROLE: 'api' })
})
afterAll(() => service.stop())

async function newPerson(): Promise<{ tenant: Tenant; person: Person }> {
  const tenant = await service.newTenant()
  return { tenant, person: await signInAs(service, tenant) }
}

const count = async (table: 'wallets' | 'key_shares' | 'key_generations', tenant: Tenant) => {
  const rows = await service.sql(`select from ${table} where tenant_id = $1`, [tenant.tenantId])
  return rows.length
}

test('of twenty confirmations at once all answer the one wallet, which is told of once', async () => {
  const { tenant, person } = await newPerson()
  const { dkg, key } = await twoRounds(person)
  const body = confirmBody(dkg, key)
  const answers = await Promise.all(TWENTY.map(() => person.post(`${dkg.path}/confirm`, body)))
  expect(statusCounts(answers)).toEqual({ 201: 20 })
  expect(new Set(answers.map(({ text }) => text)).size).toBe(1)
  const again = await person.post(`${dkg.path}/confirm`, body)
  expect([again.status, again.text]).toEqual([201, answers[0]?.text])
  expect(await count('wallets', tenant)).toBe(1)
  expect(await count('key_shares', tenant)).toBe(3)
  expect(await eventsOf(service, tenant, 'wallet.created')).toHaveLength(1)
  expect(await eventsOf(service, tenant, 'wallet.ready')).toHaveLength(1)
})

test('twenty confirmations under one Idempotency-Key make one wallet, and a repeat gets its answer', async () => {
  const { tenant, person } = await newPerson()
  const { dkg, key } = await twoRounds(person)
  const body = confirmBody(dkg, key)
  const headers = { 'idempotency-key': 'confirm-1' }
  const ask = () => person.post(`${dkg.path}/confirm`, body, { headers })
  const answers = await Promise.all(TWENTY.map(ask))
  for (const name of Object.keys(statusCounts(answers))) expect(['201', '409 idempotency_in_progress']).toContain(name)
  const again = await ask()
  expect(again.headers.get('idempotency-replayed')).toBe('true')
  expect(again.text).toBe(answers.find(({ status }) => status === 201)?.text)
  expect(await count('wallets', tenant)).toBe(1)
})

test('a confirmation beside the creation of another wallet: one of them is made, whole', async () => {
  const tenant = await service.newTenant()
  const people = await Promise.all(TWENTY.slice(0, 10).map(() => signInAs(service, tenant)))
  for (const person of people) {
    const { dkg, key } = await twoRounds(person)
    const [confirmed, created] = await Promise.all([
      person.post(`${dkg.path}/confirm`, confirmBody(dkg, key)),
      person.post('/users/me/wallet', {}),
    ])
    expect(statusCounts([confirmed, created])).toEqual({ 201: 1, '409 wallet_exists': 1 })
    const wallet = expectData(await person.get('/users/me/wallet'), 200)
    const shared = confirmed.status === 201
    expect(wallet.custody).toBe(shared ? 'shared' : 'embedded')
    expect(expectData(await person.get(dkg.path), 200).status).toBe(shared ? 'confirmed' : 'round2')
    const shares = await service.sql('select from key_shares where wallet_id = $1', [wallet.id])
    expect(shares).toHaveLength(shared ? 3 : 0)
  }
  expect(await eventsOf(service, tenant, 'wallet.created')).toHaveLength(people.length)
})

test('of five key generations that are confirmed at once one makes the wallet', async () => {
  const { tenant, person } = await newPerson()
  const done = await Promise.all(TWENTY.slice(0, 5).map(() => twoRounds(person)))
  const answers = await Promise.all(
    done.flatMap(({ dkg, key }) =>
      TWENTY.slice(0, 4).map(() => person.post(`${dkg.path}/confirm`, confirmBody(dkg, key))),
    ),
  )
  expect(statusCounts(answers)).toEqual({ 201: 4, '409 wallet_exists': 16 })
  expect(await count('wallets', tenant)).toBe(1)
  expect(await count('key_shares', tenant)).toBe(3)
})

test('of twenty second rounds with one body all get the one answer', async () => {
  const { person } = await newPerson()
  const dkg = await beginDkg(person)
  const body = await round2Body(person, dkg)
  const answers = await Promise.all(TWENTY.map(() => person.post(`${dkg.path}/round2`, body)))
  expect(statusCounts(answers)).toEqual({ 200: 20 })
  expect(new Set(answers.map(({ text }) => text)).size).toBe(1)
  const key = await finishDkg(dkg, answers[0]?.body.data)
  expectData(await person.post(`${dkg.path}/confirm`, confirmBody(dkg, key)), 201)
})

test('of twenty second rounds with as many bodies one is answered', async () => {
  const { person } = await newPerson()
  const dkg = await beginDkg(person)
  const bodies = await Promise.all(TWENTY.map(() => round2Body(person, dkg)))
  const answers = await Promise.all(bodies.map((body) => person.post(`${dkg.path}/round2`, body)))
  expect(statusCounts(answers)).toEqual({ 200: 1, '409 dkg_conflict': 19 })
  const key = await finishDkg(dkg, answers.find(({ status }) => status === 200)?.body.data)
  expectData(await person.post(`${dkg.path}/confirm`, confirmBody(dkg, key)), 201)
})

test('a confirmation beside a cancellation: there is a wallet, or there is none and nothing of it', async () => {
  const tenant = await service.newTenant()
  for (const n of TWENTY.slice(0, 8)) {
    const person = await signInAs(service, tenant)
    const { dkg, key } = await twoRounds(person)
    const confirm = () => person.post(`${dkg.path}/confirm`, confirmBody(dkg, key))
    const cancel = () => person.delete(dkg.path)
    const both = n % 2 === 0 ? [confirm(), cancel()] : [cancel(), confirm()]
    const names = Object.keys(statusCounts(await Promise.all(both))).sort()
    const { status } = expectData(await person.get(dkg.path), 200)
    const wallet = await person.get('/users/me/wallet')
    if (status === 'confirmed') {
      expect(names).toEqual(['201', '409 dkg_conflict'])
      expect(wallet.status).toBe(200)
    } else {
      expect([status, names]).toEqual(['canceled', ['200', '410 dkg_expired']])
      expectError(wallet, 404, 'wallet_not_found')
    }
  }
})

test('twenty that begin at once leave five that go on', async () => {
  const { person } = await newPerson()
  const clients = await Promise.all(TWENTY.map(() => newClient()))
  const answers = await Promise.all(clients.map(({ body }) => person.post('/mpc/dkg', body)))
  expect(statusCounts(answers)).toEqual({ 201: 20 })
  const read = await Promise.all(answers.map(({ body }) => person.get(`/mpc/dkg/${body.data.dkgId}`)))
  const statuses = read.map(({ body }) => body.data.status)
  expect(statuses.filter((status) => status === 'round1')).toHaveLength(5)
  expect(statuses.filter((status) => status === 'canceled')).toHaveLength(15)
})

test('a user who is suspended between the check of the token and the confirmation gets no wallet', async () => {
  const { tenant, person } = await newPerson()
  const { dkg, key } = await twoRounds(person)
  const waiting = () =>
    service.sql(
      `select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock' and query ~ 'from users'`,
    )
  let calls: Promise<Answer>[] = []
  const { body } = await newClient()
  await service.deps.db.tx(async (tx) => {
    const user = (await lockAnyUser(tx, tenant.tenantId as Id<'ten'>, person.userId as Id<'usr'>)) as UserRow
    await updateUser(tx, { ...user, status: 'suspended' })
    calls = [person.post(`${dkg.path}/confirm`, confirmBody(dkg, key)), person.post('/mpc/dkg', body)]
    await eventually('the calls wait', async () => {
      // The server ends a transaction that is idle for five seconds.
      await tx.run(sql`select 1`)
      return (await waiting()).length === calls.length
    })
  })
  for (const answer of await Promise.all(calls)) expectError(answer, 403, 'user_suspended')
  expect(await count('wallets', tenant)).toBe(0)
  expect(await count('key_generations', tenant)).toBe(1)
})

test('a user who is deleted meanwhile leaves nothing', async () => {
  const tenant = await service.newTenant()
  const people = await Promise.all(TWENTY.map(() => signInAs(service, tenant)))
  const outcomes = await Promise.all(
    people.map(async (person, n) => {
      const { dkg, key } = await twoRounds(person)
      const open = await beginDkg(person)
      const acting = [
        () => person.post(`${dkg.path}/confirm`, confirmBody(dkg, key)),
        () => person.post('/mpc/dkg', open.body),
        async () => person.post(`${open.path}/round2`, await round2Body(person, open)),
      ]
      const [answer, gone] = await Promise.all([
        (acting[n % acting.length] as () => Promise<Answer>)(),
        tenant.delete(`/users/${person.userId}`),
      ])
      expect(gone.status, gone.text).toBe(200)
      return answer
    }),
  )
  for (const name of Object.keys(statusCounts(outcomes)))
    expect(['200', '201', '401 session_revoked', '404 not_found']).toContain(name)
  for (const table of ['wallets', 'key_shares', 'key_generations'] as const) expect(await count(table, tenant)).toBe(0)
})
