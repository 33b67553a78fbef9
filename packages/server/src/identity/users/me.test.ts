import { afterAll, beforeAll, expect, test } from 'vitest'
import { expectError } from '../../../test/harness/envelope.ts'
import { type Service, startService } from '../../../test/harness/harness.ts'
import { signInAs } from '../sessions/sessions.fixture.ts'

let service: Service
beforeAll(async () => {
  service = await startService({ HALFKEY_ROLE: 'api' })
})
afterAll(() => service.stop())

test('a user, a guest and a server in their name get the record of the current user', async () => {
  const tenant = await service.newTenant()
  const person = await signInAs(service, tenant, { name: 'Ada' })
  const own = await person.get('/users/me')
  const seen = await tenant.get(`/users/${person.userId}`)
  expect({ ...own.body.data, lastSeenAt: null }).toEqual({ ...seen.body.data, lastSeenAt: null })
  const byServer = await tenant.get('/users/me', { headers: { 'x-user-id': person.userId } })
  expect(byServer.body.data.id).toBe(person.userId)
  const guest = (await tenant.post('/guests', {})).body.data
  const asGuest = await tenant.get('/users/me', { headers: { 'x-user-id': guest.userId } })
  expect(asGuest.body.data).toMatchObject({ id: guest.userId, email: null })
})

test('without a user it is a 401, with a suspended one a 403', async () => {
  const tenant = await service.newTenant()
  expectError(await tenant.get('/users/me'), 401, 'session_missing')
  const person = await signInAs(service, tenant)
  await tenant.patch(`/users/${person.userId}`, { status: 'suspended' })
  const headers = { 'x-user-id': person.userId }
  expectError(await tenant.get('/users/me', { headers }), 403, 'user_suspended')
})
