import { exportJWK, generateKeyPair } from 'jose'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest'
import { expectError } from '../../../test/harness/envelope.ts'
import { eventually, type Service, startService, type Tenant } from '../../../test/harness/harness.ts'
import {
  DISCOVERY_PATH,
  exchange,
  JWKS_PATH,
  newSubject,
  refusalOf,
  startIssuer,
  type TestIssuer,
  trust,
} from './issuer.fixture.ts'
import { FLOOR_MS, KEEP_MS, REFRESH_MS } from './issuer-keys.ts'

let service: Service
let tenant: Tenant
let issuer: TestIssuer
let patientMs: number

beforeAll(async () => {
  service = await startService()
  patientMs = service.deps.config.webhookTimeoutMs
})
afterAll(() => service.stop())

/** For how long the service waits for an issuer; `patientMs` again after each test. */
const waitsFor = (webhookTimeoutMs: number) => Object.assign(service.deps.config, { webhookTimeoutMs })

beforeEach(async () => {
  vi.useFakeTimers({ toFake: ['performance'] })
  tenant = await service.newTenant()
  issuer = await startIssuer(service)
})
afterEach(async () => {
  vi.useRealTimers()
  waitsFor(patientMs)
  await issuer.close()
})

const send = async (parts: Parameters<TestIssuer['token']>[0] = {}) =>
  refusalOf(await exchange(service, tenant, await issuer.token(parts)))

describe('an issuer’s keys', () => {
  test('are fetched once for all tokens, however many come at once', async () => {
    await trust(tenant, issuer)
    const answers = await Promise.all(Array.from({ length: 12 }, () => send()))
    expect(answers).toEqual(answers.map(() => '200'))
    expect(issuer.requests).toEqual([JWKS_PATH])
  })

  test('are found where its metadata says, if that is the metadata of this issuer', async () => {
    await trust(tenant, issuer, { jwksUri: undefined, discovery: `${issuer.url}${DISCOVERY_PATH}` })
    expect(await send()).toBe('200')
    expect(issuer.requests).toEqual([DISCOVERY_PATH, JWKS_PATH])
    const other = await startIssuer(service)
    await trust(tenant, other, { jwksUri: undefined, discovery: `${issuer.url}${DISCOVERY_PATH}` })
    expectError(await exchange(service, tenant, await other.token()), 400, 'issuer_unavailable')
    expect(other.requests).toEqual([])
    await other.close()
  })

  test('are fetched at most once per interval, by a flood of tokens that name others too', async () => {
    await trust(tenant, issuer)
    expect(await send()).toBe('200')
    const flood = () => Promise.all(Array.from({ length: 20 }, () => send({ header: { kid: newSubject() } })))
    expect(new Set(await flood())).toEqual(new Set(['token_key']))
    expect(issuer.requests.length).toBe(1)
    vi.advanceTimersByTime(FLOOR_MS)
    await flood()
    await flood()
    expect(issuer.requests.length).toBe(2)
    expect(await send()).toBe('200')
  })

  test('that replace others are found by the first token that names them', async () => {
    await trust(tenant, issuer)
    const old = await issuer.token()
    expect(await send()).toBe('200')
    await issuer.rotate()
    // Within the interval after the last fetch, nobody asks.
    expect(await send()).toBe('token_key')
    vi.advanceTimersByTime(FLOOR_MS)
    expect(await send()).toBe('200')
    // The old one is gone from the set: what it signed is void.
    expect(refusalOf(await exchange(service, tenant, old))).toBe('token_key')
  })

  test('are used while they are fetched again or cannot be, and not for longer than an hour', async () => {
    await trust(tenant, issuer)
    expect(await send()).toBe('200')
    issuer.behave((_, response) => response.writeHead(500).end())
    vi.advanceTimersByTime(REFRESH_MS)
    expect(await send()).toBe('200')
    await eventually('they are asked for again', async () => issuer.requests.length === 2)
    vi.advanceTimersByTime(KEEP_MS - REFRESH_MS)
    expect(await send()).toBe('400 issuer_unavailable')
  })

  test('at another address are others', async () => {
    const id = await trust(tenant, issuer)
    expect(await send()).toBe('200')
    const other = await startIssuer(service)
    const changed = { jwksUri: `${other.url}${JWKS_PATH}` }
    expect((await tenant.patch(`/apps/${tenant.appId}/issuers/${id}`, changed)).status).toBe(200)
    expect(await send()).toBe('token_key')
    await other.close()
  })
})

