import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { expectError, expectRefusal } from '../../../test/harness/envelope.ts'
import { type Answer, type CallOptions, call, type Service, startService } from '../../../test/harness/harness.ts'
import { newGuest } from '../../identity/guests/guests.fixture.ts'
import { newApp, publishableKey } from '../../identity/sessions/sessions.fixture.ts'
import { newDelegateToken } from '../../platform/security/api-key.ts'
import {
  create,
  expectStatus,
  type Holder,
  newHolder,
  newKeyHolder,
  newSession,
  ownSession,
  type Session,
  sessionOf,
} from '../delegated.fixture.ts'

let service: Service
beforeAll(async () => {
  service = await startService({ HALFKEY_ROLE: 'api' })
})
afterAll(() => service.stop())

const policy = { allow: [{ templateId: 'Note:Note' }], query: { templateIds: ['Note:Note'] } }
const note = ({ party }: Pick<Holder, 'party'>) => create('Note:Note', { author: party, text: 'x' })
const bearing = (token: string) => ({ authorization: `Bearer ${token}` })

/** The two ways in: with an API key below `/v1`, and by the token alone. */
const WAYS = ['/v1', '/agent/api'] as const
const asked = (way: string, path: string, options: CallOptions) =>
  call(service.url, 'GET', `${way}/delegated-sessions/me${path}`, options)
const read = (way: string, { by }: Session, path = '') =>
  asked(way, path, way === '/v1' ? by : { headers: by.headers ?? {} })

async function begun(more: object = {}) {
  const tenant = await service.newTenant()
  const ada = await newHolder(tenant)
  return { tenant, ada, session: await newSession(service, tenant, ada, { policy, ...more }) }
}

async function executed(session: Session, holder: Pick<Holder, 'party'>, commandId: string): Promise<string> {
  return expectStatus(await session.execute({ commandId, commands: [note(holder)] }), 200).transactionId
}

