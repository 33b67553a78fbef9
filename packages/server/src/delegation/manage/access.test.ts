import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { expectError } from '../../../test/harness/envelope.ts'
import {
  type Answer,
  type CallOptions,
  call,
  type Service,
  startService,
  type Tenant,
} from '../../../test/harness/harness.ts'
import { eventsOf, newApp, publishableKey, signInAs } from '../../identity/sessions/sessions.fixture.ts'
import { newDelegateToken } from '../../platform/security/api-key.ts'
import {
  expectStatus,
  newHolder,
  newSession,
  ownSession,
  type Session,
  sessionOf,
  signedIn,
} from '../delegated.fixture.ts'

const UNKNOWN = 'dse_01jb2m7x9kq4t8v6w0r3s5y1zn'

let service: Service
beforeAll(async () => {
  service = await startService({ HALFKEY_ROLE: 'api' })
})
afterAll(() => service.stop())

const policy = { allow: [{ templateId: 'Note:Note' }], query: { templateIds: ['Note:Note'] } }
const note = (author: string) => ({
  commands: [{ create: { templateId: 'Note:Note', arguments: { author, text: 'x' } } }],
})
const ask = (method: string, path: string, options: CallOptions) =>
  call(service.url, method, `/v1/delegated-sessions/${path}`, options)
const bearing = (token: string) => ({ authorization: `Bearer ${token}` })

/** Execute and query, as this caller asks for them. */
const both = (id: string, author: string, options: CallOptions): Promise<Answer[]> =>
  Promise.all([
    ask('POST', `${id}/execute`, { ...options, body: note(author) }),
    ask('POST', `${id}/query`, { ...options, body: {} }),
  ])

async function notesOf(tenant: Tenant): Promise<number> {
  return (await tenant.get('/transactions')).body.total
}