describe('an answer to the request for keys', () => {
  const unavailable: Record<string, (issuer: TestIssuer) => Parameters<TestIssuer['behave']>[0]> = {
    'that redirects, even to the right place': (one) => (request, response) =>
      request.url === JWKS_PATH
        ? response.writeHead(302, { location: `${one.url}/moved` }).end()
        : response.end(JSON.stringify({ keys: one.keys })),
    'that is huge': (one) => (_, response) => response.end(JSON.stringify({ keys: one.keys }) + ' '.repeat(70_000)),
    'that never ends': (one) => (_, response) => response.write(JSON.stringify({ keys: one.keys }).slice(0, -1)),
    'that never comes': () => () => {},
    'that is no JSON': () => (_, response) => response.end('<html>'),
    'that is no key set': () => (_, response) => response.end('[]'),
    'without keys': () => (_, response) => response.end('{"keys":[]}'),
    'with more keys than anybody has': (one) => (_, response) =>
      response.end(JSON.stringify({ keys: Array.from({ length: 101 }, () => ({ kid: one.keys[0]?.kid })) })),
    'with an error': (one) => (_, response) => response.writeHead(404).end(JSON.stringify({ keys: one.keys })),
  }
  test.each(Object.entries(unavailable))(
    '%s is no key set, and is not asked for again at once',
    async (what, handler) => {
      issuer.behave(handler(issuer))
      await trust(tenant, issuer)
      // Not for those that answer: where the machine is busy, that takes a while.
      if (what.startsWith('that never')) waitsFor(1_000)
      expect(await send()).toBe('400 issuer_unavailable')
      expect(await send()).toBe('400 issuer_unavailable')
      expect(issuer.requests.length).toBe(1)
    },
  )

  test('has keys that verify nothing: symmetric, for encryption, too small, of another curve', async () => {
    await trust(tenant, issuer, { algorithms: ['ES256', 'RS256'] })
    const good = issuer.keys[0] as object
    const encryption = { ...good, kid: 'enc', use: 'enc' }
    const other = { ...(await exportJWK((await generateKeyPair('ES384')).publicKey)), kid: 'p384' }
    const noVerify = { ...good, kid: 'ops', key_ops: ['encrypt'] }
    const small = { kty: 'RSA', kid: 'small', e: 'AQAB', n: Buffer.alloc(128, 0xff).toString('base64url') }
    const slow = {
      kty: 'RSA',
      kid: 'slow',
      e: Buffer.alloc(256, 0xff).toString('base64url'),
      n: Buffer.alloc(256, 0xff).toString('base64url'),
    }
    const secret = { kty: 'oct', kid: 'oct', k: 'c2VjcmV0' }
    issuer.keys.push(encryption, other, noVerify, small, slow, secret, 7 as never, null as never)
    expect(await send()).toBe('200')
    for (const kid of ['enc', 'p384', 'ops', 'oct']) expect(await send({ header: { kid } }), kid).toBe('token_key')
    const rsa = await generateKeyPair('RS256')
    for (const kid of ['small', 'slow'])
      expect(await send({ header: { kid, alg: 'RS256' }, key: rsa.privateKey }), kid).toBe('token_key')
  })

  test('without names is enough for a token without one, while there is one key that fits', async () => {
    await trust(tenant, issuer)
    const [key] = issuer.keys
    delete key?.kid
    expect(await send({ header: { kid: undefined } })).toBe('200')
    expect(await send()).toBe('token_key')
    issuer.keys.push({ ...(await exportJWK((await generateKeyPair('ES256')).publicKey)) })
    vi.advanceTimersByTime(KEEP_MS)
    expect(await send({ header: { kid: undefined } })).toBe('token_key')
  })
})

test('a transaction that keeps its answer for a repeat waits for no issuer', async () => {
  await trust(tenant, issuer)
  const token = await issuer.token()
  /** Looks until no transaction waits, and not for ever: one that waits for this answer does so all the time. */
  async function transactionsWaiting(): Promise<number> {
    let n = 1
    for (let look = 0; look < 50 && n > 0; look += 1) {
      const [row] = await service.sql<{ n: number }>(
        `select count(*)::int as n from pg_stat_activity where state like 'idle in transaction%' and datname = current_database()`,
      )
      n = row?.n ?? 0
    }
    return n
  }
  let waiting: number | undefined
  issuer.behave((_, response) => {
    void transactionsWaiting().then((n) => {
      waiting = n
      response.end(JSON.stringify({ keys: issuer.keys }))
    })
  })
  const headers = { 'idempotency-key': 'once' }
  const first = await exchange(service, tenant, token, { key: tenant.key, headers })
  expect([first.status, waiting]).toEqual([200, 0])
  const again = await exchange(service, tenant, token, { key: tenant.key, headers })
  expect([again.headers.get('idempotency-replayed'), again.text]).toEqual(['true', first.text])
})