describe.each(WAYS)('by %s, the token of a session', (way) => {
  test('reads its session without an id: the policy, what remains, and the wallet that it acts for', async () => {
    const { tenant, ada, session } = await begun({ name: 'Agent', maxUses: 3 })
    await executed(session, ada, 'one')
    const { wallet, ...own } = expectStatus(await read(way, session), 200)
    const { budgets, ...remaining } = own.remaining
    expect(budgets).toEqual([])
    expect({ ...own, remaining }).toEqual(expectStatus(await tenant.get(`/delegated-sessions/${session.id}`), 200))
    expect(own).toMatchObject({ id: session.id, policy, remaining: { uses: 2 }, status: 'active' })
    expect(wallet).toEqual({
      id: ada.walletId,
      partyId: ada.party,
      ledger: 'embedded',
      network: `halfkey:${tenant.tenantId}`,
      custody: 'embedded',
      status: 'ready',
    })
  })

  test('says that the owner signs, and that the wallet is frozen', async () => {
    const tenant = await service.newTenant()
    const ada = await newKeyHolder(service, tenant)
    const session = await ownSession(service, ada, { policy })
    await tenant.post(`/wallets/${ada.walletId}/freeze`)
    const { wallet } = expectStatus(await read(way, session), 200)
    expect(wallet).toMatchObject({ partyId: ada.party, custody: 'self_custody', status: 'frozen' })
  })

  test('lists what the session did and nothing that another session of the same wallet did', async () => {
    const { tenant, ada, session } = await begun()
    const other = await newSession(service, tenant, ada, { policy })
    const ids = [
      await executed(session, ada, 'a'),
      await executed(session, ada, 'b'),
      await executed(session, ada, 'c'),
    ]
    const theirs = await executed(other, ada, 'a')
    const { body: page } = await read(way, session, '/transactions?page_size=2')
    expect(page.data.map(({ id }: { id: string }) => id)).toEqual([ids[2], ids[1]])
    expect(page).toMatchObject({ total: 3, page: 1, pageSize: 2, hasMore: true })
    const { body: last } = await read(way, session, '/transactions?page_size=2&page=2')
    expect(last.data.map(({ id }: { id: string }) => id)).toEqual([ids[0]])
    const named = (await read(way, session, '/transactions?command_id=b')).body
    expect(named.data.map(({ id }: { id: string }) => id)).toEqual([ids[1]])
    expect((await read(way, session, '/transactions?status=failed')).body.total).toBe(0)

    const mine = expectStatus(await read(way, session, `/transactions/${ids[0]}`), 200)
    expect(mine).toEqual({ ...expectStatus(await tenant.get(`/transactions/${ids[0]}`), 200), approval: null })
    const unknown = await read(way, session, '/transactions/tx_01jb2m7x9kq4t8v6w0r3s5y1zh')
    expectError(unknown, 404, 'not_found')
    const foreign = await begun()
    const far = await executed(foreign.session, foreign.ada, 'a')
    for (const id of [theirs, far, 'x', "' OR 1=1", session.id])
      expect((await read(way, session, `/transactions/${encodeURIComponent(id)}`)).text).toBe(unknown.text)
  })

  test.each([
    ['revoked', 'delegated_session_revoked', 410],
    ['expired', 'delegated_session_expired', 410],
    ['exhausted', 'delegated_session_exhausted', 410],
    ['of a suspended user', 'user_suspended', 403],
  ])('reads nothing once the session is %s', async (how, code, status) => {
    const { tenant, ada, session } = await begun({ maxUses: 1, expiresInSeconds: 60 })
    let id = 'tx_01jb2m7x9kq4t8v6w0r3s5y1zh'
    if (how === 'exhausted') id = await executed(session, ada, 'last')
    if (how === 'revoked') expectStatus(await tenant.delete(`/delegated-sessions/${session.id}`), 200)
    if (how === 'expired') service.advance(61_000)
    if (how === 'of a suspended user') await tenant.patch(`/users/${ada.userId}`, { status: 'suspended' })
    for (const path of ['', '/transactions', `/transactions/${id}`])
      expectError(await read(way, session, path), status, code, path)
  })

  test('reads nothing once the guest is over, and is no token any more once its user is deleted', async () => {
    const tenant = await service.newTenant()
    const guest = await newGuest(tenant, { ttlMinutes: 1 })
    const asUser = { headers: { 'x-user-id': guest.userId } }
    expectStatus(await tenant.post('/users/me/wallet', {}, asUser), 201)
    const session = await newSession(service, tenant, { asUser }, { policy })
    service.advance(61_000)
    expectError(await read(way, session), 410, 'guest_expired')
    const { tenant: theirs, ada, session: other } = await begun()
    await theirs.delete(`/users/${ada.userId}`)
    const [status, code] = way === '/v1' ? [404, 'not_found'] : [401, 'session_invalid']
    expectError(await read(way, other), status as number, code as string)
  })

  test('has no other place than the Authorization header', async () => {
    const { session } = await begun()
    const key = session.by.key ?? null
    const wrong: [CallOptions, string][] = [
      [{}, 'session_missing'],
      [{ headers: { cookie: `authorization=Bearer ${session.token}` } }, 'session_missing'],
      [{ headers: { authorization: session.token } }, 'session_invalid'],
      [{ headers: { authorization: `Basic ${btoa(`dst:${session.token}`)}` } }, 'session_invalid'],
      [{ headers: bearing(`${session.token}x`) }, 'session_invalid'],
      [{ headers: bearing(session.token.toUpperCase()) }, 'session_invalid'],
    ]
    for (const [options, code] of wrong)
      expectError(await asked(way, '', way === '/v1' ? { key, ...options } : options), 401, code)
    const inQuery = await asked(way, `?token=${session.token}`, { key, headers: bearing(session.token) })
    expectRefusal(inQuery, 'validation_failed')
  })
})

describe('below /v1', () => {
  test('a secret key without a token is asked for one, whatever the session allows', async () => {
    const { tenant } = await begun({ serverExecute: true })
    for (const path of ['', '/transactions', '/transactions/tx_01jb2m7x9kq4t8v6w0r3s5y1zh'])
      expectError(await tenant.get(`/delegated-sessions/me${path}`), 401, 'session_missing')
  })

  test('a token of another app, of another tenant, and one that was never given are one 404', async () => {
    const { tenant, session } = await begun()
    const stranger = await begun()
    const otherApp = await tenant.newKey({ publishable: true, appId: await newApp(tenant) })
    const answers: Answer[] = [
      await asked('/v1', '', { key: otherApp, headers: bearing(session.token) }),
      await asked('/v1', '', { key: await publishableKey(tenant), headers: bearing(stranger.session.token) }),
      await asked('/v1', '', { key: tenant.key, headers: bearing(newDelegateToken().token) }),
    ]
    for (const answer of answers) expectError(answer, 404, 'not_found')
    expect(new Set(answers.map(({ text }) => text)).size).toBe(1)
  })
})

