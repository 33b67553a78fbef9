// What somebody keeps from the time before they lost a right: links, and calls that have begun.
import { request } from 'node:http'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { ownHeaders } from '../../../test/harness/dashboard-page.ts'
import { expectError } from '../../../test/harness/envelope.ts'
import { type Service, startService } from '../../../test/harness/harness.ts'
import { newId } from '../../platform/ids.ts'
import { opens, type SignedIn, signedIn } from './members.fixture.ts'

let service: Service
beforeAll(async () => {
  service = await startService()
})
afterAll(() => service.stop())

const email = () => `${newId('job')}@example.com`

async function team() {
  const own = await service.newTenant()
  const [owner, admin] = [await signedIn(service, own, 'owner'), await signedIn(service, own, 'admin')]
  const invite = async (by: SignedIn, role: string) => {
    const answer = await by.page.call('POST', '/members', { body: { email: email(), role } })
    expect(answer.status, answer.text).toBe(201)
    return { id: answer.body.data.id as string, url: answer.body.data.link.url as string }
  }
  return { own, owner, admin, invite }
}

const expectOver = async (url: string) => expectError(await opens(service, url), 401, 'dashboard_link_invalid')

describe('an invitation', () => {
  test('ends when the rights of the invited change: whoever sent it does not get them', async () => {
    const { owner, admin, invite } = await team()
    const bob = await invite(admin, 'viewer')
    const rename = await owner.page.call('PATCH', `/members/${bob.id}`, { body: { name: 'Bob' } })
    expect(rename.status, rename.text).toBe(200)
    expect((await owner.page.call('PATCH', `/members/${bob.id}`, { body: { role: 'owner' } })).status).toBe(200)
    await expectOver(bob.url)
    const again = await owner.page.call('POST', `/members/${bob.id}/link`)
    expect((await opens(service, again.body.data.link.url)).status).toBe(200)
  })

  test('of a member who was removed, or lowered below it, signs nobody in', async () => {
    const { owner, admin, invite } = await team()
    const theirs = await invite(owner, 'admin')
    const link = await admin.page.call('POST', `/members/${theirs.id}/link`)
    expect(link.status, link.text).toBe(201)
    const [low, lower] = [await invite(admin, 'viewer'), await invite(admin, 'developer')]
    expect((await owner.page.call('PATCH', `/members/${admin.id}`, { body: { role: 'support' } })).status).toBe(200)
    await expectOver(link.body.data.link.url)
    await expectOver(lower.url)
    expect((await owner.page.call('DELETE', `/members/${admin.id}`)).status).toBe(200)
    await expectOver(low.url)
  })
})

test('a key that ends, or counts at some addresses, makes no members, who have no such bounds', async () => {
  const { own, invite, admin } = await team()
  const viewer = await invite(admin, 'viewer')
  const bounds = [
    { expiresAt: new Date(service.deps.now().getTime() + 3_600_000).toISOString() },
    { allowedIps: ['127.0.0.1', '::1'] },
  ]
  for (const bound of bounds) {
    const key = await own.newKey({ scopes: ['*'], ...bound })
    for (const answer of [
      await own.post('/members', { email: email(), role: 'viewer' }, { key }),
      await own.post(`/members/${viewer.id}/link`, {}, { key }),
    ]) {
      expectError(answer, 403, 'insufficient_scope')
      expect(answer.body.details[0].code).toBe('wider_than_own')
    }
  }
})

test('a call whose body comes after its member was removed does nothing', async () => {
  const { own, owner, admin } = await team()
  const body = JSON.stringify({ name: 'Kept', scopes: ['users:read'] })
  const begunAt = performance.now()
  const call = request(`${service.url}/dashboard/api/api-keys`, {
    method: 'POST',
    headers: {
      ...ownHeaders(service),
      cookie: admin.page.cookie,
      'x-halfkey-csrf': admin.page.session.csrfToken,
      'content-type': 'application/json',
      'content-length': body.length,
    },
  })
  const answered = new Promise<number | undefined>((resolve, reject) => {
    call.on('response', (response) => resolve(response.resume().statusCode))
    call.on('error', reject)
  })
  call.flushHeaders()
  call.write(body.slice(0, 5))
  while (performance.now() - begunAt < 150) expect((await own.get('/api-keys')).status).toBe(200)
  expect((await owner.page.call('DELETE', `/members/${admin.id}`)).status).toBe(200)
  call.end(body.slice(5))
  expect(await answered).toBe(401)
  const keys = (await own.get('/api-keys?page_size=100')).body.data as { name: string }[]
  expect(keys.map(({ name }) => name)).not.toContain('Kept')
})
