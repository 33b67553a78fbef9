import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { expectError, expectRefusal } from '../../../test/harness/envelope.ts'
import { call, type Service, startService, type Tenant } from '../../../test/harness/harness.ts'
import { dump, eventsOf } from '../../identity/sessions/sessions.fixture.ts'
import {
  create,
  everything,
  expectStatus,
  newHolder,
  newSession,
  signedIn,
  transfer,
  unlimited,
} from '../delegated.fixture.ts'
import { type BoundSession, hashed, newBound, newTestKey, proofFor } from './proofs.fixture.ts'
import { deleteOldProofs } from './use.ts'

let service: Service
/** Another process on the same database. */
let second: Service
let tenant: Tenant
beforeAll(async () => {
  service = await startService({ HALFKEY_ROLE: 'api' })
  const { kekFile } = service.deps.config
  const settings = { DATABASE_URL: service.databaseUrl, HALFKEY_KEK_FILE: kekFile as string }
  second = await startService({ HALFKEY_ROLE: 'api', ...settings })
  tenant = await service.newTenant()
})
afterAll(async () => {
  await second.stop()
  await service.stop()
})

const note = ({ holder }: BoundSession) => [create('Note:Note', { author: holder.party, text: 'x' })]
const bearing = (token: string) => ({ authorization: `Bearer ${token}` })
const written = async (of: Tenant) => (await of.get('/transactions')).body.total as number
const replays = (session: BoundSession) =>
  service.sql<{ n: number }>('select count(*)::integer as n from used_proofs where delegated_session_id = $1', [
    session.id,
  ])

describe('a session that is bound to a key', () => {
  test('says so by its thumbprint wherever it is read and told of, and its server cannot execute', async () => {
    const session = await newBound(service, tenant)
    const { x, y } = session.key.jwk as { x: string; y: string }
    const thumbprint = hashed(`{"crv":"P-256","kty":"EC","x":"${x}","y":"${y}"}`)
    expect(session.made).toMatchObject({ boundKeyThumbprint: thumbprint, serverExecute: false })
    const read = expectStatus(await tenant.get(`/delegated-sessions/${session.id}`), 200)
    expect(read.boundKeyThumbprint).toBe(thumbprint)
    const own = expectStatus(await session.send('GET', '/delegated-sessions/me'), 200)
    expect(own.boundKeyThumbprint).toBe(thumbprint)
    const [told] = (await eventsOf(service, tenant, 'delegated_session.created')).slice(-1)
    expect(told).toMatchObject({ delegatedSessionId: session.id, boundKeyThumbprint: thumbprint })
    expectError(
      await tenant.post(`/delegated-sessions/${session.id}/execute`, { commands: note(session) }),
      401,
      'session_missing',
    )
  })

  test('is made by its owner in the same way, and the owner ends it', async () => {
    const ada = await signedIn(service, tenant)
    const key = newTestKey('Ed25519')
    const made = expectStatus(
      await ada.person.post('/delegated-sessions', { policy: everything(), boundKey: key.jwk }),
      201,
    )
    expect(made.boundKeyThumbprint).toMatch(/^[\w-]{43}$/)
    expectStatus(await ada.person.delete(`/delegated-sessions/${made.id}`), 200)
  })

  test('spends with a proof, and its holding moves once for each command id', async () => {
    const ada = await newHolder(tenant)
    const session = await newBound(service, tenant, { holder: ada, policy: everything([unlimited(ada.issuer)]) })
    const commands = [transfer(await ada.receive('5'), '2')]
    const first = expectStatus(await session.execute({ commandId: 'one', commands }), 200)
    const again = expectStatus(await session.execute({ commandId: 'one', commands }), 200)
    expect([first.status, again.transactionId]).toEqual(['completed', first.transactionId])
  })

  test('asks for a command id, except for a dry run', async () => {
    const session = await newBound(service, tenant)
    const [detail] = expectRefusal(await session.execute({ commands: note(session) }), 'validation_failed')
    expect(detail).toMatchObject({ field: 'commandId', code: 'required' })
    expectStatus(await session.execute({ commands: note(session), dryRun: true }), 200)
  })

  test('is not made with serverExecute, a private key, or a key of another kind', async () => {
    const { asUser } = await newHolder(tenant)
    const { jwk, privateKey } = newTestKey()
    const refused = async (body: object) =>
      expectRefusal(
        await tenant.post('/delegated-sessions', { policy: everything(), ...body }, asUser),
        'validation_failed',
      )[0]?.field
    expect(await refused({ boundKey: jwk, serverExecute: true })).toBe('serverExecute')
    expect(await refused({ boundKey: privateKey.export({ format: 'jwk' }) })).toMatch(/^boundKey/)
    expect(await refused({ boundKey: { ...jwk, crv: 'Ed25519' } })).toBe('boundKey')
    expect(await refused({ boundKey: { ...jwk, y: jwk.x } })).toBe('boundKey')
    expect(await refused({ boundKey: { kty: 'OKP', crv: 'Ed25519', x: 'A'.repeat(43) } })).toBe('boundKey')
    for (const boundKey of [null, {}, [], 'x', 7, { kty: 'oct', k: 'AAAA' }, { ...jwk, x: 'x'.repeat(10_000) }])
      expect(await refused({ boundKey })).toMatch(/^boundKey/)
  })
})

