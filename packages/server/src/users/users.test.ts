import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Service, startService } from '../../test/harness.ts'

let service: Service
beforeAll(async () => {
  service = await startService()
})
afterAll(() => service.stop())

test('a created user has its party in the namespace of the tenant and emits exactly one user.created', async () => {
  const tenant = await service.newTenant()
  const made = await tenant.post('/users', { email: ' Ada@Example.com ', name: 'Ada' })
  expect(made.status).toBe(201)
  expect(made.body.data).toMatchObject({
    appId: tenant.appId,
    email: 'Ada@Example.com',
    trustLevel: 'embedded',
    status: 'active',
  })
  expect(made.body.data.partyId).toMatch(new RegExp(`^${made.body.data.id}::1220[0-9a-f]{64}$`))
  const events = await service.sql<{ body: string }>(
    `select body from events where tenant_id = $1 and type = 'user.created'`,
    [tenant.tenantId],
  )
  expect(events.map((event) => JSON.parse(event.body).data)).toEqual([
    { userId: made.body.data.id, email: 'Ada@Example.com', partyId: made.body.data.partyId },
  ])
})

test('fifty creations at once with one email make one user and one event', async () => {
  const tenant = await service.newTenant()
  const answers = await Promise.all(
    Array.from({ length: 50 }, (_, i) =>
      tenant.post('/users', { email: i % 2 === 0 ? 'zoë@example.com' : 'ZOE\u0308@example.com' }),
    ),
  )
  expect(answers.filter((answer) => answer.status === 201)).toHaveLength(1)
  expect(answers.filter((answer) => answer.status === 409 && answer.body.details[0].field === 'email')).toHaveLength(49)
  const events = await service.sql(`select 1 from events where tenant_id = $1 and type = 'user.created'`, [
    tenant.tenantId,
  ])
  expect(events).toHaveLength(1)
})
