import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { expectError } from '../../../test/harness/envelope.ts'
import { call, eventually, type Service, startService, type Tenant } from '../../../test/harness/harness.ts'
import { eventsOf, newApp, publishableKey } from '../../identity/sessions/sessions.fixture.ts'
import {
  create,
  digestOf,
  expectStatus,
  type Holder,
  newHolder,
  newKeyHolder,
  newSession,
  ownSession,
  type Session,
  signedIn,
} from '../delegated.fixture.ts'
import { REVOKE_BATCH } from './revoke.ts'

let service: Service
/** What happens at a step, once. */
const steps: { [step: string]: (() => Promise<void>) | undefined } = {}
beforeAll(async () => {
  const failpoint = async (step: string) => {
    const act = steps[step]
    steps[step] = undefined
    await act?.()
  }
  service = await startService({ HALFKEY_ROLE: 'api' }, { failpoint })
})
afterAll(() => service.stop())

const policy = { allow: [{ templateId: 'Note:Note' }], query: { templateIds: ['Note:Note'] } }
const note = ({ party }: Pick<Holder, 'party'>) => create('Note:Note', { author: party, text: 'x' })
const ofWallet = ({ walletId }: Pick<Holder, 'walletId'>) => `/wallets/${walletId}/sessions/revoke-all`
const ofApp = (appId: string) => `/apps/${appId}/sessions/revoke-all`
const statusOf = async (tenant: Tenant, { id }: Session) =>
  expectStatus(await tenant.get(`/delegated-sessions/${id}`), 200).status
const many = <T>(n: number, one: (index: number) => T) => Array.from({ length: n }, (_, index) => one(index))
const activeOf = async (tenant: Tenant) =>
  (await tenant.get('/delegated-sessions?status=active&page_size=1')).body.total