describe('execute and query', () => {
  test('take the token beside any key of its app: publishable, bound, tenant-wide', async () => {
    const tenant = await service.newTenant()
    const ada = await signedIn(service, tenant)
    const session = await ownSession(service, ada, { policy })
    const scopes = ['delegated_sessions:execute']
    const keys = [
      await publishableKey(tenant),
      await tenant.newKey({ scopes, appId: tenant.appId }),
      await tenant.newKey({ scopes }),
    ]
    for (const key of keys)
      for (const answer of await both(session.id, ada.party, { key, headers: bearing(session.token) }))
        expectStatus(answer, 200)
    expect(await notesOf(tenant)).toBe(3)
  })

  test("answer another session's token, and a key of another app or tenant, byte for byte like an unknown id", async () => {
    const tenant = await service.newTenant()
    const ada = await signedIn(service, tenant)
    const [session, other] = [await ownSession(service, ada, { policy }), await ownSession(service, ada, { policy })]
    const key = await publishableKey(tenant)
    const appId = await newApp(tenant)
    const stranger = await service.newTenant()
    const theirs = await ownSession(service, await signedIn(service, stranger), { policy })
    const unknown = await both(UNKNOWN, ada.party, { key, headers: bearing(session.token) })
    for (const answer of unknown) expectError(answer, 404, 'not_found')
    expect(unknown[0]?.body.details).toEqual([expect.not.objectContaining({ field: expect.anything() })])
    const callers: [string, CallOptions][] = [
      ['another session of the same wallet', { key, headers: bearing(other.token) }],
      ['a token that was never given', { key, headers: bearing(newDelegateToken().token) }],
      ["another tenant's token", { key, headers: bearing(theirs.token) }],
      ['its token, another app', { key: await publishableKey(tenant, appId), headers: bearing(session.token) }],
      [
        'its token, a secret key of another app',
        { key: await tenant.newKey({ scopes: ['*'], appId }), headers: bearing(session.token) },
      ],
      ['its token, another tenant', { key: await publishableKey(stranger), headers: bearing(session.token) }],
      ['its token, another tenant by a secret key', { key: stranger.key, headers: bearing(session.token) }],
      ['no token, another tenant by a secret key', { key: stranger.key }],
    ]
    for (const [what, options] of callers) {
      const answers = await both(session.id, ada.party, options)
      expect(
        answers.map(({ text }) => text),
        what,
      ).toEqual(unknown.map(({ text }) => text))
      expect(
        answers.map(({ status }) => status),
        what,
      ).toEqual([404, 404])
    }
    expect(await notesOf(tenant)).toBe(0)
  })

  test('take no other bearer: access tokens, refresh tokens, keys, typos and cut tokens are 401', async () => {
    const tenant = await service.newTenant()
    const ada = await signedIn(service, tenant)
    const session = await ownSession(service, ada, { policy })
    const { token } = session
    const typo = `${token.slice(0, 20)}${token[20] === 'A' ? 'B' : 'A'}${token.slice(21)}`
    const wrong = [
      ada.person.accessToken,
      ada.person.refreshToken,
      tenant.key,
      typo,
      token.slice(0, -1),
      `${token}A`,
      token.slice(4),
      token.toUpperCase(),
      token.replace('dst_', 'dse_'),
      'dst_',
      'x',
    ]
    for (const key of [await publishableKey(tenant), tenant.key]) {
      for (const bearer of wrong)
        for (const answer of await both(session.id, ada.party, { key, headers: bearing(bearer) }))
          expectError(answer, 401, 'session_invalid', bearer.slice(0, 12))
      for (const authorization of ['', 'Bearer', token, `Basic ${btoa(`${token}:`)}`, `Bearer ${token} ${token}`])
        for (const answer of await both(session.id, ada.party, { key, headers: { authorization } }))
          expectError(answer, 401, 'session_invalid', authorization.slice(0, 12))
    }
    expect(await notesOf(tenant)).toBe(0)
  })

  test('are missing a session where a publishable key comes without a token, whoever is named beside it', async () => {
    const tenant = await service.newTenant()
    const ada = await signedIn(service, tenant)
    const session = await newSession(service, tenant, ada, { policy, serverExecute: true })
    const key = await publishableKey(tenant)
    for (const headers of [{}, { 'x-user-id': ada.userId }, { cookie: `token=${session.token}` }])
      for (const answer of await both(session.id, ada.party, { key, headers }))
        expectError(answer, 401, 'session_missing')
  })

  test('take a secret key alone only from a session that allows it, and say what is missing', async () => {
    const tenant = await service.newTenant()
    const ada = await signedIn(service, tenant)
    const open = await ownSession(service, ada, { policy, serverExecute: true })
    const closed = await ownSession(service, ada, { policy })
    const bound = await tenant.newKey({ scopes: ['delegated_sessions:execute'], appId: tenant.appId })
    for (const key of [tenant.key, bound]) {
      for (const answer of await both(open.id, ada.party, { key })) expectStatus(answer, 200)
      for (const answer of await both(closed.id, ada.party, { key })) {
        expectError(answer, 401, 'session_missing')
        expect(answer.body.details[0].field).toBe('authorization')
      }
    }
  })

  test('look at no x-user-id, neither beside a token nor beside a secret key', async () => {
    const tenant = await service.newTenant()
    const [ada, eve] = [await newHolder(tenant), await newHolder(tenant)]
    const session = await newSession(service, tenant, ada, { policy })
    const closed = await newSession(service, tenant, ada, { policy, serverExecute: false })
    for (const userId of [eve.userId, ada.userId, 'nobody']) {
      const headers = { 'x-user-id': userId }
      for (const options of [
        { key: tenant.key, headers },
        { key: tenant.key, headers: { ...headers, ...bearing(session.token) } },
      ]) {
        const [executed] = await both(session.id, ada.party, options)
        const { transactionId } = expectStatus(executed as Answer, 200)
        expect((await tenant.get(`/transactions/${transactionId}`)).body.data.userId).toBe(ada.userId)
      }
      for (const answer of await both(closed.id, ada.party, { key: tenant.key, headers }))
        expectError(answer, 401, 'session_missing')
    }
  })

  test('need the scope of a secret key, with a token too, and no other scope does', async () => {
    const tenant = await service.newTenant()
    const ada = await newHolder(tenant)
    const session = await newSession(service, tenant, ada, { policy })
    const scopes = ['delegated_sessions:write', 'users:act_as', 'wallets:write', 'users:write']
    const key = await tenant.newKey({ scopes })
    for (const headers of [{}, bearing(session.token)])
      for (const answer of await both(session.id, ada.party, { key, headers })) {
        expectError(answer, 403, 'insufficient_scope')
        expect(answer.body.details[0].scope).toBe('delegated_sessions:execute')
      }
    const execute = await tenant.newKey({ scopes: ['delegated_sessions:execute'] })
    for (const answer of await both(session.id, ada.party, { key: execute })) expectStatus(answer, 200)
    expectError(await ask('GET', session.id, { key: execute }), 403, 'insufficient_scope')
    expectError(await ask('DELETE', session.id, { key: execute }), 403, 'insufficient_scope')
  })

  test('take no key that is revoked, whatever token comes with it', async () => {
    const tenant = await service.newTenant()
    const ada = await newHolder(tenant)
    const session = await newSession(service, tenant, ada, { policy })
    const made = expectStatus(
      await tenant.post('/api-keys', { name: 'x', type: 'publishable', appId: tenant.appId }),
      201,
    )
    const options = { key: made.key, headers: bearing(session.token) }
    for (const answer of await both(session.id, ada.party, options)) expectStatus(answer, 200)
    await tenant.delete(`/api-keys/${made.id}`)
    for (const answer of await both(session.id, ada.party, options)) expectError(answer, 401, 'api_key_invalid')
  })
})

