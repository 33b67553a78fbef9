import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { expectError, expectRefusal } from '../../../test/harness/envelope.ts'
import { type Service, startService, type Tenant } from '../../../test/harness/harness.ts'
import { newGuest } from '../../identity/guests/guests.fixture.ts'
import { newApp, type Person, personOf, publishableKey, signInAs } from '../../identity/sessions/sessions.fixture.ts'
import { newId } from '../../platform/ids.ts'
import {
  type Actor,
  beginDkg,
  confirmBody,
  expectData,
  newClient,
  round2Body,
  runDkg,
  twoRounds,
} from './key-generations.fixture.ts'

let service: Service
beforeAll(async () => {
  service = await startService({ HALFKEY_ROLE: 'api' })
})
afterAll(() => service.stop())

async function newPerson(): Promise<{ tenant: Tenant; person: Person }> {
  const tenant = await service.newTenant()
  return { tenant, person: await signInAs(service, tenant) }
}

const server = (tenant: Tenant, userId: string, key = tenant.key): Actor => {
  const by = { key, headers: { 'x-user-id': userId } }
  return {
    get: (path) => tenant.get(path, by),
    post: (path, body) => tenant.post(path, body, by),
    delete: (path) => tenant.delete(path, by),
  }
}

describe('who may not', () => {
  test('who has a wallet already begins none', async () => {
    const { tenant, person } = await newPerson()
    const { body } = await newClient()
    await person.post('/users/me/wallet', {})
    expectError(await person.post('/mpc/dkg', body), 409, 'wallet_exists')
    const other = await signInAs(service, tenant)
    await runDkg(other)
    expectError(await other.post('/mpc/dkg', body), 409, 'wallet_exists')
  })

  test("another user's, another app's and another tenant's is not there, the same as none", async () => {
    const { tenant, person } = await newPerson()
    const { dkg, key } = await twoRounds(person)
    const open = await beginDkg(person)
    const stranger = await service.newTenant()
    const others = [
      await signInAs(service, tenant),
      await signInAs(service, tenant, { appId: await newApp(tenant) }),
      await signInAs(service, stranger),
    ]
    const bodies = { round2: await round2Body(person, open), confirm: confirmBody(dkg, key) }
    const calls = (who: Actor, id: string) =>
      Promise.all([
        who.get(`/mpc/dkg/${id}`),
        who.delete(`/mpc/dkg/${id}`),
        who.post(`/mpc/dkg/${id}/round2`, bodies.round2),
        who.post(`/mpc/dkg/${id}/confirm`, bodies.confirm),
      ])
    for (const other of others) {
      const [none] = await calls(other, newId('dkg'))
      expectError(none as never, 404, 'not_found')
      for (const id of [newId('dkg'), dkg.dkgId, open.dkgId, 'dkg_', person.userId, 'x'])
        for (const answer of await calls(other, id)) expect([answer.status, answer.text], id).toEqual([404, none?.text])
    }
    expect((await person.get(open.path)).body.data.status).toBe('round1')
    expect((await person.get(dkg.path)).body.data.status).toBe('round2')
    expectData(await person.post(`${dkg.path}/confirm`, bodies.confirm), 201)
  })

  test('a server may not in a user’s name, unless the app lets servers touch users’ keys', async () => {
    const { tenant, person } = await newPerson()
    const acting = server(tenant, person.userId)
    const { dkg, key } = await twoRounds(person)
    const open = await beginDkg(person)
    const round2 = await round2Body(person, open)
    for (const answer of [
      await acting.post('/mpc/dkg', (await newClient()).body),
      await acting.get(open.path),
      await acting.post(`${open.path}/round2`, round2),
      await acting.post(`${dkg.path}/confirm`, confirmBody(dkg, key)),
      await acting.delete(open.path),
    ])
      expectError(answer, 403, 'user_session_required')
    expectError(await acting.get(`/mpc/dkg/${newId('dkg')}`), 404, 'not_found')
    expect((await person.get(open.path)).body.data.status).toBe('round1')
    await tenant.patch(`/apps/${tenant.appId}`, { mpc: { allowServer: true } })
    expectData(await acting.post(`${open.path}/round2`, round2), 200)
    expect((await runDkg(acting)).wallet).toMatchObject({ custody: 'shared', userId: person.userId })
  })

  test('nobody without a user, suspended, logged out, or a guest that has ended', async () => {
    const { tenant, person } = await newPerson()
    const { dkg, key } = await twoRounds(person)
    const open = await beginDkg(person)
    const round2 = await round2Body(person, open)
    const all = async (who: Actor, status: number, code: string) => {
      for (const answer of [
        await who.post('/mpc/dkg', open.body),
        await who.get(open.path),
        await who.post(`${open.path}/round2`, round2),
        await who.post(`${dkg.path}/confirm`, confirmBody(dkg, key)),
        await who.delete(open.path),
      ])
        expectError(answer, status, code)
    }
    await all(tenant, 401, 'session_missing')
    await tenant.patch(`/users/${person.userId}`, { status: 'suspended' })
    await all(person, 403, 'user_suspended')
    await all(server(tenant, person.userId), 403, 'user_suspended')
    const out = await signInAs(service, tenant)
    await out.post('/auth/logout', {})
    await all(out, 401, 'session_revoked')
    const guest = await newGuest(tenant)
    const who = { userId: guest.userId, appId: tenant.appId }
    const asGuest = personOf(service.url, await publishableKey(tenant), who, guest)
    const theirs = await twoRounds(asGuest)
    await tenant.delete(`/guests/${guest.id}`)
    await all(asGuest, 410, 'guest_expired')
    expectError(
      await asGuest.post(`${theirs.dkg.path}/confirm`, confirmBody(theirs.dkg, theirs.key)),
      410,
      'guest_expired',
    )
    const [made] = await service.sql<{ n: number }>('select count(*)::int as n from wallets where tenant_id = $1', [
      tenant.tenantId,
    ])
    expect(made?.n).toBe(0)
  })

  test('is told an unknown ledger by name', async () => {
    const { person } = await newPerson()
    const [detail] = expectRefusal(
      await person.post('/mpc/dkg', { ...(await newClient()).body, ledger: 'moon' }),
      'validation_failed',
    )
    expect(detail).toMatchObject({ field: 'ledger', code: 'ledger_unknown' })
  })
})

test('whoever begins one after the other is told to wait, while others begin', async () => {
  const limited = await startService({ HALFKEY_ROLE: 'api', HALFKEY_RATE_LIMITS: 'on' })
  try {
    const tenant = await limited.newTenant()
    const [person, other] = [await signInAs(limited, tenant), await signInAs(limited, tenant)]
    const { body } = await newClient()
    const refused = []
    // On a slow machine, the limit has grown again before all of the first forty have come.
    for (let round = 0; round < 10 && refused.length === 0; round += 1) {
      const answers = await Promise.all(Array.from({ length: 40 }, () => person.post('/mpc/dkg', body)))
      refused.push(...answers.filter(({ status }) => status !== 201))
    }
    expect(refused.length).toBeGreaterThan(0)
    for (const answer of refused) {
      expectError(answer, 429, 'rate_limited')
      expect(Number(answer.headers.get('retry-after'))).toBeGreaterThan(0)
    }
    expectData(await other.post('/mpc/dkg', body), 201)
  } finally {
    await limited.stop()
  }
})
