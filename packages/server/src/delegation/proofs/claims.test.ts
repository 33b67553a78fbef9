import { randomBytes } from 'node:crypto'
import { SignJWT } from 'jose'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { expectError } from '../../../test/harness/envelope.ts'
import { type Answer, type Service, startService } from '../../../test/harness/harness.ts'
import { requestText, sendBytes } from '../../../test/harness/raw-http.ts'
import { create } from '../delegated.fixture.ts'
import {
  type BoundSession,
  hashed,
  newBound,
  newTestKey,
  proofFor,
  type Sending,
  type Twist,
} from './proofs.fixture.ts'

let service: Service
let session: BoundSession
beforeAll(async () => {
  service = await startService({ HALFKEY_ROLE: 'api' })
  session = await newBound(service, await service.newTenant())
})
afterAll(() => service.stop())

const now = () => Math.floor(Date.now() / 1000)
const encoded = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url')

/** That a call was refused because of its proof, and which part of that is named. */
function expectRefused(answer: Answer, reason: string, what = ''): void {
  expectError(answer, 401, 'dpop_proof_invalid', what)
  expect(answer.body.details[0], what).toMatchObject({ field: 'dpop', code: `proof_${reason}` })
  expect(answer.headers.get('www-authenticate')).toMatch(/^DPoP error="invalid_dpop_proof", algs="[\w ]+"$/)
}

const note = () => ({
  commandId: randomBytes(8).toString('hex'),
  commands: [create('Note:Note', { author: session.holder.party, text: 'x' })],
})
const execute = (how: Sending = {}) => session.execute(note(), how)
const written = async () => (await session.tenant.get('/transactions')).body.total as number

test.for(['ES256', 'Ed25519'] as const)('a proof by a key of %s that says what it must is accepted', async (alg) => {
  const other = await newBound(service, session.tenant, { key: newTestKey(alg) })
  expect((await other.query()).status).toBe(200)
  if (alg === 'Ed25519') expect((await other.query({ header: { alg: 'EdDSA' } })).status).toBe(200)
})

