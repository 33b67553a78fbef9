import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import {
  type Authenticator,
  type Credential,
  newAuthenticator,
  register,
} from '../../../../test/harness/authenticator.ts'
import { cookieOf, openAsOperator, openPage, type Page, postSession } from '../../../../test/harness/dashboard-page.ts'
import { expectError } from '../../../../test/harness/envelope.ts'
import {
  type Answer,
  call,
  eventually,
  type Service,
  startService,
  type Tenant,
} from '../../../../test/harness/harness.ts'
import type { Role } from '../../../platform/security/roles/roles.ts'
import { addPasskey, originOf, proofBy, type SignedIn, signedIn } from '../members.fixture.ts'

const MINUTE_MS = 60_000
const OPTIONS = '/dashboard/api/session/passkey-options'

let service: Service
let tenant: Tenant
beforeAll(async () => {
  service = await startService()
  tenant = await service.newTenant()
})
afterAll(() => service.stop())

interface Holder extends SignedIn {
  authenticator: Authenticator
  passkeyId: string
}

const add = (page: Page, authenticator: Authenticator, of = service): Promise<Answer> =>
  addPasskey(of, page, authenticator)

/** A member with a passkey. */
async function holder(role: Role = 'owner', of = tenant, at = service): Promise<Holder> {
  const member = await signedIn(at, of, role)
  const authenticator = newAuthenticator()
  const answer = await add(member.page, authenticator, at)
  expect(answer.status, answer.text).toBe(200)
  return { ...member, authenticator, passkeyId: answer.body.data.id }
}

const proof = (authenticator: Authenticator, of = service) => proofBy(of, authenticator)

describe('signing in', () => {
  test('with a passkey begins a session of its member, fresh for sensitive calls', async () => {
    const { id, authenticator } = await holder('developer')
    const answer = await postSession(service, { passkey: await proof(authenticator) })
    expect(answer.status, answer.text).toBe(200)
    expect(answer.body.data).toMatchObject({ via: 'member', member: { id, role: 'developer' } })
    expect(cookieOf(answer)).toMatch(/^halfkey_dashboard=/)
  })

  test('each answer counts once, of parallel ones too', async () => {
    const { authenticator } = await holder()
    const passkey = await proof(authenticator)
    const answers = await Promise.all([1, 2, 3, 4].map(() => postSession(service, { passkey })))
    expect(answers.map(({ status }) => status).toSorted()).toEqual([200, 409, 409, 409])
    expectError(await postSession(service, { passkey }), 409, 'passkey_challenge_over')
  })

  test('a challenge is over after five minutes', async () => {
    const own = await startService()
    try {
      const { authenticator } = await holder('owner', await own.newTenant(), own)
      const passkey = await proof(authenticator, own)
      own.advance(5 * MINUTE_MS + 1_000)
      expectError(await postSession(own, { passkey }), 409, 'passkey_challenge_over')
    } finally {
      await own.stop()
    }
  })

  test('with anything else is refused with one answer: unknown, removed, forged, of another page or of a user', async () => {
    const known = await holder()
    const answers: Answer[] = []
    const attempt = async (spoil: (credential: Credential) => void, authenticator = known.authenticator) => {
      const passkey = await proof(authenticator)
      spoil(passkey.credential)
      answers.push(await postSession(service, { passkey }))
    }
    const stranger = newAuthenticator()
    const { publicKey } = (await known.page.call('POST', '/session/passkeys/options', { body: {} })).body.data
    stranger.create(publicKey, originOf(service))
    await attempt(() => {}, stranger)
    await attempt((credential) => {
      const { signature } = credential.response
      credential.response.signature = `${signature.slice(0, -6)}${signature.endsWith('AAAAAA') ? 'BBBBBB' : 'AAAAAA'}`
    })
    await attempt((credential) => {
      credential.response.userHandle = Buffer.from('mem_other').toString('base64url')
    })
    await attempt((credential) => {
      const data = JSON.parse(Buffer.from(credential.response.clientDataJSON, 'base64url').toString())
      credential.response.clientDataJSON = Buffer.from(
        JSON.stringify({ ...data, origin: 'https://evil.example' }),
      ).toString('base64url')
    })
    // A passkey of an app's user, at the same host.
    const ofUser = newAuthenticator()
    const registered = await register({ url: service.url, key: tenant.key }, {}, { authenticator: ofUser, headers: {} })
    expect(registered.status).toBe(200)
    await attempt(() => {}, ofUser)
    const removed = await holder('admin')
    const operator = await openAsOperator(service, tenant.tenantId)
    const headers = { 'x-halfkey-tenant': tenant.tenantId }
    expect((await operator.call('DELETE', `/members/${removed.id}`, { headers })).status).toBe(200)
    await attempt(() => {}, removed.authenticator)
    for (const answer of answers) expectError(answer, 401, 'passkey_invalid')
    expect(new Set(answers.map(({ text }) => text)).size).toBe(1)
  })

  test('takes one way at a time', async () => {
    const { authenticator } = await holder()
    const passkey = await proof(authenticator)
    expectError(await postSession(service, { passkey, key: tenant.key }), 400, 'validation_failed')
    expectError(await postSession(service, { passkey: { challengeId: 'x' } }), 400, 'validation_failed')
  })

  test('a challenge for a new passkey signs nobody in, and the other way round', async () => {
    const { page, authenticator } = await holder()
    const made = (await page.call('POST', '/session/passkeys/options', { body: {} })).body.data
    const asked = await proof(authenticator)
    const swapped = { ...asked, challengeId: made.challengeId }
    expectError(await postSession(service, { passkey: swapped }), 409, 'passkey_challenge_over')
    const credential = newAuthenticator().create(made.publicKey, originOf(service))
    const body = { challengeId: asked.challengeId, credential }
    expectError(await page.call('POST', '/session/passkeys', { body }), 409, 'passkey_challenge_over')
  })

  test('other pages get no challenge', async () => {
    const headers = { origin: 'https://evil.example', 'sec-fetch-site': 'cross-site' }
    expectError(await call(service.url, 'POST', OPTIONS, { headers }), 403, 'origin_not_allowed')
  })
})