describe('revoking all sessions of a wallet', () => {
  test('ends each of them, with an event each and one entry in the audit log, and no other wallet’s', async () => {
    const tenant = await service.newTenant()
    const [ada, eve] = [await newHolder(tenant), await newHolder(tenant)]
    const sessions = await Promise.all(many(3, () => newSession(service, tenant, ada, { policy })))
    const ended = await newSession(service, tenant, ada, { policy })
    await tenant.delete(`/delegated-sessions/${ended.id}`)
    const theirs = await newSession(service, tenant, eve, { policy })
    const answer = expectStatus(await tenant.post(ofWallet(ada)), 200)
    expect(answer).toEqual({ revoked: 3, inFlight: [], moreInFlight: false })
    for (const session of sessions) {
      expect(await statusOf(tenant, session)).toBe('revoked')
      expectError(await session.execute({ commands: [note(ada)] }), 410, 'delegated_session_revoked')
    }
    expectStatus(await theirs.execute({ commands: [note(eve)] }), 200)
    const told = await eventsOf(service, tenant, 'delegated_session.revoked')
    expect(new Set(told.map(({ delegatedSessionId }) => delegatedSessionId))).toEqual(
      new Set([...sessions, ended].map(({ id }) => id)),
    )
    expect(told).toHaveLength(4)
    // Again: there is nothing left to end. That somebody pulled it is noted all the same.
    expect(expectStatus(await tenant.post(ofWallet(ada)), 200).revoked).toBe(0)
    const noted = await service.sql<{ target: string; user_id: string }>(
      `select target, user_id from audit_only_entries where tenant_id = $1 and action = 'wallet.sessions_revoked'`,
      [tenant.tenantId],
    )
    expect(noted).toEqual(many(2, () => ({ target: ada.walletId, user_id: ada.userId })))
  })

  test('is for the owner by their own access token, and for nobody else who has one', async () => {
    const tenant = await service.newTenant()
    const [ada, eve] = [await signedIn(service, tenant), await signedIn(service, tenant)]
    const session = await ownSession(service, ada, { policy })
    const unknown = await eve.person.post('/wallets/wal_01jb2m7x9kq4t8v6w0r3s5y1zc/sessions/revoke-all', {})
    expectError(unknown, 404, 'not_found')
    const strangers = [
      await eve.person.post(ofWallet(ada), {}),
      await tenant.post(ofWallet(ada), {}, eve.asUser),
      await tenant.post(ofWallet(ada), {}, { key: await publishableKey(tenant) }),
      await (await service.newTenant()).post(ofWallet(ada), {}),
      await tenant.post(
        ofWallet(ada),
        {},
        { key: await tenant.newKey({ scopes: ['*'], appId: await newApp(tenant) }) },
      ),
    ]
    for (const answer of strangers) expect([answer.status, answer.text]).toEqual([404, unknown.text])
    // Not for a delegate, whose token ends its own session only.
    const byDelegate = await tenant.post(ofWallet(ada), {}, session.by)
    expectError(byDelegate, 401, 'session_invalid')
    const reading = await tenant.newKey({ scopes: ['delegated_sessions:read', 'wallets:write'] })
    expectError(await tenant.post(ofWallet(ada), {}, { key: reading }), 403, 'insufficient_scope')
    expect(await statusOf(tenant, session)).toBe('active')
    expect(expectStatus(await ada.person.post(ofWallet(ada), {}), 200).revoked).toBe(1)
    expect(await statusOf(tenant, session)).toBe('revoked')
  })

  test('a repeat with the same Idempotency-Key has the first answer, and ends nothing that came later', async () => {
    const tenant = await service.newTenant()
    const ada = await newHolder(tenant)
    await newSession(service, tenant, ada, { policy })
    const options = { headers: { 'idempotency-key': 'stop' } }
    const first = await tenant.post(ofWallet(ada), {}, options)
    const later = await newSession(service, tenant, ada, { policy })
    const second = await tenant.post(ofWallet(ada), {}, options)
    expect([second.text, second.headers.get('idempotency-replayed')]).toEqual([first.text, 'true'])
    expect(await statusOf(tenant, later)).toBe('active')
  })

  test('ends a session that has only just expired too: to a process whose clock is behind it is active', async () => {
    const tenant = await service.newTenant()
    const ada = await newHolder(tenant)
    const sessions = await Promise.all(
      many(2, () => newSession(service, tenant, ada, { policy, expiresInSeconds: 60 })),
    )
    service.advance(61_000)
    expect(await statusOf(tenant, sessions[0] as Session)).toBe('expired')
    expect(expectStatus(await tenant.post(ofWallet(ada)), 200).revoked).toBe(2)
    service.advance(-61_000)
    for (const session of sessions)
      expectError(await session.execute({ commands: [note(ada)] }), 410, 'delegated_session_revoked')
    const later = await newSession(service, tenant, ada, { policy, expiresInSeconds: 60 })
    service.advance(61_000)
    expect(expectStatus(await tenant.post(ofApp(tenant.appId)), 200).revoked).toBe(1)
    service.advance(-61_000)
    expectError(await later.execute({ commands: [note(ada)] }), 410, 'delegated_session_revoked')
  })

  test('a session that is created meanwhile is not answered before all have ended, and is then a new one', async () => {
    const tenant = await service.newTenant()
    const ada = await newHolder(tenant)
    const session = await newSession(service, tenant, ada, { policy })
    const order: string[] = []
    let creating: Promise<Session> | undefined
    steps['sessions revoked'] = async () => {
      creating = newSession(service, tenant, ada, { policy })
      void creating.then(() => order.push('created'))
      // It waits for the lock that the revocation holds, and the revocation does not wait for it.
      await eventually('the creation waits', async () => {
        const [row] = await service.sql<{ n: number }>(
          `select count(*)::int as n from pg_locks join pg_stat_activity using (pid)
            where datname = current_database() and locktype = 'advisory' and not granted`,
        )
        return (row?.n ?? 0) > 0
      })
      order.push('revoked')
    }
    expect(expectStatus(await tenant.post(ofWallet(ada)), 200).revoked).toBe(1)
    const created = (await creating) as Session
    expect(order).toEqual(['revoked', 'created'])
    expect([await statusOf(tenant, session), await statusOf(tenant, created)]).toEqual(['revoked', 'active'])
    expectStatus(await created.execute({ commands: [note(ada)] }), 200)
  })

  test('the owner’s signature completes nothing after it', async () => {
    const tenant = await service.newTenant()
    const ada = await newKeyHolder(service, tenant)
    const session = await ownSession(service, ada, { policy })
    const { signingRequest } = expectStatus(await session.execute({ commands: [note(ada)] }), 200)
    const ended = expectStatus(await ada.person.post(ofWallet(ada), {}), 200)
    // Nobody but Halfkey can submit it on this ledger.
    expect(ended).toEqual({ revoked: 1, inFlight: [], moreInFlight: false })
    const signature = ada.sign(digestOf(signingRequest.preparedTransaction))
    const late = await session.execute({ signingRequestId: signingRequest.id, signature })
    expectError(late, 410, 'delegated_session_revoked')
    expect(await eventsOf(service, tenant, 'tx.completed')).toEqual([])
  })
})