describe('a proof is refused, and nothing happens,', () => {
  const CASES: [string, string, () => Twist][] = [
    ['without typ', 'typ', () => ({ header: { typ: undefined } })],
    ['with another typ', 'typ', () => ({ header: { typ: 'JWT' } })],
    ['without jwk', 'jwk', () => ({ header: { jwk: undefined } })],
    ['with a private key in it', 'jwk', () => ({ header: { jwk: session.key.privateKey.export({ format: 'jwk' }) } })],
    ['with another key in it than signed it', 'signature', () => ({ header: { jwk: newTestKey().jwk } })],
    ['by another key', 'key', () => ({ key: newTestKey() })],
    ['by another key of another type', 'key', () => ({ key: newTestKey('Ed25519') })],
    ['without htm', 'htm', () => ({ claims: { htm: undefined } })],
    ['for another method', 'htm', () => ({ claims: { htm: 'PUT' } })],
    ['for the method in lower case', 'htm', () => ({ claims: { htm: 'post' } })],
    ['without htu', 'htu', () => ({ claims: { htu: undefined } })],
    ['with a number as htu', 'htu', () => ({ claims: { htu: 7 } })],
    ['without iat', 'iat', () => ({ claims: { iat: undefined } })],
    ['with iat as a text', 'iat', () => ({ claims: { iat: String(now()) } })],
    ['that is too old', 'iat', () => ({ claims: { iat: now() - 75 } })],
    ['that is ahead', 'iat', () => ({ claims: { iat: now() + 30 } })],
    ['with iat in milliseconds', 'iat', () => ({ claims: { iat: Date.now() } })],
    ['without jti', 'jti', () => ({ claims: { jti: undefined } })],
    ['with an empty jti', 'jti', () => ({ claims: { jti: '' } })],
    ['with a jti that is too long', 'jti', () => ({ claims: { jti: 'x'.repeat(201) } })],
    ['with a jti that is no text', 'jti', () => ({ claims: { jti: 7 } })],
    ['without ath', 'ath', () => ({ claims: { ath: undefined } })],
    ['with ath of another token', 'ath', () => ({ claims: { ath: hashed(`${session.token}x`) } })],
    [
      'with ath in hex',
      'ath',
      () => ({ claims: { ath: Buffer.from(hashed(session.token), 'base64url').toString('hex') } }),
    ],
    ['without bodyHash', 'body_hash', () => ({ claims: { bodyHash: undefined } })],
    ['with bodyHash of another body', 'body_hash', () => ({ claims: { bodyHash: hashed('{}') } })],
    ['with bodyHash of no body', 'body_hash', () => ({ claims: { bodyHash: hashed('') } })],
  ]
  test.for(CASES)('%s', async ([what, reason, twist]) => {
    const before = await written()
    expectRefused(await execute(twist()), reason, what)
    expect(await written()).toBe(before)
  })

  test('for another address: another host, scheme, port, path, spelling, query or fragment', async () => {
    const { port } = new URL(service.url)
    const path = `/v1/delegated-sessions/${session.id}/execute`
    const ours = `${service.url}${path}`
    const addresses = [
      `https://wallets.example.com${path}`,
      `http://127.0.0.1.example.com:${port}${path}`,
      `http://127.0.0.1@example.com${path}`,
      `http://user@127.0.0.1:${port}${path}`,
      `ftp://127.0.0.1:${port}${path}`,
      `//127.0.0.1:${port}${path}`,
      path,
      `${service.url}/${path}`,
      `${service.url}/x${path}`,
      `${service.url}/x/..${path}`,
      `${service.url}?${path}`,
      `${service.url}#${path}`,
      `${ours}/`,
      `${ours}?`,
      `${ours}?limit=1`,
      `${ours}#x`,
      ours.replace('execute', 'query'),
      ours.replace('execute', 'Execute'),
      ours.replace('execute', '%65xecute'),
      ours.replace('/v1', '/agent/api'),
    ]
    for (const htu of addresses) expectRefused(await execute({ claims: { htu } }), 'htu', htu)
  })

  test('for the address in the Host header, if that is not configured', async () => {
    const path = `/v1/delegated-sessions/${session.id}/query`
    const url = `http://relay.localhost${path}`
    const proof = await proofFor({ ...session, method: 'POST', url, body: '{}' })
    const headers = {
      host: 'relay.localhost',
      'x-forwarded-host': 'relay.localhost',
      'x-api-key': session.apiKey,
      authorization: `DPoP ${session.token}`,
      dpop: proof,
      'content-type': 'application/json',
      'content-length': '2',
    }
    const [answer] = await sendBytes(service.url, [requestText(`POST ${path}`, headers, '{}')])
    expect([answer?.status, answer?.body]).toEqual([401, expect.stringContaining('"proof_htu"')])
  })

  test('for a path that is spelled in another way than it was sent', async () => {
    const path = `/v1/delegated-sessions/${session.id}/query`
    const odd = path.replace('query', '%71uery')
    const sent = async (target: string, proven: string) => {
      const proof = await proofFor({ ...session, method: 'POST', url: service.url + proven, body: '{}' })
      const headers = {
        'x-api-key': session.apiKey,
        authorization: `DPoP ${session.token}`,
        dpop: proof,
        'content-type': 'application/json',
        'content-length': '2',
      }
      const [answer] = await sendBytes(service.url, [requestText(`POST ${target}`, headers, '{}')])
      return answer?.status
    }
    expect(await sent(path, path)).toBe(200)
    expect(await sent(odd, path)).toBe(401)
    expect(await sent(path, odd)).toBe(401)
    expect(await sent(`${path}?`, path)).toBe(200)
  })
})