describe('a step-up', () => {
  test('by the member’s passkey lets them make sensitive calls again; by another member’s it does not', async () => {
    const own = await startService()
    try {
      const its = await own.newTenant()
      const [ada, eve] = [await holder('owner', its, own), await holder('owner', its, own)]
      const body = { name: 'Backend', type: 'secret', scopes: ['users:read'] }
      own.advance(6 * MINUTE_MS)
      expectError(await ada.page.call('POST', '/api-keys', { body }), 403, 'reauthentication_required')
      const wrong = await ada.page.call('POST', '/session/step-up', { body: await proof(eve.authenticator, own) })
      expectError(wrong, 401, 'passkey_invalid')
      expectError(await ada.page.call('POST', '/api-keys', { body }), 403, 'reauthentication_required')
      const right = await ada.page.call('POST', '/session/step-up', { body: await proof(ada.authenticator, own) })
      expect(right.status, right.text).toBe(200)
      expect(right.body.data.member.id).toBe(ada.id)
      expect((await ada.page.call('POST', '/api-keys', { body })).status).toBe(201)
    } finally {
      await own.stop()
    }
  })

  test('needs the session’s CSRF token, and a member', async () => {
    const { page, authenticator } = await holder()
    const body = await proof(authenticator)
    const headers = { 'x-halfkey-csrf': 'x' }
    expectError(await page.call('POST', '/session/step-up', { body, headers }), 403, 'csrf_token_invalid')
    const operator = await openPage(service, { key: tenant.key })
    for (const [method, path] of [
      ['POST', '/session/step-up'],
      ['GET', '/session/passkeys'],
      ['POST', '/session/passkeys/options'],
    ] as const)
      expectError(await operator.call(method, path, method === 'GET' ? {} : { body }), 403, 'insufficient_scope')
  })
})

describe('a member’s passkeys', () => {
  test('are listed, named and removed by the member alone, and in the audit log', async () => {
    const { id, page, passkeyId, authenticator } = await holder('support')
    const list = await page.call('GET', '/session/passkeys')
    expect(list.body.data).toEqual([{ id: passkeyId, name: 'Laptop', lastUsedAt: null, createdAt: expect.any(String) }])
    const other = await holder('owner')
    expect((await other.page.call('GET', '/session/passkeys')).body.data).toHaveLength(1)
    const gone = await other.page.call('POST', '/session/passkeys/remove', { body: { id: passkeyId } })
    expectError(gone, 404, 'not_found')
    expect((await page.call('POST', '/session/passkeys/remove', { body: { id: passkeyId } })).status).toBe(200)
    expectError(await postSession(service, { passkey: await proof(authenticator) }), 401, 'passkey_invalid')
    await eventually('both acts are in the log', async () => {
      const { data } = (await tenant.get(`/audit-log?actor=${id}`)).body
      const actions = data.map(({ action }: { action: string }) => action)
      return actions.includes('member.passkey_added') && actions.includes('member.passkey_removed')
    })
  })

  test('one is not added or removed with a session that is not fresh, nor to another member', async () => {
    const own = await startService()
    try {
      const its = await own.newTenant()
      const { page, passkeyId } = await holder('owner', its, own)
      const other = await signedIn(own, its, 'viewer')
      const { challengeId, publicKey } = (await page.call('POST', '/session/passkeys/options', { body: {} })).body.data
      const credential = newAuthenticator().create(publicKey, originOf(own))
      const stolen = await other.page.call('POST', '/session/passkeys', { body: { challengeId, credential } })
      expectError(stolen, 409, 'passkey_challenge_over')
      own.advance(6 * MINUTE_MS)
      expectError(await add(page, newAuthenticator(), own), 403, 'reauthentication_required')
      const removal = await page.call('POST', '/session/passkeys/remove', { body: { id: passkeyId } })
      expectError(removal, 403, 'reauthentication_required')
    } finally {
      await own.stop()
    }
  })

  test('one that was removed and is put back in the database signs nobody in; nor does a forged one', async () => {
    const { passkeyId, page, authenticator, id } = await holder('owner')
    await service.sql('create table kept as select * from member_passkeys where id = $1', [passkeyId])
    await page.call('POST', '/session/passkeys/remove', { body: { id: passkeyId } })
    await service.sql('insert into member_passkeys select * from kept', [])
    await service.sql('drop table kept', [])
    expectError(await postSession(service, { passkey: await proof(authenticator) }), 401, 'passkey_invalid')
    const victim = await holder('owner')
    await service.sql('update member_passkeys set member_id = $1 where id = $2', [victim.id, passkeyId])
    expectError(await postSession(service, { passkey: await proof(authenticator) }), 500, 'record_tampered')
    await service.sql('delete from member_passkeys where id = $1', [passkeyId])
    expect(id).not.toBe(victim.id)
  })
})