describe('without an API key', () => {
  /** Calls below the agents' entrance as a session does. */
  const agent = (method: string, path: string, token: string, options: CallOptions = {}) =>
    call(service.url, method, `/agent/api${path}`, { ...options, headers: { ...bearing(token), ...options.headers } })

  test('the token executes and queries, once for each commandId, and the session is who did it', async () => {
    const { tenant, ada, session } = await begun()
    const path = `/delegated-sessions/${session.id}`
    const body = { commandId: 'order-1', commands: [note(ada)] }
    const first = await agent('POST', `${path}/execute`, session.token, { body })
    expectStatus(first, 200)
    expect((await agent('POST', `${path}/execute`, session.token, { body })).text).toBe(first.text)
    expect((await session.execute(body)).text).toBe(first.text)
    const { contracts } = expectStatus(await agent('POST', `${path}/query`, session.token, { body: {} }), 200)
    expect(contracts).toHaveLength(1)
    expect((await tenant.get('/transactions')).body.total).toBe(1)
    const [event] = await service.sql<{ actor: string; key: string | null }>(
      `select context ->> 'actor' as actor, context ->> 'keyId' as key from events
       where tenant_id = $1 and type = 'tx.completed'`,
      [tenant.tenantId],
    )
    expect(event).toEqual({ actor: session.id, key: null })
  })

  test('the token of one session does nothing in another, and no API key stands for it', async () => {
    const { tenant, ada, session } = await begun()
    const other = await newSession(service, tenant, ada, { policy, serverExecute: true })
    const body = { commands: [note(ada)] }
    expectError(
      await agent('POST', `/delegated-sessions/${other.id}/execute`, session.token, { body }),
      404,
      'not_found',
    )
    for (const headers of [{ 'x-api-key': tenant.key }, { authorization: `Bearer ${tenant.key}` }]) {
      const answer = await call(service.url, 'POST', `/agent/api/delegated-sessions/${other.id}/execute`, {
        body,
        headers: headers as Record<string, string>,
      })
      expect([answer.status, answer.body.code.replace(/_(missing|invalid)$/, '')]).toEqual([401, 'session'])
    }
    expect((await tenant.get('/transactions')).body.total).toBe(0)
  })

  test('nothing else is reachable: no other operation, and none that makes, reads by id or ends a session', async () => {
    const { ada, session } = await begun()
    const calls: [string, string, CallOptions?][] = [
      ['GET', '/delegated-sessions'],
      ['POST', '/delegated-sessions', { body: { policy }, headers: { 'x-user-id': ada.userId } }],
      ['POST', '/delegated-sessions/validate', { body: { policy } }],
      ['GET', `/delegated-sessions/${session.id}`],
      ['DELETE', `/delegated-sessions/${session.id}`],
      ['GET', `/delegated-sessions/${session.id}/denials`],
      ['GET', '/transactions'],
      ['GET', `/wallets/${ada.walletId}`],
      ['POST', `/wallets/${ada.walletId}/unfreeze`],
      ['GET', `/users/${ada.userId}`],
      ['GET', '/users/me'],
      ['POST', '/api-keys', { body: {} }],
      ['GET', '/tenant'],
    ]
    for (const [method, path, options] of calls)
      expectError(await agent(method, path, session.token, options), 404, 'not_found', `${method} ${path}`)
    expectStatus(await session.query(), 200)
  })

  test('a page of others cannot call it, and nobody may keep its answers', async () => {
    const { session } = await begun()
    const foreign = await agent('GET', '/delegated-sessions/me', session.token, {
      headers: { origin: 'https://evil.example' },
    })
    expectError(foreign, 403, 'origin_not_allowed')
    const answer = await agent('GET', '/delegated-sessions/me', session.token)
    expect(answer.headers.get('cache-control')).toBe('no-store')
    expect(answer.headers.get('access-control-allow-origin')).toBeNull()
  })

  test('calls are limited for each session, not for all that share an address', async () => {
    const limited = await startService({
      HALFKEY_ROLE: 'api',
      HALFKEY_RATE_LIMITS: 'on',
      HALFKEY_RATE_LIMIT_PUBLISHABLE: '1/5',
    })
    try {
      const tenant = await limited.newTenant()
      const ada = await newHolder(tenant)
      const made = await Promise.all([1, 2].map(() => tenant.post('/delegated-sessions', { policy }, ada.asUser)))
      const [one, two] = made.map(({ body }) => sessionOf(limited.url, tenant.key, body.data)) as [Session, Session]
      const me = ({ token }: Session) =>
        call(limited.url, 'GET', '/agent/api/delegated-sessions/me', { headers: bearing(token) })
      const answers: Answer[] = []
      for (let n = 0; n < 8; n += 1) answers.push(await me(one))
      expectStatus(answers[0] as Answer, 200)
      expectError(answers.at(-1) as Answer, 429, 'rate_limited')
      expectStatus(await me(two), 200)
    } finally {
      await limited.stop()
    }
  })
})