describe('reading and revoking', () => {
  test('is for the owner, for who holds the token, and for a secret key; all see the same', async () => {
    const tenant = await service.newTenant()
    const ada = await signedIn(service, tenant)
    const session = await ownSession(service, ada, { policy })
    const reader = await tenant.newKey({ scopes: ['delegated_sessions:read'] })
    const seen = [
      await ada.person.get(`/delegated-sessions/${session.id}`),
      await ask('GET', session.id, session.by),
      await ask('GET', session.id, { key: reader }),
      await ask('GET', session.id, { key: reader, headers: ada.asUser.headers }),
    ]
    for (const answer of seen) expect([answer.status, answer.text]).toEqual([200, seen[0]?.text])
    expect(Object.keys(seen[0]?.body.data)).not.toContain('token')
    expectError(await ask('DELETE', session.id, { key: reader }), 403, 'insufficient_scope')
  })

  test.each([
    [
      'its owner',
      (session: Session, person: { delete(path: string): Promise<Answer> }) =>
        person.delete(`/delegated-sessions/${session.id}`),
    ],
    ['its token', (session: Session) => ask('DELETE', session.id, session.by)],
    [
      'a secret key',
      (session: Session, _: unknown, tenant: Tenant) => tenant.delete(`/delegated-sessions/${session.id}`),
    ],
  ])('is done by %s, once; a second time answers the same', async (_, revoke) => {
    const tenant = await service.newTenant()
    const ada = await signedIn(service, tenant)
    const session = await ownSession(service, ada, { policy })
    const first = expectStatus(await revoke(session, ada.person, tenant), 200)
    expect(first).toMatchObject({
      id: session.id,
      status: 'revoked',
      inFlight: [],
      revokedAt: expect.stringMatching(/Z$/),
    })
    service.advance(5_000)
    expect(expectStatus(await revoke(session, ada.person, tenant), 200)).toEqual(first)
    expectError(await session.execute(note(ada.party)), 410, 'delegated_session_revoked')
    expectError(await session.query(), 410, 'delegated_session_revoked')
    expect(await eventsOf(service, tenant, 'delegated_session.revoked')).toEqual([
      { delegatedSessionId: session.id, userId: ada.userId, walletId: ada.walletId },
    ])
  })

  test("is another's 404, the same as for an unknown id, and has no effect", async () => {
    const tenant = await service.newTenant()
    const [ada, eve] = [await signedIn(service, tenant), await signedIn(service, tenant)]
    const session = await ownSession(service, ada, { policy })
    const other = await ownSession(service, ada, { policy })
    const appId = await newApp(tenant)
    const foreign = await signInAs(service, tenant, { appId })
    const stranger = await service.newTenant()
    const theirs = await signInAs(service, stranger)
    const key = await publishableKey(tenant)
    const unknown = await tenant.get(`/delegated-sessions/${UNKNOWN}`)
    expectError(unknown, 404, 'not_found')
    const callers: [string, CallOptions][] = [
      ["another user's bearer", { key, headers: eve.person.bearer }],
      ['another session of the same user', other.by],
      ['nobody', { key }],
      ['x-user-id', { key: await tenant.newKey({ scopes: ['*'], appId }), headers: ada.asUser.headers }],
      ["another app's user", { key: foreign.key, headers: foreign.bearer }],
      ['its token, another app', { key: foreign.key, headers: bearing(session.token) }],
      ["another tenant's user", { key: theirs.key, headers: theirs.bearer }],
      ['its token, another tenant', { key: theirs.key, headers: bearing(session.token) }],
      ['another tenant', { key: stranger.key }],
      ['a key of another app', { key: await tenant.newKey({ scopes: ['*'], appId }) }],
    ]
    for (const method of ['GET', 'DELETE'])
      for (const [what, options] of callers) {
        const answer = await ask(method, session.id, options)
        expect(`${what} ${answer.status} ${answer.text}`).toBe(`${what} 404 ${unknown.text}`)
      }
    for (const bearer of [`${session.token}x`, 'dst_x', `${ada.person.accessToken}x`])
      expectError(await ask('DELETE', session.id, { key, headers: bearing(bearer) }), 401, 'session_invalid')
    expect((await tenant.get(`/delegated-sessions/${session.id}`)).body.data.status).toBe('active')
  })

  test('takes no token of a user whose session was ended or who was suspended', async () => {
    const tenant = await service.newTenant()
    const [ada, eve] = [await signedIn(service, tenant), await signedIn(service, tenant)]
    const session = await ownSession(service, ada, { policy })
    const suspended = await ownSession(service, eve, { policy })
    await ada.person.post('/auth/logout')
    expectError(await ada.person.get(`/delegated-sessions/${session.id}`), 401, 'session_revoked')
    await tenant.patch(`/users/${eve.userId}`, { status: 'suspended' })
    expectError(await eve.person.delete(`/delegated-sessions/${suspended.id}`), 403, 'user_suspended')
    // The session outlives the sign-in that made it.
    expectStatus(await session.execute(note(ada.party)), 200)
  })
})

test('a token works at its own session’s address only, whatever stands in the path', async () => {
  const tenant = await service.newTenant()
  const ada = await newHolder(tenant)
  const session = await newSession(service, tenant, ada, { policy })
  for (const id of [
    '',
    ' ',
    '%00',
    `${session.id}%20`,
    session.id.toUpperCase(),
    `${session.id}/..%2f${session.id}`,
    '*',
  ]) {
    const answer = await sessionOf(service.url, session.by.key as string, { id, token: session.token }).execute(
      note(ada.party),
    )
    expectError(answer, 404, 'not_found', id)
  }
  expect(await notesOf(tenant)).toBe(0)
})