describe('a stolen token of a bound session', () => {
  test('opens nothing as a bearer: not to read, to query, to execute, or to end it', async () => {
    const session = await newBound(service, tenant)
    const before = await written(tenant)
    const headers = bearing(session.token)
    for (const key of [session.apiKey, tenant.key])
      for (const [method, path, body] of [
        ['POST', `/${session.id}/execute`, { commandId: 'x', commands: note(session) }],
        ['POST', `/${session.id}/execute`, { commands: note(session), dryRun: true }],
        ['POST', `/${session.id}/query`, {}],
        ['GET', '/me', undefined],
        ['GET', '/me/transactions', undefined],
      ] as const) {
        const answer = await call(service.url, method, `/v1/delegated-sessions${path}`, { key, headers, body })
        expectError(answer, 401, 'dpop_proof_required', `${method} ${path}`)
        expect(answer.headers.get('www-authenticate')).toMatch(/^DPoP error="invalid_token"/)
      }
    for (const [method, path] of [
      ['GET', ''],
      ['GET', '/denials'],
      ['DELETE', ''],
    ] as const) {
      const answer = await call(service.url, method, `/v1/delegated-sessions/${session.id}${path}`, {
        key: session.apiKey,
        headers,
      })
      expectError(answer, 401, 'dpop_proof_required', `${method} ${path}`)
    }
    for (const path of ['/me', '/me/transactions'])
      expectError(
        await call(service.url, 'GET', `/agent/api/delegated-sessions${path}`, { headers }),
        401,
        'dpop_proof_required',
      )
    expect(await written(tenant)).toBe(before)
    expectStatus(await session.query(), 200)
  })

  test('opens nothing with a proof by another key, not at any entrance either', async () => {
    const session = await newBound(service, tenant)
    const key = newTestKey()
    for (const base of ['/v1', '/agent/api']) {
      const answer = await session.send('GET', '/delegated-sessions/me', undefined, {
        key,
        base: base === '/v1' ? undefined : base,
      } as object)
      expectError(answer, 401, 'dpop_proof_invalid', base)
      expect(answer.body.details[0].code).toBe('proof_key')
    }
    expect(await replays(session)).toEqual([{ n: 0 }])
    expectStatus(await session.send('GET', '/delegated-sessions/me', undefined, { base: '/agent/api' }), 200)
  })

  test('does not get the kept response of its delegate, with the same idempotency key', async () => {
    const session = await newBound(service, tenant)
    const body = { commandId: 'kept', commands: note(session) }
    const headers = { 'idempotency-key': 'kept' }
    const first = await session.execute(body, { headers })
    expectStatus(first, 200)
    const again = await session.execute(body, { headers })
    expect([again.text, again.headers.get('idempotency-replayed')]).toEqual([first.text, 'true'])
    const path = `/v1/delegated-sessions/${session.id}/execute`
    const stolen = await call(service.url, 'POST', path, {
      key: session.apiKey,
      body,
      headers: { ...headers, ...bearing(session.token) },
    })
    expectError(stolen, 401, 'dpop_proof_required')
    expectError(await session.execute(body, { headers, key: newTestKey() }), 401, 'dpop_proof_invalid')
  })

  test('is a 404 with a valid proof, if it is of another session, app or tenant', async () => {
    const [one, two] = [await newBound(service, tenant), await newBound(service, tenant)]
    const path = `/delegated-sessions/${two.id}/query`
    expectError(await one.send('POST', path, {}), 404, 'not_found')
    const stranger = await newBound(service, await service.newTenant())
    expectError(await one.query({ apiKey: stranger.apiKey }), 404, 'not_found')
    expect(await replays(stranger)).toEqual([{ n: 0 }])
  })
})

