import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { expectError, expectRefusal } from '../../../test/harness/envelope.ts'
import { type Answer, type Service, startService, type Tenant } from '../../../test/harness/harness.ts'

let service: Service
beforeAll(async () => {
  service = await startService()
})
afterAll(() => service.stop())

const eventsOf = async (tenant: Tenant, type: string) =>
  (
    await service.sql<{ body: string }>('select body from events where tenant_id = $1 and type = $2 order by id', [
      tenant.tenantId,
      type,
    ])
  ).map((event) => JSON.parse(event.body).data)

async function newUser(tenant: Tenant, body: object = {}): Promise<Answer['body']> {
  const answer = await tenant.post('/users', body)
  expect(answer.status, answer.text).toBe(201)
  return answer.body.data
}

describe('changing a user', () => {
  test('what is absent stays, what is null goes, and one event names what changed', async () => {
    const tenant = await service.newTenant()
    const user = await newUser(tenant, {
      email: 'ada@example.com',
      name: 'Ada',
      externalId: '1',
      metadata: { a: '1', b: '2' },
    })
    service.advance(1_000)
    const change = { email: null, name: 'Eve', metadata: { b: null, c: '3' } }
    const { data } = (await tenant.patch(`/users/${user.id}`, change)).body
    expect(data).toEqual({ ...user, email: null, name: 'Eve', metadata: { a: '1', c: '3' }, updatedAt: data.updatedAt })
    expect(data.updatedAt > user.updatedAt).toBe(true)
    expect((await tenant.get(`/users/${user.id}`)).body.data).toEqual(data)
    expect(await eventsOf(tenant, 'user.updated')).toEqual([
      { userId: user.id, changed: ['email', 'name', 'metadata'] },
    ])
  })

  test('a change to what is there already changes nothing and emits nothing', async () => {
    const tenant = await service.newTenant()
    const user = await newUser(tenant, {
      email: 'Ada@example.com',
      name: 'Ada',
      externalId: '1',
      metadata: { b: '2', a: '1' },
    })
    service.advance(1_000)
    const same = {
      email: ' Ada@example.com',
      name: 'Ada ',
      externalId: '1',
      status: 'active',
      metadata: { a: '1', none: null },
    }
    for (const change of [{}, same, { metadata: {} }]) {
      const answer = await tenant.patch(`/users/${user.id}`, change)
      expect([answer.status, answer.body.data]).toEqual([200, user])
    }
    expect((await tenant.patch(`/users/${user.id}`)).body.data).toEqual(user)
    expect(await eventsOf(tenant, 'user.updated')).toEqual([])
  })

  test('what is fixed cannot be set, what cannot be null is not', async () => {
    const tenant = await service.newTenant()
    const user = await newUser(tenant, { name: 'Ada' })
    const wrong = {
      id: 'usr_1',
      partyId: 'x',
      trustLevel: 'shared',
      appId: tenant.appId,
      mfaEnabled: true,
      emailVerified: true,
      lastSeenAt: null,
      createdAt: 'x',
      tenantId: 'x',
      plan: 'x',
    }
    for (const [field, value] of Object.entries(wrong)) {
      const [detail] = expectRefusal(
        await tenant.patch(`/users/${user.id}`, { [field]: value }),
        'validation_failed',
        field,
      )
      expect(detail).toMatchObject({ field, code: 'unknown_field' })
    }
    for (const change of [
      { status: null },
      { status: 'deleted' },
      { status: 'Active' },
      { metadata: null },
      { metadata: { a: 1 } },
      { name: '' },
      { name: '  ' },
      { email: 'x' },
      { externalId: '' },
    ]) {
      const [detail] = expectRefusal(
        await tenant.patch(`/users/${user.id}`, change),
        'validation_failed',
        JSON.stringify(change),
      )
      expect(detail.field).toContain(Object.keys(change)[0])
    }
    expect((await tenant.get(`/users/${user.id}`)).body.data).toEqual(user)
  })

  test('metadata may not grow past their limits by changes', async () => {
    const tenant = await service.newTenant()
    const user = await newUser(tenant, {
      metadata: Object.fromEntries(Array.from({ length: 50 }, (_, i) => [`k${i}`, 'x'])),
    })
    const [detail] = expectRefusal(
      await tenant.patch(`/users/${user.id}`, { metadata: { more: '' } }),
      'validation_failed',
    )
    expect(detail.field).toBe('metadata')
    expect((await tenant.patch(`/users/${user.id}`, { metadata: { k0: null, more: '' } })).status).toBe(200)
    expectRefusal(
      await tenant.patch(`/users/${user.id}`, { metadata: { more: 'x'.repeat(17_000) } }),
      'validation_failed',
    )
  })

  test("another user's email or external id is a conflict, one's own in another case is not", async () => {
    const tenant = await service.newTenant()
    await newUser(tenant, { email: 'ada@example.com', externalId: '1' })
    const eve = await newUser(tenant, { email: 'eve@example.com', externalId: '2' })
    for (const [field, value] of [
      ['email', 'ADA@EXAMPLE.COM'],
      ['externalId', '1'],
    ] as const) {
      const answer = await tenant.patch(`/users/${eve.id}`, { [field]: value, name: 'Changed' })
      expectError(answer, 409, 'already_exists')
      expect(answer.body.details[0].field).toBe(field)
    }
    expect((await tenant.get(`/users/${eve.id}`)).body.data).toEqual(eve)
    expect((await tenant.patch(`/users/${eve.id}`, { email: 'EVE@example.com' })).body.data.email).toBe(
      'EVE@example.com',
    )
    expect(await eventsOf(tenant, 'user.updated')).toEqual([{ userId: eve.id, changed: ['email'] }])
  })

  test('twenty changes at once to one email leave it to one user', async () => {
    const tenant = await service.newTenant()
    const users = await Promise.all(Array.from({ length: 20 }, () => newUser(tenant)))
    const answers = await Promise.all(users.map(({ id }) => tenant.patch(`/users/${id}`, { email: 'one@example.com' })))
    expect(answers.map((answer) => answer.status).sort()).toEqual([200, ...Array(19).fill(409)])
    expect((await tenant.get('/users?search=one@')).body.total).toBe(1)
  })

  test('twenty changes of different metadata keys at once are all there afterwards', async () => {
    const tenant = await service.newTenant()
    const { id } = await newUser(tenant)
    await Promise.all(
      Array.from({ length: 20 }, (_, i) => tenant.patch(`/users/${id}`, { metadata: { [`k${i}`]: 'x' } })),
    )
    expect(Object.keys((await tenant.get(`/users/${id}`)).body.data.metadata)).toHaveLength(20)
  })

  test('a suspended user is shown as such, and can be made active again', async () => {
    const tenant = await service.newTenant()
    const { id } = await newUser(tenant)
    expect((await tenant.patch(`/users/${id}`, { status: 'suspended' })).body.data.status).toBe('suspended')
    expect((await tenant.get(`/users/${id}`)).body.data.status).toBe('suspended')
    expect((await tenant.get('/users')).body.data[0].status).toBe('suspended')
    expect((await tenant.patch(`/users/${id}`, { status: 'active' })).body.data.status).toBe('active')
    expect((await eventsOf(tenant, 'user.updated')).map((data) => data.changed)).toEqual([['status'], ['status']])
  })
})