describe('a proof with another algorithm is refused:', () => {
  const claims = () => ({
    jti: randomBytes(8).toString('hex'),
    htm: 'POST',
    htu: `${service.url}/v1/delegated-sessions/${session.id}/query`,
    iat: now(),
    ath: hashed(session.token),
    bodyHash: hashed('{}'),
  })

  test('none, in every spelling, with and without a signature', async () => {
    for (const alg of ['none', 'None', 'NONE', ''])
      for (const signature of ['', 'AA']) {
        const proof = `${encoded({ typ: 'dpop+jwt', alg, jwk: session.key.jwk })}.${encoded(claims())}.${signature}`
        expectRefused(await session.query({ proof }), signature === '' ? 'malformed' : 'alg', `${alg}.${signature}`)
      }
  })

  test('HS256 with the public key as the secret', async () => {
    const secrets = [JSON.stringify(session.key.jwk), session.key.jwk.x, session.made.boundKeyThumbprint as string]
    for (const secret of secrets) {
      const proof = await new SignJWT(claims())
        .setProtectedHeader({ typ: 'dpop+jwt', alg: 'HS256', jwk: session.key.jwk })
        .sign(Buffer.from(secret))
      expectRefused(await session.query({ proof }), 'alg')
    }
  })

  test('one of another type of key', async () => {
    const proof = await proofFor({ ...session, method: 'POST', url: claims().htu, body: '{}' })
    const [, payload, signature] = proof.split('.')
    for (const alg of ['ES384', 'RS256', 'PS256', 'Ed25519', 'EdDSA', 'ES256K', 'es256']) {
      const header = encoded({ typ: 'dpop+jwt', alg, jwk: session.key.jwk })
      expectRefused(await session.query({ proof: `${header}.${payload}.${signature}` }), 'alg', alg)
    }
  })
})

describe('a DPoP header is refused', () => {
  const url = () => `${service.url}/v1/delegated-sessions/${session.id}/query`
  const good = () => proofFor({ ...session, method: 'POST', url: url(), body: '{}' })

  test('if it is missing, empty, twice there, too long, or no JWT', async () => {
    expectRefused(await session.query({ proof: null }), 'missing')
    const two = [await good(), await good()]
    const headers = `host: localhost\r\nx-api-key: ${session.apiKey}\r\nauthorization: DPoP ${session.token}\r\ncontent-type: application/json\r\ncontent-length: 2\r\nconnection: close\r\n`
    const path = new URL(url()).pathname
    const twice = `POST ${path} HTTP/1.1\r\n${headers}dpop: ${two[0]}\r\nDPoP: ${two[1]}\r\n\r\n{}`
    const [answer] = await sendBytes(service.url, [twice])
    expect([answer?.status, answer?.body]).toEqual([401, expect.stringContaining('"proof_malformed"')])
    const long = await proofFor(
      { ...session, method: 'POST', url: url(), body: '{}' },
      { claims: { x: 'x'.repeat(4096) } },
    )
    const jwe = `${await good()}.AA.AA`
    for (const proof of ['', 'x', 'a.b.c', `${await good()},${await good()}`, `${await good()}=`, long, jwe])
      expectRefused(await session.query({ proof }), proof === 'a.b.c' ? 'malformed' : 'malformed', proof.slice(0, 20))
  })

  test('if its header or claims are not JSON objects, or have crit', async () => {
    const [header, payload, signature] = (await good()).split('.') as [string, string, string]
    const text = (value: string) => Buffer.from(value).toString('base64url')
    for (const wrong of ['null', '[]', '7', '{', '"x"'])
      expect((await session.query({ proof: `${text(wrong)}.${payload}.${signature}` })).status, wrong).toBe(401)
    const crit = encoded({ typ: 'dpop+jwt', alg: 'ES256', jwk: session.key.jwk, crit: ['b64'], b64: false })
    expectRefused(await session.query({ proof: `${crit}.${payload}.${signature}` }), 'malformed')
    expectRefused(await session.query({ proof: `${header}.${text('{}')}.${signature}` }), 'signature')
    expectRefused(await session.query({ proof: `${header}.${payload}.${signature.slice(0, -4)}AAAA` }), 'signature')
    expectRefused(await session.query({ proof: `${header}.${payload}.AA` }), 'signature')
  })
})