describe('a session that is bound to no key', () => {
  test('refuses a proof instead of ignoring it, by either scheme', async () => {
    const ada = await newHolder(tenant)
    const session = await newSession(service, tenant, ada, { policy: everything() })
    const path = `/v1/delegated-sessions/${session.id}/query`
    const proof = await proofFor({
      key: newTestKey(),
      token: session.token,
      method: 'POST',
      url: service.url + path,
      body: '{}',
    })
    const asked = (scheme: string) =>
      call(service.url, 'POST', path, {
        ...session.by,
        headers: { authorization: `${scheme} ${session.token}`, dpop: proof },
        body: {},
      })
    const bearer = await asked('Bearer')
    expectError(bearer, 401, 'dpop_proof_invalid')
    expect(bearer.body.details[0].code).toBe('proof_scheme')
    expectError(await asked('DPoP'), 401, 'session_invalid')
    expectStatus(await session.query(), 200)
  })

  test('is not turned into a bound one, or a bound one into it or another, by a change of its row', async () => {
    const session = await newBound(service, tenant)
    const other = newTestKey()
    const thief = await newBound(service, tenant, { key: other })
    const set = (jkt: string | null) =>
      service.sql('update delegated_sessions set jkt = $2 where id = $1', [session.id, jkt])
    const body = { commandId: 'forged', commands: note(session) }
    const path = `/v1/delegated-sessions/${session.id}/execute`
    await set(null)
    const asBearer = await call(service.url, 'POST', path, {
      key: session.apiKey,
      headers: bearing(session.token),
      body,
    })
    expectError(asBearer, 500, 'record_tampered')
    await set(thief.made.boundKeyThumbprint)
    expectError(await session.execute(body, { key: other }), 500, 'record_tampered')
    expectError(await session.execute(body), 500, 'record_tampered')
    await set(session.made.boundKeyThumbprint)
    expectStatus(await session.execute(body), 200)
    const plain = await newSession(service, tenant, session.holder, { policy: everything() })
    await service.sql('update delegated_sessions set jkt = $2 where id = $1', [plain.id, thief.made.boundKeyThumbprint])
    expectError(await plain.query(), 500, 'record_tampered')
  })
})

describe('a proof that was used before', () => {
  const proofOf = (session: BoundSession, path: string, body: string, url = service.url) =>
    proofFor({ ...session, method: 'POST', url: `${url}/v1/delegated-sessions/${session.id}${path}`, body })

  test('is refused, in this process and another, after a failed call, and after a restart', async () => {
    const session = await newBound(service, tenant)
    const proof = await proofOf(session, '/query', '{}')
    expectStatus(await session.query({ proof }), 200)
    for (const url of [service.url, second.url]) {
      const answer = await session.query({ proof, url })
      expectError(answer, 401, 'dpop_proof_invalid', url)
      expect(answer.body.details[0].code).toBe('proof_replayed')
    }
    const failing = { commands: note(session) }
    const used = await proofOf(session, '/execute', JSON.stringify(failing))
    expectRefusal(await session.execute(failing, { proof: used }), 'validation_failed')
    expectError(await session.execute(failing, { proof: used }), 401, 'dpop_proof_invalid')
    const { kekFile } = service.deps.config
    const third = await startService({
      HALFKEY_ROLE: 'api',
      DATABASE_URL: service.databaseUrl,
      HALFKEY_KEK_FILE: kekFile as string,
    })
    try {
      expectError(await session.query({ proof, url: third.url }), 401, 'dpop_proof_invalid')
    } finally {
      await third.stop()
    }
  })

  test('passes once, of twenty calls at the same moment in two processes, also with an idempotency key', async () => {
    const session = await newBound(service, tenant)
    for (const headers of [{}, { 'idempotency-key': 'race' }]) {
      const body = { commandId: `race-${Object.keys(headers).length}`, commands: note(session) }
      const proof = await proofOf(session, '/execute', JSON.stringify(body))
      const answers = await Promise.all(
        Array.from({ length: 20 }, (_, n) =>
          session.execute(body, { proof, headers, url: n % 2 ? service.url : second.url }),
        ),
      )
      const passed = answers.filter(({ status }) => status !== 401)
      expect(passed.map(({ status }) => status)).toEqual([200])
      expect(answers.filter(({ text }) => text.includes('proof_replayed'))).toHaveLength(19)
    }
  })

  test('is remembered without its jti, for as long as any process accepts it, and then deleted', async () => {
    const session = await newBound(service, await service.newTenant())
    const proof = await proofFor(
      { ...session, method: 'POST', url: `${service.url}/v1/delegated-sessions/${session.id}/query`, body: '{}' },
      { claims: { jti: 'jti-of-a-proof' } },
    )
    expectStatus(await session.query({ proof }), 200)
    expect(await dump(service)).not.toContain('jti-of-a-proof')
    await service.sql(
      `update used_proofs set expires_at = now() - interval '50 seconds' where delegated_session_id = $1`,
      [session.id],
    )
    await deleteOldProofs(service.deps.db)
    expect(await replays(session)).toEqual([{ n: 1 }])
    await service.sql(
      `update used_proofs set expires_at = now() - interval '70 seconds' where delegated_session_id = $1`,
      [session.id],
    )
    await deleteOldProofs(service.deps.db)
    expect(await replays(session)).toEqual([{ n: 0 }])
  })
})