describe('deleting a user', () => {
  test('answers the final state once, and then nothing finds the user', async () => {
    const tenant = await service.newTenant()
    const user = await newUser(tenant, { email: 'ada@example.com', externalId: '1' })
    const answer = await tenant.delete(`/users/${user.id}`)
    expect(answer.status).toBe(200)
    expect(answer.body.data).toEqual({ ...user, status: 'deleted', updatedAt: answer.body.data.updatedAt })
    expectError(await tenant.delete(`/users/${user.id}`), 404, 'not_found')
    expectError(await tenant.get(`/users/${user.id}`), 404, 'not_found')
    expectError(await tenant.patch(`/users/${user.id}`, { name: 'x' }), 404, 'not_found')
    expect((await tenant.get('/users')).body).toMatchObject({ data: [], total: 0 })
    expect((await tenant.get('/users?search=ada')).body).toMatchObject({ data: [], total: 0 })
    expect(await eventsOf(tenant, 'user.deleted')).toEqual([{ userId: user.id }])
  })

  test('email and external id are free again', async () => {
    const tenant = await service.newTenant()
    const body = { email: 'ada@example.com', externalId: '1' }
    const first = await newUser(tenant, body)
    await tenant.delete(`/users/${first.id}`)
    const second = await newUser(tenant, body)
    expect(second.id).not.toBe(first.id)
    expect(second.partyId).not.toBe(first.partyId)
  })

  test('of twenty deletions at once one succeeds, and the count is right', async () => {
    const tenant = await service.newTenant()
    const [user] = [await newUser(tenant), await newUser(tenant)]
    const answers = await Promise.all(Array.from({ length: 20 }, () => tenant.delete(`/users/${user.id}`)))
    expect(answers.map((answer) => answer.status).sort()).toEqual([200, ...Array(19).fill(404)])
    expect((await tenant.get('/users')).body.total).toBe(1)
    expect(await eventsOf(tenant, 'user.deleted')).toHaveLength(1)
  })
})

test("another app's user is the same 404 to a bound key as no user, and stays as it is", async () => {
  const tenant = await service.newTenant()
  const appId = (await tenant.post('/apps', { name: 'Other' })).body.data.id
  const key = await tenant.newKey({ scopes: ['users:write'], appId })
  const user = await newUser(tenant)
  const none = await tenant.get(`/users/usr_${'0'.repeat(26)}`, { key })
  expectError(none, 404, 'not_found')
  for (const answer of [
    await tenant.get(`/users/${user.id}`, { key }),
    await tenant.patch(`/users/${user.id}`, { name: 'x' }, { key }),
    await tenant.delete(`/users/${user.id}`, { key }),
  ])
    expect([answer.status, answer.text]).toEqual([404, none.text])
  expect((await tenant.get(`/users/${user.id}`)).body.data).toEqual(user)
})