describe('revoking all sessions of an app', () => {
  test('ends those of every wallet of the app, in portions, and none of another app', async () => {
    const tenant = await service.newTenant()
    const holders = await Promise.all(many(3, () => newHolder(tenant)))
    const sessions = await Promise.all(
      many(REVOKE_BATCH + 5, (n) => newSession(service, tenant, holders[n % 3] as Holder, { policy })),
    )
    const appId = await newApp(tenant)
    const other = await newHolder(tenant, { appId })
    const theirs = await newSession(service, tenant, other, { policy })
    const answer = expectStatus(await tenant.post(ofApp(tenant.appId)), 200)
    expect(answer).toEqual({ revoked: sessions.length, inFlight: [], moreInFlight: false })
    expect(await activeOf(tenant)).toBe(1)
    expectStatus(await tenant.post(`/delegated-sessions/${theirs.id}/execute`, { commands: [note(other)] }), 200)
    expect(await eventsOf(service, tenant, 'delegated_session.revoked')).toHaveLength(sessions.length)
    for (const session of [sessions[0], sessions.at(-1)] as Session[])
      expectError(await session.query(), 410, 'delegated_session_revoked')
    const noted = await service.sql<{ target: string }>(
      `select target from audit_only_entries where tenant_id = $1 and action = 'app.sessions_revoked'`,
      [tenant.tenantId],
    )
    expect(noted).toEqual([{ target: tenant.appId }])
  })

  test('ends all that were there before it, and may leave one that is created between two portions', async () => {
    const tenant = await service.newTenant()
    const ada = await newHolder(tenant)
    const before = await Promise.all(many(REVOKE_BATCH + 1, () => newSession(service, tenant, ada, { policy })))
    const created: Session[] = []
    steps['portion revoked'] = async () => {
      // The first portion has committed, and some of the others are still active.
      expect(await activeOf(tenant)).toBe(1)
      created.push(await newSession(service, tenant, ada, { policy }))
    }
    const { revoked } = expectStatus(await tenant.post(ofApp(tenant.appId)), 200)
    // Its id is greater than those before it: a later portion finds it.
    expect([revoked, created.length, await activeOf(tenant)]).toEqual([before.length + 1, 1, 0])
    steps['portion revoked'] = async () => {
      created.push(await newSession(service, tenant, ada, { policy }))
    }
    expect(expectStatus(await tenant.post(ofApp(tenant.appId)), 200).revoked).toBe(0)
    expect([created.length, await statusOf(tenant, created[1] as Session)]).toEqual([2, 'active'])
    expect(expectStatus(await tenant.post(ofApp(tenant.appId)), 200).revoked).toBe(1)
  })

  test('a call that broke off between two portions is finished by its repeat', async () => {
    const tenant = await service.newTenant()
    const ada = await newHolder(tenant)
    await Promise.all(many(REVOKE_BATCH + 2, () => newSession(service, tenant, ada, { policy })))
    const options = { headers: { 'idempotency-key': 'stop-all' } }
    steps['portion revoked'] = async () => {
      throw new Error('the process died')
    }
    expectError(await tenant.post(ofApp(tenant.appId), {}, options), 500, 'internal_error')
    expect(await activeOf(tenant)).toBe(2)
    expect(expectStatus(await tenant.post(ofApp(tenant.appId), {}, options), 200).revoked).toBe(2)
    expect(await activeOf(tenant)).toBe(0)
  })

  test('is for secret keys that see the app, and no user or delegate reaches it', async () => {
    const tenant = await service.newTenant()
    const ada = await signedIn(service, tenant)
    const session = await ownSession(service, ada, { policy })
    const bound = await tenant.newKey({ scopes: ['*'], appId: await newApp(tenant) })
    const foreign = await tenant.post(ofApp(tenant.appId), {}, { key: bound })
    const stranger = await service.newTenant()
    for (const answer of [foreign, await stranger.post(ofApp(tenant.appId), {}), await tenant.post(ofApp('app_none'))])
      expect([answer.status, answer.text]).toEqual([404, foreign.text])
    expectError(await ada.person.post(ofApp(tenant.appId), {}), 403, 'key_type_not_allowed')
    const path = `/v1${ofApp(tenant.appId)}`
    expectError(await call(service.url, 'POST', path, { ...session.by, body: {} }), 403, 'key_type_not_allowed')
    expect(await statusOf(tenant, session)).toBe('active')
    const own = await tenant.newKey({ scopes: ['delegated_sessions:write'], appId: tenant.appId })
    expect(expectStatus(await tenant.post(ofApp(tenant.appId), {}, { key: own }), 200).revoked).toBe(1)
  })
})
